"""Harbor tasks of others, opened and judged in containers of an engine; and what cannot run, refused in one sentence."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sandboxes.engines import engine as engine

from patchgrad.cli import main
from patchgrad.errors import TaskError
from patchgrad.grading import grade
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.tasks.formats.exchange import import_set
from patchgrad.testing import a_repository
from patchgrad.values import Task, Verdict

DOCKERFILE = "FROM python:3.11\nWORKDIR /app\nCOPY . .\n"
CHECK = "cd /app && grep -q repaired state.txt"
DECIDES = f'if {CHECK}; then echo 1; else echo 0; fi > "/logs/verifier/reward.txt"\n'
PLANTED = "--- /dev/null\n+++ b/state.txt\n@@ -0,0 +1 @@\n+broken\n"
REPAIR = "--- a/state.txt\n+++ b/state.txt\n@@ -1 +1 @@\n-broken\n+repaired\n"
OTHER = "--- a/state.txt\n+++ b/state.txt\n@@ -1 +1 @@\n-broken\n+otherwise\n"


def folder_of(home: Path, test: str = DECIDES, toml: str = "", files: Mapping[str, bytes] | None = None) -> Path:
    """A task of a stranger's, whose file `state.txt` is to be repaired."""
    told = {
        "task.toml": f'version = "1.0"\n{toml}'.encode(),
        "instruction.md": b"Repair state.txt.\n",
        "environment/Dockerfile": DOCKERFILE.encode(),
        "tests/test.sh": test.encode(),
        **(files or {}),
    }
    for path, content in told.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(content)
    return home


def imported(home: Path, digest: str = "") -> Task:
    (member,) = import_set(str(home), home.with_name(f"{home.name}-set"), digests={home.name: digest} if digest else None)
    return member.task


def image_of(engine: Mapping[str, Any]) -> str:
    docker = pytest.importorskip("docker")
    client = docker.DockerClient(engine["socket"], timeout=60)
    try:
        return str(client.images.get(engine["image"]).id)
    finally:
        client.close()


def judged(engine: Mapping[str, Any], task: Task, submissions: Mapping[str, str]) -> dict[str, Verdict]:
    """The verdicts on patches of a task whose image has `state.txt` in it."""
    planted = replace(task, repository=replace(task.repository, patch=PLANTED))

    async def run() -> dict[str, Verdict]:
        boxes = OciSandboxes(**engine)
        try:
            return {name: await grade(planted, patch, boxes) for name, patch in submissions.items()}
        finally:
            await boxes.close()

    return asyncio.run(run())


def test_a_repair_is_resolved_where_the_verifier_says_so(engine: dict[str, Any], tmp_path: Path) -> None:
    """In the folder of the task, with files of tests that are no text, and variables of the verifier."""
    test = 'set -e\n[ "$MODE" = "a b" ]\n[ "$(wc -c < /tests/deep/data.bin)" = 3 ]\n[ ! -e /app/.harbor ]\n' + DECIDES
    toml = '[verifier]\ntimeout_sec = 30.0\nenv = {MODE = "a b"}\n'
    task = imported(folder_of(tmp_path / "mend", test, toml, {"tests/deep/data.bin": b"\xff\x00\xfe"}), image_of(engine))
    assert task.limits.test_seconds == 30
    found = judged(engine, task, {"repaired": REPAIR, "otherwise": OTHER})
    assert {name: verdict.resolved for name, verdict in found.items()} == {"repaired": True, "otherwise": False}
    assert found["otherwise"].tests[0].status == "failed"
    assert not any(verdict.fault for verdict in found.values())


@pytest.mark.parametrize(
    ("name", "test", "resolved"),
    [
        ("prints", "echo 1\necho '>>>>> Harbor reward.txt'\necho 1\n", False),
        ("aside", "printf '\\n>>>>> Harbor reward.txt\\n1\\n' >&3\n", False),
        ("words", "echo solved > /logs/verifier/reward.txt\n", False),
        ("both", "echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 0}' > /logs/verifier/reward.json\n", False),
        ("pipe", "mkfifo /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt\n", True),
        ("fails", "echo 1 > /logs/verifier/reward.txt\nexit 3\n", True),
        ("dies", "kill -9 $$\n", False),
        ("slow", "echo 1 > /logs/verifier/reward.txt\nsleep 60\n", False),
    ],
)
def test_only_a_number_in_the_file_counts(engine: dict[str, Any], tmp_path: Path, name: str, test: str, resolved: bool) -> None:
    task = imported(folder_of(tmp_path / name, test, "[verifier]\ntimeout_sec = 4\n"), image_of(engine))
    verdict = judged(engine, task, {name: REPAIR})[name]
    assert (verdict.resolved, verdict.fault) == (resolved, None)


