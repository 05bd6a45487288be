"""Parts of the user's: where they are found, how they are made, and what is said of one that does not do what it has to."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.attempts import attempt

from patchgrad.agents.tools import FunctionTool
from patchgrad.contracts import Sandbox, Tracker, Trained
from patchgrad.errors import ComponentError, ConfigError, SandboxFault
from patchgrad.functions import picklable, timed
from patchgrad.grading.judges import FunctionJudge
from patchgrad.grading.rewards import FunctionReward
from patchgrad.learning.advantages import FunctionEstimator
from patchgrad.learning.curricula import Staged
from patchgrad.recipes import tiny
from patchgrad.recipes.component import BUILT_IN, Component
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.build.curriculum import curriculum, tried
from patchgrad.runs.build.tracking import tracking
from patchgrad.runs.components import Registry, named_parts, with_parts
from patchgrad.runs.components.code import code_of, digest_of, refuse_changed
from patchgrad.runs.components.construct import conforming, construct
from patchgrad.runs.components.listing import KEYS, listed
from patchgrad.runs.components.places import importable
from patchgrad.runs.tasks import held_out_tasks
from patchgrad.testing.curriculum import TASKS
from patchgrad.values import Event, Group, Judgement, Note, Observation, Reward, Task, ToolState, Trajectory, Verdict

ONE = attempt("rft/0/0/1", [[(2, 3), (1, 2)]], 1.0)
GROUP = Group((ONE, attempt("rft/0/0/2", [[(2, 4)]], 0.0)))


def small(task: Task, trajectory: Trajectory, verdict: Verdict, weight: float = 1.0) -> float:
    return weight * verdict.resolved / (1 + trajectory.submission.count("\n") / 100)


def rewarded(function: Callable[..., object]) -> Reward:
    return FunctionReward(function)(ONE.task, ONE.trajectory, ONE.verdict, (Judgement("length", 3.0),))


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder beside which modules of the user's lie; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    importable(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


# --- rewards -------------------------------------------------------------------------------------


def test_a_function_of_three_or_four_arguments_is_a_reward() -> None:
    assert rewarded(small) == Reward(1.0, {"small": 1.0})
    assert rewarded(functools.partial(small, weight=2.0)) == Reward(2.0, {"small": 2.0})
    assert rewarded(lambda task, trajectory, verdict, judgements: judgements[0].score).value == 3.0
    assert rewarded(lambda *given: Reward(3.0, {"a": 1.0, "b": 2.0})) == Reward(3.0, {"a": 1.0, "b": 2.0})
    assert rewarded(lambda task, trajectory, verdict: Reward(0.5, {})).parts == {"<lambda>": 0.5}


def two(task: Task, trajectory: Trajectory) -> float:
    return 0.0


def fails(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    return 1 / len(trajectory.submission)


def test_a_reward_that_cannot_be_called_is_refused_when_it_is_made() -> None:
    with pytest.raises(ComponentError, match=r"^The reward two takes \(task.*and it is called with \(task, trajectory, verdict\)"):
        FunctionReward(two)
    with pytest.raises(ComponentError, match=r"^The reward int is no function"):
        FunctionReward(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (None, "returned None on rft/0/0/1, and a number or a Reward is wanted"),
        (float("nan"), "returned nan on rft/0/0/1, and a number or a Reward that is finite is wanted"),
        ("good", "returned str on rft/0/0/1"),
        (Reward(1.0, {"a": 0.5}), "returned 1 on rft/0/0/1 in parts that add up to 0.5"),
        (Reward(float("inf"), {}), "returned inf on rft/0/0/1, and a Reward that is finite is wanted"),
    ],
)
def test_what_a_reward_returns_is_named(returned: object, sentence: str) -> None:
    with pytest.raises(ComponentError, match=f"^The reward <lambda> {sentence}"):
        rewarded(lambda task, trajectory, verdict: returned)


def test_a_reward_that_raises_is_named_with_the_attempt_and_the_line() -> None:
    with pytest.raises(
        ComponentError, match=r"^The reward fails failed on rft/0/0/1: ZeroDivisionError: .*\(test_components.py, line \d+\)\.$"
    ):
        rewarded(fails)


def waits(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    time.sleep(0.05)
    return 1.0


def waits_longer(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    time.sleep(0.3)
    return 1.0


def test_a_function_that_keeps_everybody_waiting_is_told_of(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgrad.functions.BLOCKED", 0.01)
    with caplog.at_level(logging.WARNING):
        rewarded(waits)
    assert "The reward waits kept all attempts waiting for 0." in caplog.text
    assert "on rft/0/0/1: what takes long is a judge." in caplog.text
    caplog.clear()
    with timed("reward", small, "nothing"):
        pass
    assert not caplog.text


def test_what_cannot_be_sent_to_another_process_is_named() -> None:
    assert picklable("reward", FunctionReward(small)).function is small
    with pytest.raises(ComponentError, match=r"^The reward <lambda> cannot be sent to another process"):
        picklable("reward", lambda task, trajectory, verdict: 0.0)


# --- judges and tools ----------------------------------------------------------------------------


def judged(function: Callable[..., object], seconds: float = 60.0) -> Judgement:
    return asyncio.run(FunctionJudge(function, seconds)(ONE.task, ONE.trajectory, ONE.verdict))


async def slowly(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    await asyncio.sleep(0.01)
    return 2.0


async def blocking(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    time.sleep(0.05)
    return 2.0


def test_functions_with_and_without_async_are_judges() -> None:
    assert (judged(slowly).judge, judged(slowly).score) == ("slowly", 2.0)
    assert judged(lambda task, trajectory, verdict: len(trajectory.turns)).score == 2.0
    assert judged(lambda task, trajectory, verdict: Judgement("mine", 1.0, {"a": 1.0}, 0.5)) == Judgement("mine", 1.0, {"a": 1.0}, 0.5)


def test_a_judge_without_async_does_not_block_the_others() -> None:
    async def both() -> float:
        began = time.monotonic()
        judge = FunctionJudge(waits_longer)
        await asyncio.gather(*(judge(ONE.task, ONE.trajectory, ONE.verdict) for _ in range(3)))
        return time.monotonic() - began

    assert asyncio.run(both()) < 0.85


def test_a_judge_that_blocks_the_loop_is_told_of(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgrad.functions.BLOCKED", 0.01)
    assert judged(blocking).score == 2.0
    assert "The judge blocking kept all attempts waiting" in caplog.text


def test_a_judge_that_gives_no_judgement_in_time_is_a_fault_of_the_infrastructure() -> None:
    async def never(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
        await asyncio.sleep(60)
        return 0.0

    with pytest.raises(SandboxFault, match=r"the judge never gave no judgement of rft/0/0/1"):
        judged(never, 0.05)


def test_a_judge_that_fails_is_named() -> None:
    with pytest.raises(ComponentError, match=r"^The judge fails failed on rft/0/0/1: ZeroDivisionError"):
        judged(fails)
    with pytest.raises(ComponentError, match=r"^The judge <lambda> returned None on rft/0/0/1, and a number or a Judgement is wanted"):
        judged(lambda task, trajectory, verdict: None)


def words(arguments: str, sandbox: Sandbox, state: ToolState) -> str:
    """words TEXT:
    how many words a text has

    More that no agent reads.
    """
    return f"{len(arguments.split())} words"


def silent(arguments: str, sandbox: Sandbox, state: ToolState) -> str:
    return ""


def used(function: Callable[..., object], arguments: str = "a b", limit: int = 100) -> Observation:
    class Nothing:
        pass

    return asyncio.run(FunctionTool(function, limit)(arguments, Nothing(), ToolState()))  # type: ignore[arg-type]


def test_a_function_is_a_tool_with_the_usage_of_its_docstring() -> None:
    tool = FunctionTool(words)
    assert (tool.name, tool.usage) == ("words", "words TEXT: how many words a text has")
    assert used(words) == Observation("2 words", ToolState())
    seen = used(_long, limit=100)
    assert seen.clipped
    assert "left out" in seen.content


def _long(arguments: str, sandbox: Sandbox, state: ToolState) -> str:
    """long: too much"""
    return "x" * 500


def test_a_tool_that_does_not_work_is_named() -> None:
    with pytest.raises(ComponentError, match=r"^The tool silent has no docstring"):
        FunctionTool(silent)

    def broken(arguments: str, sandbox: Sandbox, state: ToolState) -> str:
        """broken: fails"""
        raise KeyError("x")

    with pytest.raises(ComponentError, match=r"^The tool broken failed on the arguments 'a b': KeyError: 'x'"):
        used(broken)

    def nothing(arguments: str, sandbox: Sandbox, state: ToolState) -> None:
        """nothing: says nothing"""

    with pytest.raises(ComponentError, match=r"^The tool nothing returned None on the arguments 'a b', and a text or an Observation"):
        used(nothing)


# --- estimators, objectives, curricula -----------------------------------------------------------


def test_an_estimator_gives_a_number_an_attempt_or_one_a_token() -> None:
    one, other = FunctionEstimator(lambda group: [1, np.array([0.5, 0.25, 0.0, 1.0])])(GROUP)
    assert one.tolist() == [1.0] * 5
    assert other.tolist() == [0.5, 0.25, 0.0, 1.0]
    assert one.dtype == np.float32


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ([1.0], "returned 1 entries for the 2 attempts of rft/0/0/1"),
        ([1.0, [1.0, 2.0]], r"returned an array of shape \(2,\) for the 4 action tokens of rft/0/0/2"),
        ([1.0, float("nan")], "returned an advantage of rft/0/0/2 that is not finite"),
        (None, "returned None on the group of rft/0/0/1"),
        (["a", "b"], "failed on rft/0/0/1: ValueError"),
    ],
)
def test_what_an_estimator_returns_is_named(returned: object, sentence: str) -> None:
    with pytest.raises(ComponentError, match=f"^The estimator <lambda> {sentence}"):
        FunctionEstimator(lambda group: returned)(GROUP)


def test_an_objective_is_checked_where_it_is_computed() -> None:
    torch = pytest.importorskip("torch")
    from patchgrad.learning.objectives.functions import FunctionObjective

    logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
    tokens = Trained(logprobs, logprobs.detach(), logprobs.detach(), torch.ones(2), torch.zeros(2, dtype=torch.long))

    def costs(function: Callable[[Trained], object]) -> tuple[Any, Mapping[str, Any]]:
        return FunctionObjective(function)(tokens)

    assert costs(lambda t: -t.advantages * t.logprobs)[0].tolist() == [1.0, 2.0]
    assert float(costs(lambda t: (-t.logprobs, {"mine": 3}))[1]["objective/mine"]) == 3.0
    for function, sentence in (
        (lambda t: -t.logprobs.mean(), r"returned costs of shape \(\) for 2 tokens"),
        (lambda t: -t.logprobs.detach(), "returned costs without a gradient"),
        (lambda t: t.logprobs * float("nan"), "returned a cost that is not finite"),
        (lambda t: 1.0, "returned 1.0, and a tensor"),
        (lambda t: (-t.logprobs, {"mine": t.logprobs}), "returned the metric mine as Tensor"),
        (lambda t: t.missing, "failed: AttributeError"),
    ):
        with pytest.raises(ComponentError, match=f"^The objective <lambda> {sentence}"):
            costs(function)


class InOrder:
    """The tasks in their order, again and again."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks, self.place = list(tasks), 0

    def draw(self, n: int) -> list[Task]:
        self.place += n
        return [self.tasks[(self.place + i) % len(self.tasks)] for i in range(n)]

    def observe(self, group: Group) -> None:
        """It does not ask."""

    def state(self) -> dict[str, Any]:
        return {"place": self.place}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.place = state["place"]


