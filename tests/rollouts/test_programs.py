"""A program of the user's own as an agent: its turns, its streams, its faults, and that it goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tests.rollouts.test_loop import FILES, TASK

from patchgrad.agents.tools import Bash, View
from patchgrad.contracts import AttemptAccess, Extend, Finish, Program, Restart, Tool
from patchgrad.errors import ProgramFault
from patchgrad.policies.scripted import ByteTokenizer, ScriptedPolicy
from patchgrad.recipes.component import Component
from patchgrad.recipes.recipe import AgentChoice
from patchgrad.rollouts.attempts import NEUTRAL, run_attempt
from patchgrad.rollouts.conversations import conversing, first_step, segments_of
from patchgrad.rollouts.harness import Workbench
from patchgrad.rollouts.journals import MemoryJournal
from patchgrad.rollouts.loop import rolled
from patchgrad.runs.build.harness import agent as agent_of
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.values import Action, Attempt, Budget, Call, Ids, Malformed, Message, Sampling, Task, Turn, Verdict

BUDGET = Budget(turns=6, context=50_000)
TOOLS: Mapping[str, Tool] = {"bash": Bash(View(lines=40, limit=2000, brief=True))}


@dataclass
class Chat:
    """Tells what each command printed; says its history anew after every third turn; ends at `done`."""

    instruction: str
    words: str
    breaks_after: int
    slow: float
    closed: list[str]
    tools = TOOLS

    async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish:
        await asyncio.sleep(self.slow)
        if len(turns) == self.breaks_after:
            raise ProgramFault("it broke")
        if not turns:
            return Extend((Message("user", f"{self.words} {self.instruction}"),))
        if turns[-1].action.text == "done":
            return Finish("submitted")
        told = Message("user", turns[-1].observation.content)
        return Restart((Message("user", "So far."), told)) if len(turns) % 3 == 0 else Extend((told,))

    async def close(self) -> None:
        self.closed.append(self.instruction)


@dataclass
class Owner:
    """A program whose actions are commands."""

    words: str = "Mend:"
    breaks_after: int = -1
    slow: float = 0.0
    closed: list[str] = field(default_factory=list)
    tools = TOOLS
    goes_on = True

    def begin(self, instruction: str) -> Chat:
        return Chat(instruction, self.words, self.breaks_after, self.slow, self.closed)

    def parse(self, text: str) -> Call | Malformed:
        return Call("bash", "true" if text == "done" else text) if text.strip() else Malformed("no command", "Say something.")


def bench(program: Program, journal: MemoryJournal | None = None) -> Workbench:
    async def grade(task: Task, patch: str) -> Verdict:
        return Verdict(task.id, patch, (), ())

    return Workbench(program, LocalSandboxes(FILES), grade, journal or MemoryJournal())


def attempt(budget: Budget = BUDGET) -> Attempt:
    return Attempt(TASK, "a/0", 1, budget, NEUTRAL)


def says(session: str, number: int) -> str:
    begun = {"#0": ("echo one > new.txt", "cat new.txt", "echo two"), "#1": ("cat new.txt", "done")}
    return begun[session[-2:]][number]


def test_each_turn_is_made_and_kept_and_a_restart_begins_a_stream() -> None:
    owner = Owner()
    done = asyncio.run(rolled(bench(owner), ScriptedPolicy(says), attempt())).trajectory
    assert done.stop == "submitted"
    assert [len(segment.turns) for segment in done.segments] == [3, 2]
    assert [turn.observation.content for turn in done.turns] == ["", "one\n", "two\n", "one\n", ""]
    assert ByteTokenizer().decode(done.turns[3].context.tolist()) == "user\nSo far.user\ntwo\n"
    assert "new.txt" in done.submission
    assert owner.closed == ["total is wrong"]
    assert segments_of(owner, TASK, done.turns) == done.segments


def test_another_process_of_it_goes_on_where_one_was() -> None:
    whole = asyncio.run(rolled(bench(Owner()), ScriptedPolicy(says), attempt())).trajectory
    for kept in range(1, 5):

        async def again(count: int = kept) -> list[str]:
            journal = MemoryJournal()
            await rolled(bench(Owner(), journal), ScriptedPolicy(says), attempt(replace(BUDGET, turns=count)))
            found = (await run_attempt((bench(Owner(), journal), ScriptedPolicy(says)), attempt())).trajectory
            assert [len(segment.turns) for segment in found.segments] == [3, 2]
            return [turn.address for turn in found.turns]

        assert asyncio.run(again()) == [turn.address for turn in whole.turns]


class Unsampled(ScriptedPolicy):
    """Says what it says without telling after which ids, as demonstrations and endpoints of text do."""

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        return replace(await super().act(session, tokens, sampling), origin=None)


def test_what_is_recalled_has_the_streams_that_it_was_made_of() -> None:
    async def test() -> None:
        journal = MemoryJournal()
        made, recalled = [await run_attempt((bench(Owner(), journal), Unsampled(says)), attempt()) for _ in range(2)]
        assert [len(segment.turns) for segment in made.trajectory.segments] == [3, 2]
        assert recalled == made

    asyncio.run(test())


class Curious(Chat):
    """Asks for a title before each turn."""

    async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish:
        await access.aside([Message("user", "A title?")])
        return await super().prompt(turns, access)


class CuriousOwner(Owner):
    def begin(self, instruction: str) -> Chat:
        return Curious(instruction, self.words, self.breaks_after, self.slow, self.closed)


def test_what_is_recalled_tells_how_much_was_asked_aside() -> None:
    async def test() -> None:
        journal, policy = (
            MemoryJournal(),
            ScriptedPolicy(lambda session, number: "A title" if "#aside" in session else says(session, number)),
        )
        made, recalled = [await run_attempt((bench(CuriousOwner(), journal), policy), attempt()) for _ in range(2)]
        assert made.trajectory.asides == 6
        assert recalled == made

    asyncio.run(test())


def test_one_that_asks_for_something_else_has_failed_and_nobody_else() -> None:
    async def test() -> None:
        journal = MemoryJournal()
        first = await rolled(bench(Owner(), journal), ScriptedPolicy(says), attempt(replace(BUDGET, turns=2)))
        other = await rolled(bench(Owner("Now:"), journal), ScriptedPolicy(says), attempt(), first.trajectory.turns)
        assert other.trajectory.stop == "failed"
        assert str(other.fault) == "the program asks something else before turn 1 than it did"

    asyncio.run(test())


@pytest.mark.parametrize("after", [0, 2])
def test_one_that_breaks_is_a_fault_and_keeps_its_turns(after: int) -> None:
    done = asyncio.run(rolled(bench(Owner(breaks_after=after)), ScriptedPolicy(says), attempt()))
    assert (done.trajectory.stop, len(done.trajectory.turns), str(done.fault)) == ("failed", after, "it broke")


def test_time_that_it_takes_is_the_attempts() -> None:
    owner = Owner(slow=60.0)
    done = asyncio.run(rolled(bench(owner), ScriptedPolicy(says), attempt(replace(BUDGET, seconds=0.3)))).trajectory
    assert done.stop == "time limit"
    assert owner.closed == ["total is wrong"]


def test_a_recipe_names_it_as_any_agent() -> None:
    made = agent_of(AgentChoice(scaffold=Component(f"{__name__}:Owner")))
    assert isinstance(made, Program)
    assert asyncio.run(first_step(made, "it")) == Extend((Message("user", "Mend: it"),))


def test_a_conversation_of_an_agent_of_ours_asks_it_anew() -> None:
    from tests.rollouts.test_loop import AGENT

    assert asyncio.run(first_step(AGENT, "it")) == AGENT.prompt("it", ())
    asyncio.run(conversing(AGENT, "it").close())
