"""Asked once: attempts that share a cache do, see and submit what they would alone, and run less."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rollouts.test_loop import FILES, FIX, TASK, Script, attempt_of, command, harness_of

from patchgrad.agents.tools.shell import by_files
from patchgrad.contracts import Result
from patchgrad.errors import SandboxFault
from patchgrad.rollouts import environment
from patchgrad.rollouts.loop import rollout
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.testing.sandbox_double import LocalSandbox, LocalSandboxes
from patchgrad.values import Limits, Snapshot, Task, Trajectory

SETTLED = ("open shop/cart.py", FIX, 'replace "x" "y" && git diff', 'replace "= 0" "= 1" && git diff || git restore .', "git restore .")
OTHERS = ("cd shop", "export TOTAL=7", "echo $TOTAL; cat shop/cart.py", "echo '#' >> shop/cart.py", "create new.py", "open /etc/passwd")


class Few(LocalSandboxes):
    """At most `room` sandboxes at once; whoever wants another waits until one is closed. `began` are the states they were opened in."""

    def __init__(self, room: int = 100, files: Mapping[str, str] = FILES) -> None:
        super().__init__(files)
        self.began, self.closed = list[str](), 0
        self._free = asyncio.Semaphore(room)

    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        await self._free.acquire()
        sandbox, close = await super().open(task, state), LocalSandbox.close
        self.began.append(state.address if state else "")

        async def closed() -> None:
            self.closed += 1
            self._free.release()
            await close(sandbox)

        sandbox.close = closed  # type: ignore[method-assign]
        return sandbox


async def tried(scripts: Sequence[Sequence[str]], cache: ToolCache | None, boxes: LocalSandboxes) -> list[Trajectory]:
    """One attempt after the other."""
    return [await attempt(number, script, cache, boxes) for number, script in enumerate(scripts)]


async def attempt(number: int, script: Sequence[str], cache: ToolCache | None, boxes: LocalSandboxes, task: Task = TASK) -> Trajectory:
    policy = Script(*map(command, script), wait=0.002 * (number % 2))
    return await rollout(harness_of(boxes, cache=cache), policy, attempt_of(f"t/{number}", task=task))


def told(attempts: Sequence[Trajectory]) -> list[tuple[list[str], str]]:
    return [([turn.address for turn in one.turns], one.submission) for one in attempts]


SCRIPTS = st.lists(st.lists(st.sampled_from(SETTLED + OTHERS), max_size=5).map(lambda script: [*script, "submit"]), min_size=2, max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCRIPTS)
def test_attempts_that_share_cache_are_those_that_do_not(scripts: list[list[str]]) -> None:
    alone, together = (asyncio.run(tried(scripts, cache, LocalSandboxes(FILES))) for cache in (None, ToolCache()))
    assert told(together) == told(alone)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCRIPTS, st.integers(1, 3))
def test_attempts_at_once_do_not_wait_for_each_other_for_ever_however_few_sandboxes_there_are(scripts: list[list[str]], room: int) -> None:
    async def at_once() -> list[Trajectory]:
        boxes, cache = Few(room), ToolCache()
        async with asyncio.timeout(60):
            done = await asyncio.gather(*(attempt(number, script, cache, boxes) for number, script in enumerate(scripts)))
        assert boxes.closed == len(boxes.began)
        return done

    assert told(asyncio.run(at_once())) == told(asyncio.run(tried(scripts, None, LocalSandboxes(FILES))))


def test_what_another_attempt_did_is_not_run_and_a_sandbox_is_opened_where_something_has_to_be() -> None:
    boxes, cache = Few(), ToolCache()
    first, same, other = asyncio.run(tried([[FIX, "submit"], [FIX, "submit"], [FIX, "cat shop/cart.py", "submit"]], cache, boxes))
    assert first.submission == same.submission == other.submission != ""
    assert (cache.asked, cache.known) == (10, 6)
    beginning, repaired = Snapshot.of({}).address, first.turns[0].state
    assert boxes.began == [beginning, repaired], (
        "the second needed none, the third one where it asked for the file, of whose repair it had heard"
    )
    assert boxes.closed == 2
    assert "total += x" in other.turns[1].observation.content


def test_tasks_of_one_repository_hear_of_each_other_and_tasks_of_others_do_not() -> None:
    boxes, cache = Few(), ToolCache()
    words = replace(TASK, id="other words", instruction="Something else is wrong.")
    longer = replace(TASK, limits=replace(TASK.limits, command_seconds=TASK.limits.command_seconds + 1))
    script = ["open shop/cart.py", FIX, "submit"]
    first, same, other = (asyncio.run(attempt(n, script, cache, boxes, task)) for n, task in enumerate((TASK, words, longer)))
    assert [t.observation.content for t in first.turns] == [t.observation.content for t in same.turns]
    assert first.submission == same.submission == other.submission
    assert len(boxes.began) == 2, "the first one and that of the other environment"


def test_what_an_agent_edits_outside_of_temporary_folders_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The double is a folder of this machine, and a test may be run by root."""
    (mine := tmp_path / "mine.txt").write_text("x")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (attempt,) = asyncio.run(tried([[f"open {mine}", 'replace "x" "y"', "submit"]], None, LocalSandboxes(FILES)))
    assert mine.read_text() == "x"
    assert "Read-only file system" in attempt.turns[1].observation.content