class TooFew(InOrder):
    """Draws one less."""

    def draw(self, n: int) -> list[Task]:
        return super().draw(n)[1:]


class Unwritable(InOrder):
    """Has a state that is no JSON."""

    def state(self) -> dict[str, Any]:
        return {"tasks": self.tasks}


def test_a_curriculum_of_four_methods_is_made_with_what_it_asks_for() -> None:
    recipe, registry = with_parts(tiny(), {"curriculum": InOrder})
    tried(recipe, TASKS, registry)
    made = curriculum(recipe, TASKS, registry)
    assert isinstance(made, Staged)
    assert len(made.draw(9)) == 9
    begun, told = made.begin_stage(True, 0)
    assert begun is made
    assert "chooses all tasks itself" in told


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (TooFew, "The curriculum TooFew drew 0 tasks, and a list of 1 of its tasks was asked for"),
        (Unwritable, "The curriculum Unwritable has a state that JSON does not hold"),
        (lambda tasks: object(), "curriculum: object has no draw, observe, restore, state: a Curriculum has"),
        (lambda tasks, speed: None, "wants speed, which is none of its options in the recipe nor of tasks, seed"),
    ],
)
def test_a_curriculum_that_cannot_work_is_refused_before_the_run(made: Callable[..., Any], sentence: str) -> None:
    recipe, registry = with_parts(tiny(), {"curriculum": made})
    with pytest.raises((ComponentError, ConfigError), match=sentence):
        tried(recipe, TASKS, registry)


