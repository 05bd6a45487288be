"""Judge a repository by hidden tests, and write the reward: a script for a Harbor task's container, which has Python 3.7 and no patchgrad.

    python patchgrad_verify.py /testbed /logs/verifier/reward.txt

`checks.json` beside it names the tests. It is loaded a second time by pytest, as a plugin that notes how each test ended. The rule is
that of SWE-bench 5: a skipped test to keep holds, a skipped or missing test to mend does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_OUTCOMES = "PATCHGRAD_OUTCOMES"
_ENDED: dict[str, str] = {}
# as `python -m pytest`, but the repository cannot put a module of its own in the place of pytest or of this one
_START = (
    "import os, sys; sys.path[0] = sys.argv.pop(1); import pytest, patchgrad_verify; "
    "sys.path[0] = os.getcwd(); sys.exit(pytest.main(sys.argv[1:]))"
)


def pytest_runtest_logreport(report: Any) -> None:
    """How one phase of a test ended: a failure in any phase is one."""
    expected = hasattr(report, "wasxfail")
    status = "xfailed" if expected and report.skipped else "xpassed" if expected and report.passed else str(report.outcome)
    if report.when != "call" and status == "failed":
        _ENDED[report.nodeid] = "error"
    elif report.when == "call" or status in ("skipped", "xfailed"):
        _ENDED[report.nodeid] = status


def pytest_sessionfinish() -> None:
    """Tell what was noted."""
    Path(os.environ[_OUTCOMES]).write_text(json.dumps(_ENDED))


def judge(checks: dict[str, Any], repository: Path) -> bool:
    """Do all tests hold, with the hidden ones in place of whatever the submission made of them?"""
    named = [line[6:].split("\t")[0].strip() for line in checks["patch"].splitlines() if line.startswith(("--- a/", "+++ b/"))]
    for path in (":(glob)**/conftest.py", *checks["protected"], *_test_files(checks), *named):
        subprocess.run(["git", "checkout", "-q", "HEAD", "--", path], cwd=repository, check=False, stderr=subprocess.DEVNULL)
    for path, content in checks["files"].items():
        target = repository / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    if checks["patch"].strip():
        done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=repository, input=checks["patch"].encode(), check=False)
        if done.returncode:
            return False
    ended = run(checks, repository)
    good = ("passed",) if checks["strict"] else ("passed", "xfailed")
    mended = all(ended.get(test) in good for test in checks["fail_to_pass"])
    return mended and all(ended.get(test) in (*good, *(() if checks["strict"] else ("skipped",))) for test in checks["pass_to_pass"])


def run(checks: dict[str, Any], repository: Path) -> dict[str, str]:
    """Test id -> how it ended, of the files that hold the tests; nothing where the run was not whole."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "outcomes.json"
        here = str(Path(__file__).resolve().parent)
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", _OUTCOMES: str(told)}
        command = [sys.executable, "-c", _START, here, *checks["arguments"], "-p", "patchgrad_verify", "-p", "no:cacheprovider"]
        try:
            command += [f"--rootdir={repository}", *_test_files(checks)]
            subprocess.run(command, cwd=repository, env=environment, check=False, timeout=checks["seconds"])
        except subprocess.TimeoutExpired:
            return {}
        return dict(json.loads(told.read_text())) if told.exists() else {}


def _test_files(checks: dict[str, Any]) -> list[str]:
    return sorted({test.split("::")[0] for test in (*checks["fail_to_pass"], *checks["pass_to_pass"])})


def main(repository: str, reward: str) -> None:
    """Write `1` or `0`."""
    checks = json.loads(Path(__file__).with_name("checks.json").read_text())
    Path(reward).write_text("1\n" if judge(checks, Path(repository)) else "0\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
