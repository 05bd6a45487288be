"""A submission -> a verdict: apply, put the tests back, run them, believe only what is signed. Paper section 15, rules of SWE-bench 5."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from patchgrad.contracts import Result, Sandbox, Sandboxes
from patchgrad.errors import SandboxFault, SandboxLost, TaskError
from patchgrad.grading.conditions import USUAL, Conditions
from patchgrad.grading.guard import Entries, Finding, Guard, added, folders, outside, touched
from patchgrad.grading.logs import reader
from patchgrad.grading.output import read_output
from patchgrad.grading.report import TestRun, read_report
from patchgrad.grading.rules import outcomes
from patchgrad.grading.sealing import seal
from patchgrad.grading_plugin import FILES
from patchgrad.grading_plugin.patchgrad_names import NAME
from patchgrad.grading_plugin.patchgrad_sealed import sealed
from patchgrad.rollouts.deadline import within
from patchgrad.values import Task, Verdict, digest

_TRIES = (("git", "apply", "--whitespace=nowarn", "-"), ("patch", "--batch", "--fuzz=5", "-p1"))
_NAMES_THE_GRADER = re.compile(rf"^\+.*({'|'.join(name.removesuffix('.py') for name in FILES)}|PATCHGRAD_NONCE|{NAME})", re.MULTILINE)
_CROWD = 'for i in $(seq "$1"); do (while :; do :; done) </dev/null >/dev/null 2>&1 3>&- & done'
_LAUNCH = "import sys; del sys.path[0]; from patchgrad_report import main; main()"  # path[0] is the repository
_OWN = ("-p", "patchgrad_report", "-p", "no:cacheprovider", "--rootdir=/testbed")


@dataclass(frozen=True, slots=True)
class _Found:
    """What a grading has established so far."""

    stages: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    run: TestRun | None = None

    def tamper(self, *, sure: bool) -> tuple[str, ...]:
        """Evidence of tampering: all of it, or what no honest attempt has a reason for."""
        found = [finding.evidence for finding in self.findings if finding.evidence is not None and (finding.sure or not sure)]
        return (*found, *(self.run.tamper if self.run else ()))


@dataclass(frozen=True, slots=True)
class Look:
    """How closely a run of tests is looked at: `modules` are loaded first, and at the end the functions of `deciders` compared.

    Tests with `copies`, texts that `patchgrad_copies.Copies` reads, are run in copies of the process, one for each text, and no other
    test is run if they are run `alone`.
    """

    modules: Sequence[str] = ()
    deciders: Sequence[str] = ()
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alone: bool = False


async def grade(task: Task, submission: str, sandboxes: Sandboxes, *, run_empty: bool = False, conditions: Conditions = USUAL) -> Verdict:
    """Judge a patch in a sandbox of its own.

    An empty submission is not run, as in SWE-bench: nothing changed, so the failing tests still fail. `run_empty` runs it all the
    same, which is how a task is checked against its unrepaired repository; other `conditions` find tests that depend on them. A broken
    sandbox gives a verdict with a `fault`, which is no judgement; one that the submission makes of no use is evidence against it. A task
    that cannot be graded raises `TaskError`.
    """
    started = time.monotonic()
    argv = command(task)
    found, fault = _Found(), None
    if (aim := outside(submission)) is not None:
        found = _Found(findings=(Finding(aim, f"reaches outside the repository: {aim}", sure=True),))
    elif submission.strip() or run_empty:
        try:
            found = await _judge(task, submission, argv, sandboxes, conditions)
        except SandboxLost as lost:
            found = _Found(findings=(Finding("", str(lost), sure=True),))
        except SandboxFault as broken:
            fault = str(broken)
    tests = outcomes(task.checks, found.run.statuses if found.run else {})
    took = time.monotonic() - started
    verdict = Verdict(task.id, digest(submission), found.stages, tests, found.tamper(sure=True), fault, took)
    return verdict if verdict.resolved else replace(verdict, tamper=found.tamper(sure=False))


async def run_tests(task: Task, sandboxes: Sandboxes) -> TestRun:
    """How the tests of a task's repository end as it is handed out, without a submission and without what the grader hides."""
    argv = command(task)
    async with await sandboxes.open(task) as sandbox:
        return await (run_hidden if task.checks.parser == "report" else _print)(sandbox, argv, task, USUAL)