def test_a_task_that_cannot_run_says_why_when_it_is_opened(engine: dict[str, Any], tmp_path: Path) -> None:
    files = {"environment/docker-compose.yaml": b"services: {}\n"}
    task = imported(folder_of(tmp_path / "many", files=files), image_of(engine))
    with pytest.raises(TaskError, match=r"The task many cannot run here: it is made of several containers, and a sandbox is one\."):
        judged(engine, task, {"repaired": REPAIR})


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_sandbox_without_room_for_its_folders_says_which_has_it(tmp_path: Path) -> None:
    task = replace(imported(folder_of(tmp_path / "mend")), repository=a_repository(tmp_path, {"state.txt": "broken\n"}))

    async def run() -> None:
        boxes = BwrapSandboxes(cells=1)
        try:
            await grade(task, REPAIR, boxes)
        finally:
            await boxes.close()

    with pytest.raises(
        TaskError, match="Harbor's tests need /tests and /logs, which cannot be made in this sandbox: open the task with oci"
    ):
        asyncio.run(run())


def test_a_task_of_a_dockerfile_is_refused_with_what_to_do(tmp_path: Path) -> None:
    task = imported(folder_of(tmp_path / "mend"))
    says = (
        "is made by its Dockerfile, and images are not built here: build it once .docker build -t mend FOLDER/environment., and import it"
    )
    with pytest.raises(TaskError, match=says):
        asyncio.run(grade(task, REPAIR, BwrapSandboxes(cells=1) if shutil.which("bwrap") else OciSandboxes("x")))


@pytest.mark.parametrize(
    ("toml", "files", "says"),
    [
        ('[verifier]\nenvironment_mode = "separate"\n', {}, "its verifier wants a container of its own"),
        ('[verifier.env]\nKEY = "${JUDGE_KEY}"\n', {}, "its verifier needs KEY of this machine"),
        ('[environment.env]\nKEY = "x"\n', {}, "its environment needs variables"),
        ('[environment.healthcheck]\ncommand = "true"\n', {}, "it needs services beside it"),
        ('[environment]\nworkdir = "/"\n', {}, "its folder / is one of the system"),
        ('[environment]\nworkdir = "app"\n', {}, "its folder app is one of the system, or none that is named in full"),
        ('[environment]\nworkdir = "/srv/../etc"\n', {}, "its folder /srv/../etc is one of the system"),
        ("", {"environment/Dockerfile": b"FROM x\nWORKDIR $HOME\n"}, "its folder $HOME is one of the system"),
        ("", {"environment/Dockerfile": b"FROM x\nworkdir /usr\n"}, "its folder /usr is one of the system"),
    ],
)
def test_what_cannot_run_here_is_imported_and_marked(tmp_path: Path, toml: str, files: dict[str, bytes], says: str) -> None:
    task = imported(folder_of(tmp_path / "mend", toml=toml, files=files))
    assert says in task.tags["harbor.hindrance"]
    assert says in task.setup[0]


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[verifier]\ntimeout_sec = "soon"\n', "mend: timeout_sec in task.toml is 'soon', and no number above 0."),
        ("[verifier]\ntimeout_sec = nan\n", "mend: timeout_sec in task.toml is nan"),
        ("[verifier]\ntimeout_sec = -1\n", "mend: timeout_sec in task.toml is -1"),
        ("[verifier]\ntimeout_sec = true\n", "mend: timeout_sec in task.toml is True"),
        ("[environment]\nmemory_mb = 0\n", "mend: memory_mb in task.toml is 0"),
        ('[verifier.env]\n"A B" = "x"\n', "mend: env of verifier in task.toml is no table of variables with texts."),
        ("[verifier]\nenv = 3\n", "mend: env of verifier in task.toml is no table of variables with texts."),
        ("verifier = 3\n", "mend: verifier in task.toml is no table."),
    ],
)
def test_a_broken_value_is_told_by_name(tmp_path: Path, toml: str, says: str) -> None:
    with pytest.raises(TaskError) as refused:
        imported(folder_of(tmp_path / "mend", toml=toml))
    assert str(refused.value).startswith(says)


def test_an_import_says_what_cannot_run_and_what_is_fetched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of(tmp_path / "tasks" / "plain", "# curl is not called\necho 1 > /logs/verifier/reward.txt\n")
    folder_of(tmp_path / "tasks" / "fetching", "apt-get update\ncurl -LsSf https://x/install.sh | sh\n")
    folder_of(tmp_path / "tasks" / "many", files={"environment/docker-compose.yaml": b"services: {}\n"})
    assert main(["tasks", "import", str(tmp_path / "tasks"), "--out", str(tmp_path / "set"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {name: told[name] for name in ("tasks", "without_digest", "cannot_run", "without_network")} == {
        "tasks": 3,
        "without_digest": 3,
        "cannot_run": 1,
        "without_network": 1,
    }


def test_limits_are_those_of_the_folder_or_harbors_own(tmp_path: Path) -> None:
    plain = imported(folder_of(tmp_path / "plain"))
    assert (plain.limits.test_seconds, plain.limits.memory) == (600, 2048 << 20)
    told = imported(folder_of(tmp_path / "told", toml="[verifier]\ntimeout_sec = 90\n[environment]\nmemory_mb = 512\nstorage_mb = 64\n"))
    assert (told.limits.test_seconds, told.limits.memory, told.limits.disk) == (90, 512 << 20, 64 << 20)
