"""Runs attacks and looks at what is left: in the sandbox, in the next one, and on the host."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from patchgrad.contracts import Result, Sandbox, Sandboxes
from patchgrad.errors import SandboxFault, SandboxLost
from patchgrad.grading import Grader
from patchgrad.testing.attacks.attack import Attack
from patchgrad.testing.attacks.noticing import GRADER
from patchgrad.testing.attacks.patches import FILES, REPAIR, TEST_SECONDS, Change, Forgery
from patchgrad.testing.attacks.processes import HOARDING, PROCESSES
from patchgrad.testing.attacks.tricks import KERNEL, NETWORK, TRICKS
from patchgrad.testing.tasks import a_task
from patchgrad.values import Checks, Limits, Repository, Task, Verdict

SANDBOX = (*PROCESSES, *HOARDING, *TRICKS, *KERNEL, *NETWORK)
LIMITS = Limits(command_seconds=20.0, memory=256 << 20, disk=64 << 20, processes=64)
WORD = "another-sandbox-s-secret"
SWITCHES = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")
CLEAN = "cd /testbed; git status --short; ls -A /testbed /tmp /tmp/home /dev/shm; ps -e --no-headers | grep -cv 'ps\\|grep\\|bash'"


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one attack; `note` says what did not hold, or how it ended."""

    name: str
    held: bool
    note: str


class Suite(Protocol):
    """Attacks on one backend, each of which is told as soon as it has been tried; `repository` holds `FILES`."""

    async def __call__(
        self, backend: Callable[[], Sandboxes], repository: Repository, *, on_finding: Callable[[Finding], None]
    ) -> list[Finding]: ...


@dataclass(frozen=True, slots=True)
class Host:
    """What an attack may not change: a file, some switches of the kernel, our own mounts, an open sandbox with a process in it, and what
    a `fresh` sandbox holds."""

    canary: Path
    other: Sandbox
    state: str
    switches: tuple[str, ...]
    fresh: str

    @classmethod
    async def of(cls, folder: Path, boxes: Sandboxes, task: Task) -> Host:
        canary = folder / "canary"
        canary.write_text("canary\n")
        canary.chmod(0o644)
        fresh = (await _listing(boxes, task)).output
        other = await boxes.open(task)
        await other.write("other", f"{WORD}\n".encode())
        await other.run(f"echo {WORD} > /tmp/other; echo {WORD} > /dev/shm/other; sleep 98765 >/dev/null 2>&1 &")
        return cls(canary, other, (await other.snapshot()).address, _switches(), fresh)

    async def changed(self) -> str:
        """What is not as it was, or nothing."""
        if self.canary.read_text() != "canary\n":
            return "a file of the host was changed"
        if _switches() != self.switches:
            return "a switch or a mount of the host was changed"
        left = await self.other.run("cat /testbed/other /tmp/other /dev/shm/other; ps -e | grep -c sleep")
        if left.output.split() != [WORD, WORD, WORD, "1"]:
            return f"another sandbox was changed: {left.output[:100]!r}"
        return "" if (await self.other.snapshot()).address == self.state else "the files of another sandbox were changed"


def here(attacks: Sequence[Attack] = SANDBOX) -> tuple[Attack, ...]:
    """The attacks that mean something on this machine."""
    return tuple(attack for attack in attacks if attack.machine in ("", platform.machine()))