async def _judge(task: Task, submission: str, argv: Sequence[str], sandboxes: Sandboxes, conditions: Conditions) -> _Found:
    async with laid(task, submission, sandboxes) as (sandbox, applied, findings):
        if not applied:
            return _Found()
        if conditions.crowd:
            await _exec(sandbox, ("bash", "-c", _CROWD, "bash", str(conditions.crowd)), 10.0)
        reported = task.checks.parser == "report"
        run = await (run_hidden(sandbox, argv, task, conditions, submission) if reported else _print(sandbox, argv, task, conditions))
    return _Found(run.stages, findings, run)


@asynccontextmanager
async def laid(task: Task, submission: str, sandboxes: Sandboxes) -> AsyncIterator[tuple[Sandbox, bool, tuple[Finding, ...]]]:
    """A sandbox in which the submission and the hidden tests lie, whether the submission could be applied, and what was put back of it.

    Where it could not, nothing else was done. Raises `SandboxFault`, and `TaskError` where the hidden tests do not fit.
    """
    sandbox = await sandboxes.open(task)
    try:
        if submission.strip() and not await _apply(sandbox, submission):
            yield sandbox, False, ()
            return
        findings = await _put_back(sandbox, Guard(task))
        if _NAMES_THE_GRADER.search(submission):
            findings = (*findings, Finding("", "names the grader", sure=True))
        for file in task.checks.files:
            await sandbox.write(f"/testbed/{file.path}", file.content.encode())
        if task.checks.patch.strip() and not await _apply(sandbox, task.checks.patch):
            raise TaskError(f"Task {task.id}: the patch with its hidden tests does not fit its repository.")
        await seal(sandbox, task)
        yield sandbox, True, findings
    finally:
        await sandbox.close()


async def _apply(sandbox: Sandbox, submission: str) -> bool:
    """Is the patch in?

    SWE-bench tries `git apply --reject` between these two. It succeeds exactly when the plain form does, and leaves half a patch
    where it fails, which then spoils the third; so it is left out.
    """
    for argv in _TRIES:
        result = await _exec(sandbox, argv, 60.0, stdin=submission.encode())
        if result.state == "ok" and result.exit_code == 0:
            return True
    return False


async def _put_back(sandbox: Sandbox, guard: Guard) -> tuple[Finding, ...]:
    """Undo every change that is no solution: what was put back."""
    entries = (await sandbox.snapshot()).entries
    inside = [path for path in entries if path.startswith(".git/") and path != ".git/index"]
    if inside:
        return (Finding(inside[0], f"changed {inside[0]}", sure=True),)
    suspects = guard.suspects(entries)
    if not suspects:
        return ()
    known = (await _git(sandbox, "ls-tree -r -z --name-only HEAD")).decode("utf-8", "surrogateescape").split("\0")[:-1]
    findings = [finding for path in suspects if (finding := await _look(sandbox, guard, path, entries, set(known))) is not None]
    await _restore(sandbox, findings, known)
    return tuple(findings)


async def _look(sandbox: Sandbox, guard: Guard, path: str, entries: Entries, known: set[str]) -> Finding | None:
    existed = path in known
    before = await _git(sandbox, 'show "HEAD:$1"', path) if existed and guard.compares(path) else None
    return guard.judge(path, entries[path], before, existed)


