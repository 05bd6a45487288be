"""Hostile programs in one sandbox, and a neighbour that works through each: its answers and its files are those that it has alone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgrad.agents.tools import toolset
from patchgrad.contracts import Sandbox
from patchgrad.errors import SandboxLost
from patchgrad.rollouts.repository import commit, difference
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Limits, Observation, Task, ToolState

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

LIMITS = Limits(command_seconds=20, memory=256 << 20, disk=32 << 20, processes=64)
WORK = ("echo one > one; cat a.py", "mkdir -p deep/er; seq 2000 > deep/er/numbers; git status --short", "git add -A; rm a.py; ls")

LOST = {
    "six files that are holes": "for i in 1 2 3 4 5 6; do truncate -s 25M s$i; done",
    "one hole": "truncate -s 32M s; echo x > t",
    "a hole written at its end": "for i in 1 2; do dd if=/dev/zero of=s$i bs=1 count=1 seek=20000000 2>/dev/null; done",
    "many names of one file": "head -c 3M /dev/zero > f; for i in $(seq 12); do ln f l$i; done",
    "names of one hole": "truncate -s 20M f; ln f g",
    "a hole in git's own folder": "truncate -s 30M .git/objects/x; truncate -s 30M .git/index",
    "a tree deeper than a path can name": (
        "n=$(printf 'n%.0s' $(seq 255)); for i in $(seq 60); do mkdir $n; cd $n; echo $i > f; done; cd /testbed"
    ),
    "a tree that is moved deeper than a path can name": (
        "n=$(printf 'n%.0s' $(seq 250)); for t in a b; do mkdir -p $t/$n/$n/$n/$n/$n/$n/$n; done; echo x > b/f; mv b a/$n/$n/$n/$n/$n/$n/$n"
    ),
    "more names than contents": (
        "n=$(printf 'n%.0s' $(seq 240)); mkdir -p $n/$n/$n/$n; cd $n/$n/$n/$n; for i in $(seq 2500); do : > $i; done; cd /testbed"
    ),
}
KEPT = {
    "a full disk": "head -c 100M /dev/zero > full; true",
    "a full disk of small files": "i=0; while echo x > $i 2>/dev/null; do i=$((i + 1)); done; true",
    "files that cannot be read": "mkdir shut; echo x > shut/in; chmod 000 shut; echo x > closed; chmod 000 closed",
    "files that come and go": "(while :; do echo x > come; mkdir -p d/e; rm -r come d; done) & sleep 0.2",
    "a folder that becomes a link": "(while :; do mkdir d; rmdir d; ln -s / d; rm d; done) & sleep 0.2",
    "a name of many things": (
        "(while :; do echo x > f; rm f; mkdir f; rmdir f; ln -s f f; rm f; mkfifo f; rm f; done) 2>/dev/null & sleep 0.2"
    ),
    "a file that grows": "(while echo xxxxxxxxxxxxxxxx; do :; done > grows) & sleep 0.2",
    "no process left": "for i in $(seq 100); do sleep 100 & done 2>/dev/null; true",
    "pipes, sockets and devices": "mkfifo p; python -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'; mknod n p",
    "names that are no text": "touch $'\\xff\\xfe' $'line\\nfeed'; mkdir $'\\x01'",
}


class Nest:
    """One backend, and what its sandboxes say when they are alone."""

    def __init__(self, folder: Path) -> None:
        self.task: Task = a_task("x", repository=a_repository(folder, {"a.py": "x = 1\n" * 50}), limits=LIMITS)
        self.loop, self.backend = asyncio.new_event_loop(), BwrapSandboxes(cells=2)
        self.alone = self.loop.run_until_complete(self._alone())

    async def _alone(self) -> list[tuple[str, str]]:
        async with await self.backend.open(self.task) as sandbox:
            return [await step(sandbox, command) for command in WORK]

    def beside(self, program: str) -> tuple[str, str]:
        """What becomes of the program's state, and of its submission, while a neighbour works as if it were alone."""

        async def both() -> tuple[str, str]:
            async with await self.backend.open(self.task) as hostile, await self.backend.open(self.task) as neighbour:
                base = await commit(hostile)
                first = await step(neighbour, WORK[0])
                await hostile.run(program)
                ended, second = await asyncio.gather(outcome(hostile), step(neighbour, WORK[1]))
                patch = await difference(hostile, base)
                assert [first, second, await step(neighbour, WORK[2])] == self.alone
                return ended, patch

        return self.loop.run_until_complete(both())


async def step(sandbox: Sandbox, command: str) -> tuple[str, str]:
    return (await sandbox.run(command)).output, (await sandbox.snapshot()).address


async def outcome(sandbox: Sandbox) -> str:
    try:
        await sandbox.snapshot()
    except SandboxLost:
        return "lost"
    return "kept"


@pytest.fixture(scope="module")
def nest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nest]:
    made = Nest(tmp_path_factory.mktemp("nest"))
    yield made
    made.loop.run_until_complete(made.backend.close())
    made.loop.close()


@pytest.mark.parametrize("name", LOST)
def test_what_is_no_state_is_lost_by_its_agent_alone(nest: Nest, name: str) -> None:
    assert nest.beside(LOST[name])[0] == "lost"


@pytest.mark.parametrize("name", KEPT)
def test_what_is_odd_is_a_state_all_the_same(nest: Nest, name: str) -> None:
    assert nest.beside(KEPT[name])[0] == "kept"


@pytest.mark.parametrize(
    "argv", [("echo", "x" * 300_000), ("echo", "a\0b"), ("echo", "\ud800"), ("x" * 5000,)], ids=["too long", "null", "no text", "no name"]
)
def test_words_that_no_program_can_be_given_are_a_result(nest: Nest, argv: tuple[str, ...]) -> None:
    async def told() -> tuple[int | None, str]:
        async with await nest.backend.open(nest.task) as sandbox:
            done = await sandbox.exec(argv)
            return done.exit_code, (await sandbox.run("echo alive")).output

    code, said = nest.loop.run_until_complete(told())
    assert code != 0
    assert said == "alive\n"


@pytest.mark.parametrize("blocking", ["mkdir /tmp/.all-binary", "head -c 100M /dev/zero > /tmp/full"])
def test_a_submission_that_cannot_be_told_is_none(nest: Nest, blocking: str) -> None:
    _, patch = nest.beside(f"printf '\\xff' > odd; {blocking}; true")
    assert patch == ""


@pytest.mark.parametrize(
    ("program", "tool", "arguments", "says"),
    [
        ("mkfifo f", "open", "f", "Cannot read f"),
        ("ln -s f f", "open", "f", "Cannot read f"),
        ("mkdir f", "open", "f", "f is a directory"),
        ("head -c 100M /dev/zero > full", "create", "f", "Cannot write f"),
        ("ln -s /etc/passwd f", "edit", "--file f 1:1 x", "f"),
        ("true", "create", "/big/f", "Cannot write /big/f: Read-only file system"),
        ("ln -s /big f", "create", "f", "Cannot write f: Read-only file system"),
    ],
)
def test_a_file_that_no_tool_can_take_is_an_answer(nest: Nest, program: str, tool: str, arguments: str, says: str) -> None:
    async def told() -> Observation:
        async with await nest.backend.open(nest.task) as sandbox:
            await sandbox.run(program)
            return await toolset()[tool](arguments, sandbox, ToolState())

    seen = nest.loop.run_until_complete(told())
    assert (seen.failure, says in seen.content) == ("bad arguments", True), seen
