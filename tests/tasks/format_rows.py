"""Rows as each format has them, made by hypothesis: our own imitations, with what real rows sampling_z with."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from patchgrad.tasks.sets import Member
from patchgrad.values import Checks, HiddenFile, Limits, Repository, Task

PATCHES = (
    "diff --git a/box.py b/box.py\nindex 1a2b3c4..5d6e7f8 100644\n--- a/box.py\n+++ b/box.py\n@@ -1,2 +1,2 @@\n-a = 1\n+a = 2\n b = 3\n",
    "diff --git a/new.py b/new.py\nnew file mode 100644\nindex 0000000..5d6e7f8\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 'ü'\n",
    "--- a/box.py\n+++ b/box.py\n@@ -7 +7 @@\n-  return 1\n\\ No newline at end of file\n+  return 2\n\\ No newline at end of file\n",
    "diff --git a/old.py b/new.py\nsimilarity index 90%\nrename from old.py\nrename to new.py\n",
)
words = st.text(max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
tests = st.lists(words, max_size=4)
listed = st.none() | tests | tests.map(json.dumps) | tests.map(lambda names: json.dumps(names, indent=1, ensure_ascii=False)) | st.just("")
patches = st.none() | st.just("") | st.sampled_from(PATCHES)
maybe = st.none() | words
names = st.text(min_size=1, max_size=12)
config = st.fixed_dictionaries({"log_parser": maybe, "test_cmd": maybe | st.lists(words, max_size=2), "pip_packages": json_values})
outcomes = st.dictionaries(words, st.just({"run": "PASS", "test": "FAIL", "fix": "PASS"}), max_size=3)
statuses = st.dictionaries(words, st.sampled_from(["PASSED", "FAILED", "ERROR"]), max_size=4).map(json.dumps)

_BENCH = {
    "repo": maybe | st.sampled_from(["django/django", "a/b"]),
    "instance_id": names,
    "base_commit": maybe,
    "patch": patches,
    "test_patch": patches,
    "problem_statement": maybe,
    "hints_text": json_values,
    "created_at": maybe | st.integers(0, 2**41),
    "version": maybe,
    "FAIL_TO_PASS": listed,
    "PASS_TO_PASS": listed,
}
_RAN = st.fixed_dictionaries(
    {
        "test_file_names": st.lists(st.sampled_from(["test_1.py", "test_2.py"]), max_size=2),
        "test_file_codes": st.lists(words, max_size=2),
        "old_commit_res_stdout": maybe
        | st.just("== short test summary info ==\nPASSED r2e_tests/test_1.py::A::b\nFAILED r2e_tests/test_1.py::c - x"),
    }
)
_METADATA = st.fixed_dictionaries(
    {"instance_id": names, "problem_statement": words, "golden_patch": st.sampled_from(PATCHES)},
    optional={"instance_dict": st.fixed_dictionaries(_BENCH).map(json.dumps), "split": maybe, "dataset_name": maybe},
)

COLUMNS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "swebench": {**_BENCH, "environment_setup_commit": maybe, "difficulty": maybe},
    "swebench-extra": {**_BENCH, "meta": st.fixed_dictionaries({"is_lite": st.booleans()}), "license": maybe},
    "swegym": _BENCH,
    "swerebench": {**_BENCH, "docker_image": maybe, "install_config": config, "requirements": maybe, "meta": json_values},
    "swerebench-v2": {**_BENCH, "image_name": maybe, "install_config": config, "language": maybe, "interface": maybe},
    "swesmith": {
        **{name: _BENCH[name] for name in ("instance_id", "repo", "FAIL_TO_PASS", "PASS_TO_PASS", "problem_statement")},
        "patch": st.sampled_from(PATCHES),
        "image_name": maybe,
    },
    "r2e-gym": {
        "repo_name": maybe,
        "docker_image": names,
        "commit_hash": maybe,
        "problem_statement": maybe | words.map(lambda text: f"[ISSUE]\n{text}\n[/ISSUE]"),
        "expected_output_json": statuses,
        "execution_result_content": _RAN.map(json.dumps),
        "parsed_commit_content": st.just(
            '{"file_diffs": [{"header": {"file": {"path": "a.py"}}, "old_file_content": "1", "new_file_content": "2"}]}'
        ),
    },
    "multi-swe": {
        "org": names,
        "repo": names,
        "number": st.integers(1, 9999),
        "title": maybe,
        "body": maybe,
        "base": st.fixed_dictionaries({"label": maybe, "ref": maybe, "sha": maybe}),
        "resolved_issues": st.lists(st.fixed_dictionaries({"number": st.integers(), "title": maybe, "body": maybe}), max_size=2),
        "fix_patch": patches,
        "test_patch": patches,
        **dict.fromkeys(("f2p_tests", "p2p_tests", "s2p_tests", "n2p_tests", "fixed_tests"), outcomes),
        "run_result": json_values,
    },
    "nemotron": {
        "responses_create_params": st.fixed_dictionaries({"input": st.just([]), "metadata": _METADATA}),
        "agent_ref": json_values,
    },
}
unknown = st.dictionaries(st.text(max_size=8).filter(lambda name: not name.startswith("patchgrad_")), json_values, max_size=3)


@st.composite
def rows(draw: st.DrawFn, format: str) -> dict[str, Any]:
    """A row of a format, its columns in any order, some more among them."""
    row = {**draw(unknown), **draw(st.fixed_dictionaries(COLUMNS[format]))}
    return {name: row[name] for name in draw(st.permutations(list(row)))}


digests = st.text("0123456789abcdef", min_size=64, max_size=64)
repositories = st.one_of(
    digests.map(lambda digest: Repository("archive", f"archives/{digest}.tar", digest)),
    st.builds(Repository, st.just("git"), words, words, st.sampled_from(("", *PATCHES))),
    st.builds(Repository, st.just("image"), words, st.just("") | digests.map(lambda d: f"sha256:{d}"), st.sampled_from(("", *PATCHES))),
)
_texts = st.lists(words, max_size=3).map(tuple)
checks = st.builds(
    Checks,
    _texts,
    _texts,
    files=st.lists(st.builds(HiddenFile, words, words), max_size=2).map(tuple),
    protected=_texts,
    command=st.sampled_from([("pytest",), ("pytest", "-x"), ("bash", "-c", "make"), ()]),
    parser=st.sampled_from(["report", "parse_log_jq"]),
    patch=st.sampled_from(("", *PATCHES)),
)
tasks = st.builds(
    Task,
    names,
    words,
    repositories,
    checks,
    packages=_texts,
    setup=_texts,
    limits=st.builds(Limits, test_seconds=st.floats(1, 100)),
    tags=st.dictionaries(st.sampled_from(["source", "package", "level", "split", "version", "x"]), words),
)
members = st.builds(Member, tasks, st.dictionaries(words, words, max_size=2), st.sampled_from(("", *PATCHES)), words)