# --- names ---------------------------------------------------------------------------------------


def test_a_name_leads_to_a_module_beside_the_recipe(beside: Path) -> None:
    (beside / "mine_reward.py").write_text("def small(task, trajectory, verdict, weight=1.0):\n    return weight\n\nNUMBER = 3\n")
    made = harnesses.reward(Component("mine_reward:small", {"weight": 2.0}))
    assert made(ONE.task, ONE.trajectory, ONE.verdict, ()) == Reward(2.0, {"small": 2.0})
    for name, options, sentence in (
        ("mine_reward:large", {}, r"reward is mine_reward:large, and mine_reward \(.*mine_reward.py\) has no large"),
        ("not_there:small", {}, "reward is not_there:small, and there is no module not_there: put it beside the recipe's file"),
        ("mine_reward:small", {"wait": 1}, "reward: small has no option wait; it has task, trajectory, verdict, weight"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            harnesses.reward(Component(name, options))
    with pytest.raises(ComponentError, match="The reward int is no function"):
        harnesses.reward(Component("mine_reward:NUMBER"))


def test_a_module_that_cannot_be_imported_is_named(beside: Path) -> None:
    (beside / "mine_broken.py").write_text("import not_installed_anywhere\n")
    with pytest.raises(ConfigError, match="mine_broken needs not_installed_anywhere, which is not installed"):
        harnesses.reward(Component("mine_broken:small"))
    (beside / "mine_wrong.py").write_text("x = = 1\n")
    with pytest.raises(ConfigError, match="mine_wrong cannot be imported: SyntaxError"):
        harnesses.reward(Component("mine_wrong:small"))


def test_a_class_is_made_with_its_options() -> None:
    reward = harnesses.reward(Component("patchgrad.grading.rewards:TurnPenalty", {"threshold": 1, "limit": 3}))
    assert reward(ONE.task, ONE.trajectory, ONE.verdict, ()).value == -0.5
    with pytest.raises(ConfigError, match="reward: TurnPenalty wants threshold, limit, which is none of its options in the recipe"):
        harnesses.reward(Component("patchgrad.grading.rewards:TurnPenalty"))


def test_an_installed_package_registers_parts(beside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from patchgrad.cli import main

    info = beside / "acme_rewards-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rewards\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[patchgrad.rewards]\nterse = acme_terse:terse\n")
    (beside / "acme_terse.py").write_text("def terse(task, trajectory, verdict):\n    return -len(trajectory.turns)\n")
    made = harnesses.reward(Component("terse"))
    assert made(ONE.task, ONE.trajectory, ONE.verdict, ()).value == -2.0
    found = next(one for one in listed() if one.name == "terse")
    assert (found.key, found.about, found.package) == ("reward", "acme_terse:terse", "acme-rewards 1.2")
    assert main(["components"]) == 0
    assert "terse              acme_terse:terse  (acme-rewards 1.2)" in capsys.readouterr().out


@pytest.mark.parametrize("broken", [b"[patchgrad.rewards]\nterse\n", b"[patchgrad.rewards]\nterse = caf\xe9:x\n"])
def test_a_package_whose_list_is_broken_takes_no_other_with_it(beside: Path, capsys: pytest.CaptureFixture[str], broken: bytes) -> None:
    from patchgrad.cli import main

    for name, points in (("acme-broken", broken), ("acme-whole", b"[patchgrad.rewards]\nlong = acme_long:long\n")):
        info = beside / f"{name.replace('-', '_')}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_bytes(points)
    assert main(["components"]) == 1
    out, err = capsys.readouterr()
    assert "acme_long:long  (acme-whole 1)" in out
    assert err.count("The entry points of the package acme-broken cannot be read") == 1
    with pytest.raises(ConfigError, match="terse is not registered"):
        harnesses.reward(Component("terse"))


def test_what_is_built_in_is_listed_and_every_kind_has_a_place_in_a_recipe() -> None:
    assert {one.name for one in listed()} >= {name for names in BUILT_IN.values() for name in names}
    keys = {part.key.replace(".0", "").replace("stages.1", "stages").replace("stages.", "stages.N.") for part in named_parts(tiny())}
    assert keys <= set(KEYS.values()) | {"trackers"}


def test_objects_take_the_places_that_names_have() -> None:
    given = {"reward": small, "judges": [fails], "tools": [words], "estimator": "mean", "curriculum": InOrder}
    recipe, registry = with_parts(tiny(), given)
    assert recipe.reward == Component("tests.runs.test_components:small")
    assert [stage.row.estimator.name for stage in recipe.stages] == ["mean", "mean"]
    assert registry.function("rewards", recipe.reward, "reward") is small
    assert "words" in harnesses.agent(recipe.agent, registry).tools
    assert len(harnesses.judges(recipe.judges, registry)) == 1
    recipe, registry = with_parts(tiny(), {"judges": [lambda task, trajectory, verdict: 1, lambda task, trajectory, verdict: 2]})
    assert [part.name for part in recipe.judges] == ["__main__:lambda", "__main__:lambda_2"]
    with pytest.raises(ConfigError, match="A run has no part rewrd; there are reward"):
        with_parts(tiny(), {"rewrd": small})
    with pytest.raises(ConfigError, match=r"tools are several: write tools=\[...\]"):
        with_parts(tiny(), {"tools": words})


def test_a_part_that_was_an_object_of_another_program_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"reward was an object of a Python program, small: resume .* name it, as in --reward mine:small"):
        harnesses.reward(Component("__main__:small"))


def test_tasks_can_be_given() -> None:
    named = [(split, f"{split} {number}") for split in ("train", "held_out") for number in (1, 2)]
    tagged = [replace(TASKS[0], id=name, tags={"split": split}) for split, name in named]
    recipe, registry = with_parts(tiny(), {"tasks": tagged})
    assert [task.id for task in held_out_tasks(recipe, Path("nowhere"), registry)] == ["held_out 1", "held_out 2"]
    recipe, registry = with_parts(tiny(), {"tasks": lambda split, count, seed: None})
    with pytest.raises(ComponentError, match="The task source <lambda> returned None on the split train, and a list of at least one task"):
        held_out_tasks(recipe, Path("nowhere"), registry)
    recipe, registry = with_parts(tiny(), {"tasks": lambda split, count, seed: tagged})
    with pytest.raises(ConfigError, match="gives train 1 to train on and as held out"):
        held_out_tasks(recipe, Path("nowhere"), registry)


def test_trackers_are_told_beside_the_terminal(tmp_path: Path) -> None:
    seen: list[object] = []

    class Mine:
        def __init__(self, folder: Path) -> None:
            seen.append(folder)

        def event(self, event: Event) -> None:
            seen.append(event)

    recipe, registry = with_parts(tiny(), {"trackers": [Mine]})
    with tracking(recipe.trackers, tmp_path, registry) as tracker:
        tracker.event(Note("x"))
    assert seen == [tmp_path, Note("x")]


def test_a_part_is_made_with_the_facts_that_it_names() -> None:
    assert construct("a", lambda tasks, seed=1: (tasks, seed), {}, {"tasks": "t", "seed": 2, "more": 3}) == ("t", 2)
    assert construct("a", lambda **all_of_them: all_of_them, {"x": 1}, {"tasks": "t"}) == {"x": 1}
    with pytest.raises(ComponentError, match="a: fails cannot be made: ZeroDivisionError"):
        construct("a", functools.partial(fails, ONE.task, ONE.trajectory), {}, {"verdict": None})
    with pytest.raises(ComponentError, match="a: int has no event: a Tracker has event"):
        conforming("a", 3, Tracker)


# --- code ----------------------------------------------------------------------------------------


def test_the_code_of_a_module_is_its_file(beside: Path) -> None:
    module = beside / "mine_hashed.py"
    module.write_text("def small(task, trajectory, verdict):\n    return 1.0\n")
    recipe, registry = with_parts(tiny(), {"reward": "mine_hashed:small"})
    before = code_of(recipe, registry)
    assert list(before) == ["reward"]
    assert before["reward"]["file"] == str(module)
    module.write_text("def small(task, trajectory, verdict):\n    return 2.0\n")
    now = code_of(recipe, registry)
    refuse_changed(before, before, beside)
    with pytest.raises(ConfigError, match=r"The code of reward \(mine_hashed:small in .*\) has changed since .* --accept-changed-code"):
        refuse_changed(before, now, beside)


def test_the_code_of_what_has_no_source_is_what_was_compiled() -> None:
    def made(text: str) -> Any:
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, "<command>", "exec"), space)
        return space["f"]

    one = made("def f(a):\n    return a in {'x', 'y', 'z'}")
    assert digest_of(one) == digest_of(made("def f(a):\n    return a in {'x', 'y', 'z'}"))
    assert digest_of(one) != digest_of(made("def f(a):\n    return a in {'x', 'y', 'w'}"))
    assert digest_of(functools.partial(one, 1)) != digest_of(functools.partial(one, 2))


def test_what_was_made_once_stays() -> None:
    registry = Registry({("rewards", "__main__:Counting"): Counting})
    one, other = (registry.function("rewards", Component("__main__:Counting"), "reward") for _ in range(2))
    assert one is other


class Counting:
    """A reward with a memory, which it should not have."""

    def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
        return 0.0