@pytest.mark.parametrize("call", ["export TOTAL=7", "open /etc/passwd"])
def test_after_a_call_that_files_do_not_settle_nothing_is_shared(call: str) -> None:
    cache = ToolCache()
    asyncio.run(tried([["open shop/cart.py", call, "git diff", FIX, "submit"]], cache, LocalSandboxes(FILES)))
    assert cache.asked == 2 + (call.startswith("open")), "how it begins, and the calls before"


@pytest.mark.parametrize(
    ("command", "alone"),
    [
        ("pytest", True),
        ("pytest -x || git restore .", True),
        ("pytest || git checkout .", True),
        ("pytest && echo passed || git checkout .", True),
        ("pytest && echo $HOME", False),
        ("pytest && echo x > y", False),
        ("python -m pytest -q tests/test_a.py::test_b -k cart; git diff", True),
        ("git restore shop/cart.py && pytest", True),
        ("cd shop && pytest", False),
        ("X=1 pytest", False),
        ("pytest --lf", False),
        ("pytest &", False),
        ("pytest > /tmp/log", False),
        ("pytest /tmp/test_mine.py", False),
        ("pytest ../elsewhere", False),
        ("git stash", False),
        ("git commit -m x", False),
        ("pytest $(date)", False),
        ("cat shop/cart.py", False),
        ("", False),
    ],
)
def test_files_settle_what_pytest_and_git_say_when_asked_plainly(command: str, alone: bool) -> None:
    assert by_files(command) is alone


@pytest.mark.parametrize("timeouts", [True, False])
def test_that_time_ran_out_is_heard_of_where_limits_count_work(timeouts: bool) -> None:
    endless = FILES | {"test_endless.py": "def test_it():\n    while True:\n        pass\n"}
    task, boxes, cache = replace(TASK, limits=Limits(command_seconds=1.0)), Few(files=endless), ToolCache(timeouts=timeouts)

    async def both() -> list[Trajectory]:
        scripts = (["pytest", "submit"], ["pytest", "cat shop/cart.py", "submit"])
        return [await attempt(number, script, cache, boxes, task) for number, script in enumerate(scripts)]

    first, other = asyncio.run(both())
    assert [one.turns[0].observation.failure for one in (first, other)] == ["timeout", "timeout"]
    assert (other.turns[0].observation.seconds == 0.0) == timeouts, "the second heard of it"
    assert boxes.began[-1] == (first.turns[0].state if timeouts else Snapshot.of({}).address), "and reads in the state that it left"
    assert "total = x" in other.turns[1].observation.content