async def _restore(sandbox: Sandbox, findings: Sequence[Finding], known: Sequence[str]) -> None:
    paths = {finding.path for finding in findings}
    back = [name for name in known if name in paths or any(above in paths for above in folders(name))]
    steps = (
        (("xargs", "-0", "rm", "-rf", "--"), sorted(paths)),
        (("git", "--literal-pathspecs", "checkout", "-q", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul"), back),
    )
    for argv, names in steps:
        if names:
            stdin = "".join(f"{name}\0" for name in names).encode("utf-8", "surrogateescape")
            done = await _exec(sandbox, argv, 60.0, stdin=stdin)
            if done.exit_code != 0:
                raise SandboxFault(f"The grader could not put the tests back: {done.output[:200]!r}.")


async def run_hidden(
    sandbox: Sandbox, argv: Sequence[str], task: Task, conditions: Conditions, submission: str = "", look: Look | None = None
) -> TestRun:
    """Run the tests in a fresh process. The key of its report goes in through the standard input, which nothing later can read.

    Files that the submission adds can be imported, and are not looked through for tests.
    """
    key, guard, new, look = secrets.token_hex(32), Guard(task), added(submission), look or Look()
    copies = {name: [sealed(text, key, f"{name} {number}") for number, text in enumerate(texts)] for name, texts in look.copies.items()}
    known = {
        "touched": sorted(path for path in touched(submission) if path in new or not guard.guards(path)),
        "added": new,
        "modules": [*look.modules],
        "deciders": [*look.deciders],
        "places": [path for path in guard.places() if guard.guards(path)],
        "alone": look.alone,
        "copies": copies,
    }
    argv = (*argv, *(f"--ignore={path}" for path in new if path.endswith(".py") and path not in guard.deciding))
    variables = {"PATCHGRAD_NONCE": "stdin", **conditions.variables}
    result = await _exec(sandbox, argv, task.limits.test_seconds, variables, f"{key}\n{json.dumps(known)}\n".encode())
    return read_report(result, key)


async def _print(sandbox: Sandbox, argv: Sequence[str], task: Task, conditions: Conditions) -> TestRun:
    """Run a command that is not pytest's, and read what it prints. The descriptor of a report holds far more of it than a command's output.

    Tests can print the lines of others into such a log; the exit code is all that speaks against it.
    """
    result = await _exec(sandbox, argv, task.limits.test_seconds, conditions.variables)
    if result.state != "ok":
        return TestRun({}, 0, False, (), f"the test command {'ran out of time' if result.state == 'timeout' else 'died'}")
    return read_output(result.report.decode(errors="replace"), reader(task.checks.parser), result.exit_code)


async def _git(sandbox: Sandbox, command: str, *arguments: str) -> bytes:
    result = await _exec(sandbox, ("bash", "-c", f"git {command} >&3", "git", *arguments), 60.0)
    if result.exit_code != 0:
        raise SandboxFault(f"git {command} failed in the grader's sandbox: {result.output[:200]!r}.")
    return result.report


async def _exec(sandbox: Sandbox, argv: Sequence[str], seconds: float, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Result:
    async with within(seconds, argv[0]):
        return await sandbox.exec(argv, seconds, env, stdin)


def command(task: Task) -> tuple[str, ...]:
    """`("pytest", "-x")` -> `python -m pytest -x`, our options, and the test files unless the command names some itself.

    It is started so that nothing of the repository can be imported in the place of an installed module (`patchgrad_report.main`).
    A command whose output a reader of logs is to read is run as it stands: `("make", "test")` -> `bash -c '"$@" >&3 2>&1' bash make test`.
    """
    name, *rest = task.checks.command or ("",)
    if name and task.checks.parser != "report":
        reader(task.checks.parser)
        return ("bash", "-c", '"$@" >&3 2>&1', "bash", name, *rest)
    if name != "pytest":
        raise TaskError(f"Task {task.id} wants a report of {name!r}, and only pytest makes one: name a reader of logs as its parser.")
    files = sorted({test.split("::")[0] for test in (*task.checks.fail_to_pass, *task.checks.pass_to_pass)})
    places = {*files, *(folder for file in files for folder in folders(file))}
    named = any(argument.split("::")[0].rstrip("/") in places for argument in rest)
    return ("python", "-c", _LAUNCH, *rest, *_OWN, *(() if named else files))
