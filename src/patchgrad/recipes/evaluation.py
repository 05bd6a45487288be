"""An evaluation as a value: any policy on any set of tasks under one scaffold, printed and read back like a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgrad.config import require
from patchgrad.evaluation import PROTOCOLS
from patchgrad.recipes.evaluation_choice import EvaluationChoice
from patchgrad.recipes.limits import AttemptLimits
from patchgrad.recipes.recipe import AgentChoice, Recipe, SandboxChoice


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """Which tasks: those of a set's folder with statements at a `level`, all or of one `split`; where `count` is not 0, so many of them.

    The folder `generated` stands for the held-out tasks that the recipe `laptop` generates from the evaluation's seed.
    """

    folder: str = ""
    level: str = "report"
    split: str = ""
    count: int = 0

    def __post_init__(self) -> None:
        require(self.count >= 0, f"tasks.count is {self.count}; it must be how many tasks are measured, or 0 for all.")
        told = "generated tasks are all held out and told in one way: leave tasks.split and tasks.level out"
        require(not self.generated or (self.level == "report" and self.split in ("", "held_out")), told)

    @property
    def generated(self) -> bool:
        """Are they made when they are measured? A folder of that name is `./generated`."""
        return self.folder == "generated"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that decides an evaluation. The policy is a folder, a hub id, or an address with the name of the model there.

    A folder's model draws on so many `threads`, or with `gpus` 1 on the GPU, and its positions are stretched by `yarn` (`PolicyChoice`); a
    context beyond what it then reads is refused. `protocol` is one of `evaluation.PROTOCOLS`, by which the
    figures may be said to be; what contradicts it is refused.
    """

    policy: str = ""
    model: str = ""
    name: str = ""
    protocol: str = ""
    seed: int = 0
    threads: int = 1
    gpus: int = 0
    yarn: float = 1.0
    tasks: TaskChoice = TaskChoice()
    agent: AgentChoice = field(default=AgentChoice(prompts="full", window=60, observation=3600, action_tokens=2048, format_errors=0))
    sandbox: SandboxChoice = field(default=SandboxChoice(concurrency=8))
    evaluation: EvaluationChoice = field(
        default=EvaluationChoice(attempts=5, limits=AttemptLimits(turns=80, context=32_768, seconds=3600.0))
    )

    def __post_init__(self) -> None:
        require(self.gpus in (0, 1), f"gpus is {self.gpus}; a policy draws on the cores, which is 0, or on one GPU")
        require(self.yarn >= 1, f"yarn is {self.yarn}; a model's positions can be stretched, by 1 or more, not squeezed")
        require(not self.remote or bool(self.model), f"{self.policy} is an address: say which of its models is meant, as in --model NAME.")
        require(
            not self.model or self.remote,
            f"A model's name belongs to an address, and {self.policy or 'no policy'} is none: leave --model out.",
        )
        require(
            not self.protocol or self.protocol in PROTOCOLS,
            f"There is no protocol {self.protocol}; there are: {', '.join(PROTOCOLS)}.",
        )
        if not self.protocol:
            return
        given, rule = self.evaluation, PROTOCOLS[self.protocol]
        other = "The protocol {} has evaluation.{} {} and not {}: leave one of the two out."
        require(given.attempts == rule.runs, other.format(rule.name, "attempts", rule.runs, given.attempts))
        require(given.drawn == rule.k, other.format(rule.name, "k", rule.k, given.drawn))
        require(
            given.limits.context <= rule.context,
            f"The protocol {rule.name} allows a context of {rule.context}, and evaluation.limits.context is {given.limits.context}.",
        )

    @property
    def remote(self) -> bool:
        """Does a server answer for the policy?"""
        return self.policy.lower().startswith(("http://", "https://"))

    @property
    def title(self) -> str:
        """What the report is called."""
        return self.name or self.model or self.policy


def by_protocol(choice: EvaluationChoice, name: str, most: int) -> EvaluationChoice:
    """The runs and k of a protocol, and its context, or the `most` that is to be read; an unknown name is left to who checks it."""
    if name not in PROTOCOLS:
        return choice
    rule = PROTOCOLS[name]
    return replace(choice, attempts=rule.runs, k=rule.k, limits=replace(choice.limits, context=min(rule.context, most)))


def of_run(recipe: Recipe, checkpoint: Path, protocol: str = "") -> Evaluation:
    """The evaluation of a run's checkpoint, under the scaffold and the limits of its recipe."""
    return Evaluation(
        policy=str(checkpoint),
        name=checkpoint.name,
        protocol=protocol,
        seed=recipe.seed,
        threads=recipe.policy.threads,
        gpus=min(recipe.machine.gpus, 1),
        tasks=TaskChoice(recipe.tasks.folder, recipe.tasks.level),
        agent=recipe.agent,
        sandbox=recipe.sandbox,
        evaluation=recipe.evaluation,
    )
