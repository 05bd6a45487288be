"""One episode in a real shell: what a turn holds, how it stops, and that the same seed gives the same chain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import Extend, Finish, Journal, Restart, Sandboxes, Tool
from patchgrad.errors import ConfigError, PolicyFault, SandboxFault
from patchgrad.rollouts.attempts import NEUTRAL
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.journals import MemoryJournal, NullJournal
from patchgrad.rollouts.loop import rollout, told_left, turns_left
from patchgrad.rollouts.repository import difference
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.testing.sandbox_double import LocalSandbox, LocalSandboxes
from patchgrad.values import (
    Action,
    Attempt,
    Budget,
    Checks,
    Floats,
    Ids,
    Message,
    Repository,
    Sampling,
    Snapshot,
    Task,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
    root_address,
)

TASK = Task("t", "total is wrong", Repository("archive", "", "0" * 64), Checks(("tests/test_a.py::test_a",), ()))
FILES = {"shop/cart.py": "total = 0\ntotal = x\n", ".gitignore": "*.log\n"}
AGENT = ReactAgent(toolset(View(lines=40, brief=True)), prompts="brief")
FIX = "edit --file shop/cart.py 2:2 'total += x'"


def command(text: str) -> str:
    return f"```command\n{text}\n```"


class Script:
    """A policy that says what it is told to, in bytes; `~` closes a message."""

    context = 100_000
    version = 3

    def __init__(self, *texts: str, fault: bool = False, wait: float = 0.0) -> None:
        self.texts, self.fault, self.wait = list(texts), fault, wait
        self.seen: list[tuple[str, Ids, Sampling]] = []
        self.released: list[str] = []
        self.previous: list[Action | None] = []

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        self.previous.append(previous)
        return ids("".join(f"{message.content}~" for message in messages).encode())

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        self.seen.append((session, tokens, sampling))
        await asyncio.sleep(self.wait)
        if self.fault:
            raise PolicyFault("no answer")
        text = self.texts.pop(0) if self.texts else "hm"
        data = text.encode()[: sampling.max_tokens]
        logprobs: Floats = floats(np.full(len(data), -0.5))
        return Action(ids(data), logprobs, self.version, data.decode(), "stop" if len(data) == len(text) else "length")

    def release(self, session: str) -> None:
        self.released.append(session)

    def close(self) -> None:
        """There is nothing to end."""


BUDGET = Budget(turns=8, context=5000)


class Made(LocalSandboxes):
    """Opens sandboxes of this kind."""

    def __init__(self, kind: type[LocalSandbox]) -> None:
        super().__init__(FILES)
        self._kind = kind

    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        box = await super().open(task, state)
        box.__class__ = self._kind
        return box


async def ungraded(task: Task, submission: str) -> Verdict:
    return Verdict(task.id, submission, (), ())


def harness_of(boxes: Sandboxes, journal: Journal | None = None, agent: ReactAgent = AGENT, cache: ToolCache | None = None) -> Harness:
    return Harness(agent, boxes, ungraded, journal or NullJournal(), cache=cache, executor=LocalExecutor(4))


def attempt_of(name: str = "a", budget: Budget = BUDGET, task: Task = TASK) -> Attempt:
    return Attempt(task, name, 1, budget, NEUTRAL)


async def episode(policy: Script, budget: Budget = BUDGET, agent: ReactAgent = AGENT, boxes: Sandboxes | None = None) -> Trajectory:
    return await rollout(harness_of(boxes or LocalSandboxes(FILES), agent=agent), policy, attempt_of("a/0", budget))


def play(*texts: str, budget: Budget = BUDGET) -> Trajectory:
    return asyncio.run(episode(Script(*map(command, texts)), budget))


def test_a_solved_episode_is_a_chain_of_turns_over_states() -> None:
    policy = Script(command("open shop/cart.py"), command(FIX), command("submit"))
    turns: list[Turn] = []
    states: list[Snapshot] = []

    class Listening(MemoryJournal):
        async def turn(self, attempt: str, turn: Turn) -> None:
            turns.append(turn)

        async def state(self, snapshot: Snapshot) -> None:
            states.append(snapshot)

    found = asyncio.run(rollout(harness_of(LocalSandboxes(FILES), Listening()), policy, attempt_of()))
    assert found.stop == "submitted"
    assert [t.call.tool for t in found.turns if hasattr(t.call, "tool")] == ["open", "edit", "submit"]
    assert found.submission.startswith("diff --git a/shop/cart.py b/shop/cart.py\n")
    assert found.submission.endswith("-total = x\n+total += x\n")
    assert tuple(turns) == found.turns
    assert found.turns[0].parent == root_address(TASK, "a")
    assert [turn.parent for turn in found.turns[1:]] == [turn.address for turn in found.turns[:-1]]
    assert [state.address for state in states] == [found.turns[0].state, found.turns[1].state]
    assert found.turns[1].state == found.turns[2].state
    assert policy.released == ["a#0"]


def test_the_stream_is_what_the_policy_saw_and_seeds_differ_by_turn() -> None:
    policy = Script(command("ls"), "no command here", command("submit"))
    found = asyncio.run(episode(policy))
    stream = found.segments[0].tokens()
    for (session, seen, _), turn in zip(policy.seen, found.turns, strict=True):
        assert session == "a/0#0"
        assert np.array_equal(seen, stream[: len(seen)])
        assert len(seen) + len(turn.action.token_ids) <= len(stream)
    assert policy.previous == [None, *(turn.action for turn in found.turns[:-1])]
    assert len({sampling.seed for _, _, sampling in policy.seen}) == 3
    assert all(sampling.neutral for _, _, sampling in policy.seen)
    assert found.turns[1].observation.failure == "malformed"


def test_the_same_seed_gives_the_same_addresses() -> None:
    first, second = (play("cd shop", FIX.replace("shop/", ""), "submit") for _ in range(2))
    assert [turn.address for turn in first.turns] == [turn.address for turn in second.turns]
    assert first.submission == second.submission != ""


def test_everything_changed_is_submitted_and_nothing_else() -> None:
    found = play(
        "echo new > shop/new.py; git add shop/new.py; rm .gitignore; mkdir -p a/__pycache__; touch a/__pycache__/x.pyc",
        "echo more >> shop/cart.py; git -c user.name=a -c user.email=a@a commit -qam work; printf 'a\\0b' > blob",
        "touch .git/index.lock",
        "submit",
    )
    for part in ("b/shop/new.py", "b/shop/cart.py", "deleted file", "GIT binary patch"):
        assert part in found.submission
    assert "pyc" not in found.submission
    assert play("ls", "submit").submission == ""
    assert play("touch x.log", "submit").submission == ""


def test_the_agents_git_configuration_does_not_shape_the_patch() -> None:
    plain = play(FIX, "submit").submission
    settings = "diff.external=/bin/false diff.noprefix=true diff.context=0 color.ui=always core.pager=false"
    changes = "; ".join(f"git config {pair.replace('=', ' ')}" for pair in settings.split())
    assert (
        play(f"{changes}; echo '* diff=evil' > .git/info/attributes; git config diff.evil.textconv rev", FIX, "submit").submission == plain
    )


def test_long_and_foreign_patches_come_out_whole() -> None:
    long = play("seq 1 20000 > numbers", "submit").submission
    assert "+20000\n" in long
    latin = play("printf 'caf\\351\\n' > menu", "submit").submission
    assert "GIT binary patch" in latin


@pytest.mark.parametrize(
    ("budget", "stop", "turns"),
    [
        (Budget(turns=2, context=5000), "turn limit", 2),
        (Budget(turns=8, context=40), "context limit", 1),
        (Budget(turns=8, context=5), "context limit", 0),
    ],
)
def test_limits_stop_and_keep_the_difference(budget: Budget, stop: str, turns: int) -> None:
    found = play(FIX, "ls", "ls", budget=budget)
    assert (found.stop, len(found.turns)) == (stop, turns)
    assert ("+total += x" in found.submission) == (stop == "turn limit")


def test_format_errors_in_a_row_end_an_attempt_where_the_budget_says_so() -> None:
    said = ("no block", command("ls"), "no block", "none", "none", command("ls"))
    patient, strict = (Budget(8, 5000, format_errors=errors) for errors in (0, 3))
    found = asyncio.run(episode(Script(*said), strict))
    assert (found.stop, len(found.turns)) == ("format errors", 5)
    assert len(asyncio.run(episode(Script(*said, command("submit")), patient)).turns) == 7


def test_calls_made_again_in_the_same_state_end_an_attempt_where_the_budget_says_so() -> None:
    said = [command(text) for text in ("true", "ls", "pwd", "ls", "echo x > new", "ls", "rm new", "pwd", "submit")]
    patient, strict = (Budget(10, 5000, repeats=repeats) for repeats in (0, 2))
    found = asyncio.run(episode(Script(*said), strict))
    assert (found.stop, len(found.turns)) == ("repeats", 8), "the third ls is in another state, and the second pwd is not"
    assert asyncio.run(episode(Script(*said), patient)).stop == "submitted"
    unread = Script("none", "none", "none", command("submit"))
    assert asyncio.run(episode(unread, strict)).stop == "submitted", "what calls nothing is counted as a format error alone"


def test_the_last_turns_are_announced_where_the_budget_says_so() -> None:
    found = asyncio.run(episode(Script(*[command("ls")] * 5), Budget(5, 5000, announced=2)))
    said = [bytes(turn.context.tolist()).decode() for turn in found.turns]
    assert ["left." in text for text in said] == [False, False, False, True, True]
    assert "2 turns are left." in said[3]
    assert "1 turn is left." in said[4]
    assert said[4].endswith("$~"), "the prompt line stays the last"
    assert found.stop == "turn limit"


@pytest.mark.parametrize(("text", "left"), [(f"{turns_left(n)}\n(.) $", n) for n in (1, 2, 12)])
def test_what_a_message_says_of_turns_is_read_as_it_was_written(text: str, left: int) -> None:
    assert told_left(text) == left
    assert told_left(f"And {text}") is None
    assert told_left("3 files changed.") is told_left("") is None


def test_a_truncated_action_is_malformed_and_the_length_is_bounded() -> None:
    policy = Script("x" * 100)
    found = asyncio.run(episode(policy, Budget(turns=1, context=5000, action_tokens=10)))
    assert found.turns[0].action.finish == "length"
    assert len(found.turns[0].action.token_ids) == 10
    assert found.turns[0].observation.failure == "malformed"


def test_time_is_a_limit_and_a_policy_that_does_not_answer_is_a_fault() -> None:
    slow = asyncio.run(episode(Script(command("sleep 2"), command("ls")), Budget(turns=8, context=5000, seconds=1.0)))
    assert (slow.stop, len(slow.turns)) == ("time limit", 1)
    silent = asyncio.run(episode(Script(command("ls"), wait=5), Budget(turns=8, context=5000, seconds=0.5)))
    assert (silent.stop, silent.turns) == ("failed", ())


def test_faults_end_as_failed_and_are_recorded() -> None:
    assert asyncio.run(episode(Script(fault=True))).stop == "failed"

    class Broken(LocalSandbox):
        async def run(self, command: str, timeout: float | None = None) -> object:  # type: ignore[override]
            raise SandboxFault("gone")

    found = asyncio.run(episode(Script(command("ls")), boxes=Made(Broken)))
    assert (found.stop, found.submission) == ("failed", "")
    assert found.turns[-1].observation.failure == "infrastructure"


def test_an_attempt_whose_sandbox_cannot_be_opened_has_failed_and_took_no_turn() -> None:
    class Full(LocalSandboxes):
        async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
            raise SandboxFault("there is no room")

    found = asyncio.run(episode(Script(command("ls")), boxes=Full(FILES)))
    assert (found.stop, found.turns) == ("failed", ())


def test_a_silent_sandbox_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(LocalSandbox):
        async def snapshot(self) -> Snapshot:
            await asyncio.sleep(60)
            raise AssertionError

    monkeypatch.setattr("patchgrad.rollouts.deadline.GRACE", 0.1)
    monkeypatch.setattr("patchgrad.rollouts.deadline.patience", lambda _: 0.0)
    monkeypatch.setattr("patchgrad.rollouts.environment.commit", lambda _: asyncio.sleep(0, "0" * 40))
    assert asyncio.run(episode(Script(), boxes=Made(Silent))).stop == "failed"


def test_a_fork_continues_from_any_turn() -> None:
    texts = [command("open shop/cart.py"), command(FIX), command("submit")]

    async def run() -> tuple[Trajectory, Trajectory]:
        harness = harness_of(LocalSandboxes(FILES), MemoryJournal())
        whole = await rollout(harness, Script(*texts), attempt_of())
        return whole, await rollout(harness, Script(texts[2]), attempt_of(), whole.turns[:2])

    whole, again = asyncio.run(run())
    assert [turn.address for turn in again.turns] == [turn.address for turn in whole.turns]
    assert again.submission == whole.submission


def test_a_restart_opens_a_segment() -> None:
    class Forgetful(ReactAgent):
        def prompt(self, instruction: str, turns: Sequence[Turn]) -> Extend | Restart | Finish:  # type: ignore[override]
            step = super().prompt(instruction, turns)
            return Restart(step.messages) if isinstance(step, Extend) and len(turns) == 2 else step

    policy = Script(command("ls"), command("ls"), command("submit"))
    tools: Mapping[str, Tool] = toolset(View(brief=True))
    found = asyncio.run(episode(policy, agent=Forgetful(tools, prompts="brief")))
    assert [len(segment.turns) for segment in found.segments] == [2, 1]
    assert policy.previous[2] is None
    assert policy.released == ["a/0#0", "a/0#1"]


def test_a_broken_repository_has_an_empty_submission() -> None:
    async def run() -> str:
        box = await LocalSandboxes(FILES).open(TASK)
        await box.run("rm -rf .git")
        return await difference(box, "0" * 40)

    assert asyncio.run(run()) == ""


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError):
        Budget(turns=0, context=10)
