"""What an attempt finds again that goes on in another sandbox, and what it is told that it has lost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.rollouts.test_loop import AGENT, Script, attempt_of, command, harness_of

from patchgrad.contracts import Sandbox
from patchgrad.rollouts.journals import MemoryJournal
from patchgrad.rollouts.loop import rollout
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.store.codec import plain, value
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Observation, Task, ToolState, Trajectory, Turn

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

MAKES = "export X=1; f() { echo \"f $1\"; }; set -o pipefail; alias ll='ls -a'; shopt -s expand_aliases; cd src; umask 077"
LEAVES = "sleep 321 & echo 1 > /tmp/notes; touch ~/.mine; sleep 0.2"
USES = "pwd; bash -c 'echo $X'; f 2; false | true; echo $?; ll; umask; cd -"


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return a_task("t", repository=a_repository(tmp_path, {"a.py": "x = 1\n", "src/b.py": ""}))


def taken(task: Task, *scripts: Sequence[str], cut: int = 0) -> list[Trajectory]:
    """An attempt of the first script, and others that go on after its first `cut` turns, each in a sandbox of its own."""

    async def go() -> list[Trajectory]:
        boxes, journal = BwrapSandboxes(cells=2), MemoryJournal()
        try:
            made = [await rollout(harness_of(boxes, journal), Script(*map(command, scripts[0])), attempt_of("t/0", task=task))]
            for script in scripts[1:]:
                policy = Script(*map(command, script))
                made.append(await rollout(harness_of(boxes, journal), policy, attempt_of("t/0", task=task), made[0].turns[:cut]))
            return made
        finally:
            await boxes.close()

    return asyncio.run(go())


def addresses(attempt: Trajectory) -> list[str]:
    return [turn.address for turn in attempt.turns]


@pytest.mark.parametrize(
    ("makes", "uses"),
    [
        (MAKES, USES),
        ("for n in 1 2; do last=$n; done; read -r a b <<< 'c d'", "echo $n $last $a $b"),
        ("declare -A m=([a b]=$'c\\nd'); unset LANG; set -- 'p q' r", 'echo "${m[a b]}" "[$LANG]" "$1" $#'),
        ("trap 'echo ended' USR1; export -f g 2>/dev/null; set -u", "trap -p; echo $none"),
        ("g() { x=7; }; g; readonly x", "x=8; echo $x"),
    ],
)
def test_an_attempt_that_is_resumed_finds_its_shell_as_it_left_it(task: Task, makes: str, uses: str) -> None:
    whole, resumed = taken(task, [makes, uses, "submit"], [uses, "submit"], cut=1)
    assert addresses(resumed) == addresses(whole)
    assert resumed.turns[1].lost == ()


@pytest.mark.parametrize(
    "makes",
    [
        "touch -d 2001-01-01 a.py",
        "echo 'x = 2' > a.py; echo 'x = 1' > a.py; touch -d 2001-01-01 a.py",
        "echo 'x = 2' > a.py; git add -A",
        "echo 'x = 2' > a.py; git commit -qam two",
        "echo 'x = 2' > a.py; git add -A; echo 'x = 1' > a.py",
        "chmod +x a.py; git add -A; rm src/b.py",
    ],
)
def test_git_answers_by_the_files_and_not_by_the_times_that_it_noted_of_them(task: Task, makes: str) -> None:
    whole, resumed = taken(task, [makes, "git checkout .", "submit"], ["git checkout .", "submit"], cut=1)
    assert [turn.observation.content for turn in resumed.turns] == [turn.observation.content for turn in whole.turns]
    assert "Updated" in whole.turns[1].observation.content


def test_a_shell_is_resumed_from_a_turn_in_which_only_a_file_was_read(task: Task) -> None:
    whole, resumed = taken(task, ["y=5", "open a.py", "echo $y", "submit"], ["echo $y", "submit"], cut=2)
    assert addresses(resumed) == addresses(whole)
    assert whole.turns[1].shell == whole.turns[0].shell != ""


def test_of_a_shell_that_nobody_has_changed_nothing_is_kept(task: Task) -> None:
    (whole,) = taken(task, ["ls", "echo hello > c.txt; cat c.txt", "grep -n x a.py | head -1", "submit"])
    assert {(turn.shell, turn.loose, turn.lost) for turn in whole.turns} == {("", (), ())}


def test_what_is_undone_leaves_no_trace_in_what_is_kept(task: Task) -> None:
    (whole,) = taken(task, ["X=1; set -f; f() { :; }", "unset X; set +f; unset -f f", "submit"])
    assert "X" in whole.turns[0].shell
    assert whole.turns[1].shell == ""


def test_an_attempt_is_told_once_what_it_has_lost_and_the_turn_says_so(task: Task) -> None:
    whole, resumed = taken(task, [LEAVES, "echo on", "submit"], ["echo on", "pwd", "submit"], cut=1)
    lost = ("the process `sleep 321`", "the file `/tmp/notes`", "the file `/tmp/home/.mine`")
    assert whole.turns[0].loose == lost
    assert whole.turns[1].observation.content == "on"
    told, later = resumed.turns[1], resumed.turns[2]
    said = f"[The sandbox was opened anew, and what was outside of the repository is gone: {', '.join(lost)}.]"
    assert told.observation.content == f"{said}\non"
    assert (told.lost, told.loose, later.lost, later.observation.content) == (lost, (), (), "/testbed")


def test_of_many_files_that_are_lost_some_are_named_and_all_are_counted(task: Task) -> None:
    (whole,) = taken(task, ["for n in {10..99}; do echo > /tmp/f$n; done", "submit"])
    assert whole.turns[0].loose[0] == "the file `/tmp/f10`"
    assert whole.turns[0].loose[-1] == "82 more files"


def test_a_shell_that_is_too_large_to_keep_is_told_as_lost(task: Task) -> None:
    whole, resumed = taken(
        task, ["big=$(head -c 300000 /dev/zero | tr '\\0' x); small=1", "echo $small", "submit"], ["echo $small", "submit"], cut=1
    )
    assert whole.turns[1].observation.content == "1"
    assert whole.turns[0].shell == ""
    assert "the variables and functions of the shell" in resumed.turns[1].observation.content


def test_what_pytest_leaves_behind_for_itself_is_not_lost(task: Task) -> None:
    (whole,) = taken(task, ["echo 'def test_it(tmp_path): assert tmp_path' > test_a.py; pytest -q test_a.py", "submit"])
    assert whole.turns[0].loose == ()


def test_an_older_turn_is_read_and_has_the_address_that_it_had(task: Task) -> None:
    (whole,) = taken(task, ["ls", "submit"])
    stored = plain(whole.turns[0])
    older = {name: item for name, item in stored.items() if name not in ("shell", "loose", "lost")}
    assert value(Turn, older).address == whole.turns[0].address


def test_what_is_loose_changes_no_address_and_what_the_shell_is_does(task: Task) -> None:
    (whole,) = taken(task, ["ls", "submit"])
    turn = whole.turns[0]
    assert replace(turn, loose=("the process `x`",)).address == turn.address
    assert replace(turn, shell="X=1\n").address != turn.address


class Sets:
    """A tool of a user's that changes the shell, and whose calls the files and the shell alone decide."""

    name, usage, reads_only = "sets", "sets COMMAND", False
    asked = 0

    def repeatable(self, arguments: str, observation: Observation | None) -> bool:
        return True

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation:
        self.asked += 1
        ran = await sandbox.run(arguments)
        return Observation(ran.output, replace(state, directory=ran.directory), ran.exit_code)


def test_a_call_is_not_answered_from_the_cache_where_the_shell_differs(task: Task) -> None:
    tool = Sets()
    agent = replace(AGENT, tools={**AGENT.tools, tool.name: tool})

    async def go() -> list[Trajectory]:
        boxes, cache = BwrapSandboxes(cells=2), ToolCache()
        try:
            scripts = (("sets X=1", "sets echo $X"), ("sets X=2", "sets echo $X"), ("sets X=1", "sets echo $X", "sets echo again $X"))
            return [
                await rollout(
                    harness_of(boxes, agent=agent, cache=cache), Script(*map(command, [*script, "submit"])), attempt_of(task=task)
                )
                for script in scripts
            ]
        finally:
            await boxes.close()

    one, two, three = asyncio.run(go())
    assert [attempt.turns[1].observation.content for attempt in (one, two, three)] == ["1\n", "2\n", "1\n"]
    assert three.turns[2].observation.content == "again 1\n", "a sandbox that is opened late has the shell of the cached answers"
    assert tool.asked == 5
