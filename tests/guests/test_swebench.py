"""Recorded logs are graded as SWE-bench itself grades them, which `make guests` installs: every way that a test or a run can end."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from tests.guests.environments import told

from patchgrad.grading.output import END, START
from patchgrad.grading.predictions import Prediction
from patchgrad.grading.recorded import Recording, judge
from patchgrad.grading.reports import instance_report
from patchgrad.grading.rows import Row
from patchgrad.values import Checks

pytestmark = pytest.mark.slow
MEND, KEEP = ("a.py::mend",), ("a.py::keep", "a.py::cut[two words")
STATUSES = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS", "")


def marked(*lines: str, code: int | None = None) -> str:
    after = "" if code is None else f">>>>> Test Exit Code: {code}\n"
    return "\n".join((f"+ : '{START}'", *lines, f"+ : '{END}'", after))


def ended(mend: str, keep: str, cut: str = "PASSED a.py::cut[two words, three]") -> tuple[str, ...]:
    return (*(f"{status} {name}" for status, name in ((mend, *MEND), (keep, KEEP[0])) if status), cut)


GOOD = ended("PASSED", "PASSED")
LOGS = {
    **{f"{mend}-{keep}": marked(*ended(mend, keep)) for mend, keep in itertools.product(STATUSES, STATUSES)},
    "with a reason": marked("FAILED a.py::mend - assert 1 == 2", *GOOD[1:]),
    "cut ids that disagree": marked(*GOOD, "FAILED a.py::cut[two words, four]"),
    "cut id lost": marked(*GOOD[:2]),
    "code 0": marked(*GOOD, code=0),
    "code 1 and no failure": marked(*GOOD, code=1),
    "code 1 and a failure": marked(*GOOD, "FAILED a.py::other", code=1),
    "code -9": marked(*GOOD, code=-9),
    "no start": "\n".join(GOOD) + f"\n+ : '{END}'\n",
    "no end": f"+ : '{START}'\n" + "\n".join(GOOD),
    "outside of the markers": marked() + "\n".join(GOOD),
    "nothing": "",
    "patch": f">>>>> Patch Apply Failed\n{marked(*GOOD)}",
    "reset": f">>>>> Reset Failed\n{marked(*GOOD)}",
    "errored": f">>>>> Tests Errored\n{marked(*GOOD)}",
    "late": f"{marked(*GOOD)}\n>>>>> Tests Timed Out\n",
    "memory": "fork: Cannot allocate memory\n",
    "module": "E   ModuleNotFoundError: No module named 'x'\n",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """SWE-bench's report on each log."""
    words = {"instance_id": "a__b-1", "image": "x", "repo": "a/b", "version": "1", "eval_script": "true\n"}
    row = {**words, "FAIL_TO_PASS": MEND, "PASS_TO_PASS": KEEP, "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail"}
    prediction = {"instance_id": "a__b-1", "model_name_or_path": "mine", "model_patch": "a patch"}
    path = tmp_path_factory.mktemp("swebench") / "told.json"
    path.write_text(json.dumps({"row": row, "prediction": prediction, "logs": LOGS}))
    said: dict[str, Any] = told("swebench", Path(__file__).with_name("with_swebench.py"), str(path))
    return said


@pytest.mark.parametrize("name", LOGS)
def test_a_log_has_the_report_of_swe_bench(found: dict[str, Any], name: str) -> None:
    asked = Prediction("a__b-1", "mine", "a patch")
    graded = judge(Row("a__b-1", Checks(MEND, KEEP, parser="parse_log_pytest")), asked, Recording("x", {"test_output.txt": LOGS[name]}))
    assert instance_report(asked, graded) == found[name]