def _switches() -> tuple[str, ...]:
    """The kernel's switches, and the mounts that a sandbox makes for itself: none of them belongs where we can see it."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "/testbed" in line or " - tmpfs nest " in line]
    return (*(Path(path).read_text() for path in SWITCHES if Path(path).exists()), *mounts)


async def attack_sandbox(
    backend: Callable[[], Sandboxes],
    repository: Repository,
    attacks: Sequence[Attack] = (),
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> list[Finding]:
    """Every program in a fresh episode of one backend, beside another open sandbox; `repository` holds `FILES`."""
    findings = []
    os.environ["PATCHGRAD_HOST_SECRET"] = "1"  # what a sandbox must not see
    try:
        async with opened(backend, repository) as (boxes, task, folder):
            host = await Host.of(folder, boxes, task)
            for attack in attacks or here():
                finding = await try_program(boxes, task, attack, host)
                findings.append(finding)
                on_finding(finding)
    finally:
        del os.environ["PATCHGRAD_HOST_SECRET"]
    return findings


@asynccontextmanager
async def opened(backend: Callable[[], Sandboxes], repository: Repository) -> AsyncIterator[tuple[Sandboxes, Task, Path]]:
    """A backend, the task that is attacked, and a folder that every user may enter; all of it ends with the block."""
    boxes = backend()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            yield boxes, a_task("attack", repository=repository, limits=LIMITS), folder
        finally:
            await boxes.close()


async def _listing(boxes: Sandboxes, task: Task) -> Result:
    sandbox = await boxes.open(task)
    try:
        return await sandbox.run(CLEAN)
    finally:
        await sandbox.close()


async def try_program(boxes: Sandboxes, task: Task, attack: Attack, host: Host) -> Finding:
    """One program in a fresh episode, and what it left there, in the next one and on the host."""
    try:
        try:
            async with await boxes.open(task) as sandbox:
                note = await _programs(sandbox, attack, host)
        except SandboxLost as lost:
            note = "" if "lost" in attack.ends else f"lost the sandbox: {lost}"
        changed = note or await host.changed()
        left = changed or (await _listing(boxes, task)).output
    except SandboxFault as fault:
        return Finding(attack.name, False, f"the sandbox broke: {fault}")
    if changed:
        return Finding(attack.name, False, changed)
    if left != host.fresh:
        return Finding(attack.name, False, f"the next episode does not start clean: {left[-200:]!r}")
    return Finding(attack.name, True, "")


async def _programs(sandbox: Sandbox, attack: Attack, host: Host) -> str:
    """Why the attack was not held, or nothing."""
    said, result = "", Result("", 0, "ok")
    for step in attack.steps:
        command = step.replace("PATCHGRAD_CANARY", str(host.canary)).replace("PATCHGRAD_OTHER", WORD)
        result = await sandbox.run(command, attack.seconds)
        said += result.output
    if "BREACH" in said:
        return "not held: " + next(line for line in said.splitlines() if "BREACH" in line)[:200]
    if result.state not in attack.ends:
        return f"ended as {result.state!r} instead of {' or '.join(attack.ends)}: {said[-200:]!r}"
    if result.state == "ok" and "HELD" not in said and not attack.spoils:
        return f"was not tried: {said[-200:]!r}"
    for path in ("a", "b", "c", "pipe", "file", "loop", "self/self/a", "d"):  # a reader of the host that follows the agent's links
        with suppress(OSError):
            if b"canary" in await asyncio.wait_for(sandbox.read(path), 20):
                return f"a link led the host's reader out: {path}"
    return await (_answers if attack.spoils else _goes_on)(sandbox)


async def _goes_on(sandbox: Sandbox) -> str:
    """Why an attempt could not go on in its shell, or nothing."""
    with suppress(SandboxLost):  # no state that is kept is its agent's loss, and the sandbox goes on
        await sandbox.snapshot()
    again = await sandbox.run("cd /testbed; echo alive", 20)
    if again.state == "died":  # a shell that the attack left dying is found dead by the next command, once
        again = await sandbox.run("echo alive", 20)
    return "" if again.output.endswith("alive\n") else f"the next command does not work: {again.state} {again.output[-200:]!r}"


async def _answers(sandbox: Sandbox) -> str:
    """Why a sandbox does not answer, or nothing. Its files are a state, or it is lost.

    The words of the agent's own shell may mean anything by now, so a fresh process is asked too. Where the agent left it no folder, no
    process or no descriptor, it says so.
    """
    with suppress(SandboxLost):
        await sandbox.snapshot()
    await sandbox.run("cd /testbed; echo alive", 2)
    fresh = await sandbox.exec(("echo", "alive"), 20)
    told = fresh.output == "alive\n" or (fresh.exit_code != 0 and fresh.output)
    return "" if fresh.state == "ok" and told else f"a fresh process does not work: {fresh.state} {fresh.output[-200:]!r}"


# --- the grader ----------------------------------------------------------------------------------


async def attack_grader(
    backend: Callable[[], Sandboxes],
    repository: Repository,
    forgeries: Sequence[Forgery] = GRADER,
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> list[Finding]:
    """Every forged patch to a `repository` that holds `FILES`, graded. The honest repair must be resolved, or nothing here means
    anything."""
    findings = []
    async with opened(backend, repository) as (boxes, task, folder):
        bench = Bench(boxes, task, folder)
        for forgery in forgeries:
            honest = await bench.verdict(REPAIR, forgery.checks)
            if not honest.resolved:
                return [Finding("the honest repair", False, f"is not resolved: {_words(honest)}")]
            finding = await bench.forged(forgery)
            findings.append(finding)
            on_finding(finding)
    return findings


class Bench:
    """Where changes to `FILES` are graded: `await Bench(boxes, task, folder).verdict({"shop/cart.py": "..."}, PLAIN)`."""

    def __init__(self, boxes: Sandboxes, task: Task, folder: Path) -> None:
        self._task = replace(task, limits=replace(LIMITS, memory=1 << 30))
        self._folder = folder / "repository"
        self._grader = Grader(boxes, {task.id: patch(REPAIR, self._folder)})

    async def verdict(self, changes: Change, checks: Checks, seconds: float = TEST_SECONDS) -> Verdict:
        """What comes of a change by these checks; tests that go on after these seconds are ended."""
        task = replace(self._task, checks=checks, limits=replace(self._task.limits, test_seconds=seconds))
        return await self._grader.grade(task, patch(changes, self._folder))

    async def forged(self, forgery: Forgery) -> Finding:
        """Held if it is not resolved, for whatever reason."""
        return _judged(forgery, await self.verdict(forgery.changes, forgery.checks, forgery.seconds))

    async def honest(self, control: Forgery) -> Finding:
        """Held if it is resolved, as honest work is."""
        verdict = await self.verdict(control.changes, control.checks)
        return Finding(control.name, verdict.resolved, "" if verdict.resolved else f"is not resolved: {_words(verdict)}")


def _judged(forgery: Forgery, verdict: Verdict) -> Finding:
    words = _words(verdict)
    if verdict.resolved:
        return Finding(forgery.name, False, "is resolved")
    return Finding(forgery.name, verdict.fault is None and forgery.says in words, words)


def _words(verdict: Verdict) -> str:
    """The verdict's reasons: its evidence, else the outcomes of its tests."""
    return "; ".join(verdict.tamper) or verdict.fault or "; ".join(f"{test.id} {test.status}" for test in verdict.tests)


def patch(changes: Change, root: Path, files: Mapping[str, str] = FILES) -> str:
    """The patch that turns these files, laid into the folder `root`, into them with these changes."""
    subprocess.run(["rm", "-rf", root], check=True)
    for name, text in files.items():
        _write(root / name, text)

    def git(*argv: str) -> str:
        quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(["git", *argv], cwd=root, check=True, capture_output=True, text=True, env=quiet).stdout

    git("init", "-q")
    git("add", "-A")
    git("-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm", "base")
    for name, change in changes.items():
        if change is None or change.startswith("-> "):
            subprocess.run(["rm", "-rf", root / name], check=True)
        if change is not None and change.startswith("-> "):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(change[3:])
        elif change is not None:
            _write(root / name, change)
    git("add", "-A", "-f")
    return git("diff", "--cached", "--binary", "--no-renames", "HEAD")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