class Says(LocalSandboxes):
    """Sandboxes whose shell answers this to everything."""

    def __init__(self, result: Result) -> None:
        super().__init__(FILES)
        self.result, self.asked = result, 0

    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        sandbox = await super().open(task, state)

        async def said(command: str, timeout: float | None = None) -> Result:
            self.asked += 1
            return self.result

        sandbox.run = said  # type: ignore[method-assign]
        return sandbox


def asked_of(result: Result, timeouts: bool = False) -> int:
    """How often two attempts that make the same call in the same state have it run, where it is answered so."""
    boxes = Says(result)
    asyncio.run(tried([["pytest -x", "submit"]] * 2, ToolCache(timeouts=timeouts), boxes))
    return boxes.asked


def test_a_timeout_that_the_wall_decided_is_nobodys_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ran_out = Result("", None, "timeout")
    assert asked_of(ran_out, timeouts=True) == 1
    monkeypatch.setattr(environment, "patience", lambda seconds: 0.0)
    assert asked_of(ran_out, timeouts=True) == 2


def test_what_a_killed_process_said_is_not_remembered() -> None:
    assert asked_of(Result("bash: line 11:     4 Killed                  pytest -x", 137, "ok")) == 2
    assert asked_of(Result("1 passed", 0, "ok")) == 1


def test_who_asks_what_is_being_asked_waits_and_asks_itself_where_that_fails() -> None:
    asked = list[int]()

    async def ask(number: int) -> int:
        asked.append(number)
        await asyncio.sleep(0.01)
        if number == 0:
            raise SandboxFault("broken")
        return number

    async def run() -> list[tuple[int, bool] | BaseException]:
        cache = ToolCache()
        jobs = [cache.get(("question",), lambda n=n: ask(n), lambda _: True) for n in range(4)]  # type: ignore[misc]
        return await asyncio.gather(*jobs, return_exceptions=True)

    broken, *others = asyncio.run(run())
    assert isinstance(broken, SandboxFault)
    assert others == [(1, False), (2, False), (3, False)]
    assert asked == [0, 1, 2, 3]


def test_who_waits_is_not_cancelled_with_whom_it_waits_for() -> None:
    async def run() -> tuple[int, bool]:
        cache = ToolCache()
        first = asyncio.create_task(cache.get(("q",), lambda: asyncio.sleep(60, 1), lambda _: True))
        await asyncio.sleep(0)
        second = asyncio.create_task(cache.get(("q",), lambda: asyncio.sleep(0, 2), lambda _: True))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(run()) == (2, False)


@given(st.lists(st.integers(0, 8), max_size=40), st.integers(1, 5))
def test_no_more_cache_are_kept_than_fit_and_those_not_to_be_kept_are_not(questions: list[int], most: int) -> None:
    asked = list[int]()

    async def ask(number: int) -> int:
        asked.append(number)
        return number

    async def run() -> None:
        cache = ToolCache(most)
        for number in questions:
            said, _ = await cache.get((number,), lambda number=number: ask(number), lambda n: n != 0)  # type: ignore[misc]
            assert said == number
        assert cache.asked - cache.known == len(asked)

    asyncio.run(run())
    assert asked.count(0) == questions.count(0)
    if len(set(questions) - {0}) <= most:
        assert len(asked) == questions.count(0) + len(set(questions) - {0})


def test_the_files_in_answers_are_bounded_and_the_longest_unasked_go_first() -> None:
    cache = ToolCache(room=160)

    async def asked(name: str, held: int = 10) -> bool:
        async def answer() -> int:
            return held

        return (await cache.get((name,), answer, lambda _: True, lambda size: size))[1]

    async def all_asked() -> list[bool]:
        return [await asked(name) for name in (*"abcdefghijklmnop", "a", "q")] + [await asked("large", 11)]

    assert asyncio.run(all_asked()) == [False] * 16 + [True, False, False]
    assert [name for name in (*"abcq", "large") if (name,) in cache] == ["a", "c", "q"]
