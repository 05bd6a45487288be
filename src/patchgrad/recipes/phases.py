"""What a run does, one value a phase: warm-up, rejection fine-tuning, stages of RL, evaluation; and how its optimiser steps."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Literal

from patchgrad.config import require, within
from patchgrad.credit import FailurePolicy, Treatment
from patchgrad.recipes.rows import ROWS, Aggregation, Mismatch, Name, Penalty, clip
from patchgrad.tasks.workshop.apprentice import Habits
from patchgrad.values import Sampling


@dataclass(frozen=True, slots=True)
class Warmup:
    """Makes the base policy where there is none: the apprentice's demonstrations, drills and looks, then one language-model pass over them.

    A drill is an episode of a look and eleven edits, without tests; a look is the first turn alone, which opens the file that an issue of
    gibberish names. Both are cheap, and dense in what is hardest to learn: to copy without a mistake. All are made on the first `tasks` of
    a kind, so that most of them begin in a sandbox that another one has opened.
    """

    demonstrations: int = 1100
    drills: int = 500
    looks: int = 2500
    tasks: int = 800
    epochs: int = 1
    batch: int = 16
    lr: float = 3e-3
    observation_weight: float = 0.1
    turns: int = 16
    demonstrator: Habits = field(default_factory=Habits)

    def __post_init__(self) -> None:
        within(1, inf, "warmup.", self, "demonstrations", "tasks", "epochs", "batch", "turns")
        within(0, inf, "warmup.", self, "drills", "looks", "observation_weight")
        require(self.lr > 0, f"warmup.lr is {self.lr}; a learning rate must be above 0")
        within(0, 1, "warmup.demonstrator.", self.demonstrator, *(one.name for one in fields(self.demonstrator)))


@dataclass(frozen=True, slots=True)
class Optimiser:
    """`muon` steps matrices by orthogonalised momentum and the rest by AdamW; `adamw` all by AdamW.

    `betas`, `epsilon` and `weight_decay` are AdamW's, in either. `pack` is the most distinct tokens of one forward pass; with `recompute`
    what happens inside a layer is not kept for the backward pass but computed again there (1604.06174). Parameters whose names are among
    the `frozen`, which may hold `*`, do not move once there is a base policy: AdamW's steps are as long for a row of an embedding that
    hardly matters as for one that does. With a `rank` only adapters of a model are trained (LoRA), which add `alpha / rank` times their
    product; with 0 all of it is. Products are in `precision`; those of a warm-up and of fine-tuning, which take no ratio to what the
    sampler said and bear more rounding, in `imitation`, where the processor multiplies such numbers. With `offload` the optimiser's states
    and the parameters' exact values lie in host memory, and a GPU has what it computes with.
    """

    name: Literal["muon", "adamw"] = "muon"
    betas: tuple[float, float] = (0.9, 0.95)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 1.0
    frozen: tuple[str, ...] = ("model.embed_tokens.weight",)
    pack: int = 2560
    recompute: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"
    imitation: Literal["float32", "bfloat16"] = "bfloat16"
    threads: int = 2
    rank: int = 0
    alpha: float = 32.0
    offload: bool = False

    def __post_init__(self) -> None:
        require(self.rank >= 0 and self.alpha > 0, "optimiser.rank must be at least 0, which is no adapters, and optimiser.alpha above 0")
        require(all(0 <= beta < 1 for beta in self.betas), f"optimiser.betas are {self.betas}; both must be from 0 to below 1")
        require(self.epsilon > 0 and self.clip > 0, "optimiser.epsilon and optimiser.clip must be above 0")
        finer = self.precision == "bfloat16" and self.imitation == "float32"
        require(not finer, "optimiser.imitation is float32 and optimiser.precision bfloat16, as weights may be kept: make both bfloat16")
        require(0 <= self.weight_decay < 1, f"optimiser.weight_decay is {self.weight_decay}; it must be from 0, which is none, to below 1")
        require(self.pack >= 1 and self.threads >= 1, "optimiser.pack and optimiser.threads must be at least 1")


@dataclass(frozen=True, slots=True)
class Failures:
    """What becomes of turns that failed, by how; in fine-tuning and RL alike (`credit.FailurePolicy`).

    `truncated` is a turn that ran out of tokens before its command ended, `unknown_tool` a command that the shell does not find or a tool
    that the agent does not have. `looping` is a call that was made before in the same state, `overlong` are all turns of an attempt that
    ran into a limit. What infrastructure broke is no field: it is dropped before anything is averaged.
    """

    no_command: Treatment = "keep"
    truncated: Treatment = "keep"
    several_commands: Treatment = "keep"
    unknown_tool: Treatment = "keep"
    bad_arguments: Treatment = "keep"
    looping: Treatment = "keep"
    timeout: Treatment = "keep"
    died: Treatment = "keep"
    out_of_memory: Treatment = "keep"
    overlong: Treatment = "keep"

    @property
    def policy(self) -> FailurePolicy:
        """By the names that turns have: `Failures(no_command="mask").policy` is `{"no command": "mask"}`."""
        chosen = {field.name.replace("_", " "): getattr(self, field.name) for field in fields(self)}
        return MappingProxyType({kind: treatment for kind, treatment in chosen.items() if treatment != "keep"})


def unread(treatment: Treatment) -> Failures:
    """The same for all turns that the environment could not read; a command that the shell does not find it has read."""
    return Failures(no_command=treatment, truncated=treatment, several_commands=treatment, bad_arguments=treatment)


@dataclass(frozen=True, slots=True)
class Rft:
    """Rejection fine-tuning, PAPER section 5: roll out, keep what passes, imitate. More rounds than one are the plain baseline to RL.

    Of a task at most `cap` attempts are imitated, or all where it is none, and of twins one with `dedupe`. `batch` counts trajectories per
    optimiser step. The rate rises over `warmup` steps, or a fifth of them if those are fewer; then it stays, or falls along a cosine to 0.
    An attempt that takes `seconds` is stuck.

    With `demonstration` a prompt to collect by shows one solved issue, and what is imitated follows the prompt without it. Of `failures`
    the masked are context and never imitated; the paper masks turns with no command or several.
    """

    rounds: int = 1
    tasks: int = 100
    attempts: int = 10
    demonstration: bool = False
    cap: int | None = 4
    dedupe: bool = True
    epochs: int = 2
    batch: int = 8
    lr: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    turns: int = 12
    context: int = 1536
    seconds: float = 600.0
    failures: Failures = field(default_factory=partial(unread, "mask"))

    def __post_init__(self) -> None:
        within(0, inf, "rft.", self, "rounds", "warmup")
        within(1, inf, "rft.", self, "tasks", "attempts", "epochs", "batch", "turns", "context", "seconds", "cap")
        require(self.lr > 0, f"rft.lr is {self.lr}; a learning rate must be above 0")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of RL, PAPER sections 6.1 to 6.6. An optimiser step takes whole groups, of at least `minibatch` trajectories together.

    It ends after `iterations`, or before, when Pass@1 on the tasks that were drawn has not risen over the last `plateau` of them
    (`curricula/plateau.py`); 0 never asks. Turns that failed, and attempts that ran into a limit, are kept as examples of what not to do,
    as in the paper, or treated otherwise (`failures`). Actions are drawn from the whole distribution; a `top_p` below 1 cuts it, which is
    what the paper warns of, and is here to be studied. Of the tasks that are left a `pool` of so many is drawn from, or all with 0. An
    attempt that takes `seconds` is stuck.

    `algorithm` is a row of the table (`recipes/rows.py`); its own `clip_low`, `clip_high` and `aggregate` hold where none is given here.
    Ratios are taken to the `old` log-probabilities: those `sampled`, or `recomputed` by the trainer before the first step of an iteration,
    so that the `mismatch` between the two can be corrected for. A `penalty` of weight 0 is none.

    From the first iteration to the last `lr` falls in a line, by a share of `decay` over the stage (0 in the paper).
    Attempts begin at their task's beginning, or, where `starts` are `prefixes`, after turns of an earlier one where the task is too hard or
    too easy (`curricula.Prefixes`). With `forks`, that many turns of a group are gone on before `continuations` times more
    (`branching`), which the baseline `turns` makes turn values of (`advantages.Branched`).

    `length_weight` scales what turns beyond `length_threshold` cost; 1 is the paper's, at which an attempt at the turn limit costs 1 more
    than giving up.

    The rest is about advantages. `baseline` is the mean reward of the group, as in the paper, or of its tokens
    (`advantages.LengthWeighted`), or the value of the turns before, `lowered` by so much (`advantages.GroupNormalised`; 0 in the paper);
    only rows whose advantages are `normalised` take these two. `step_weight` adds to it what each turn did better than the others that
    began in its state (`advantages.Anchored`, with `discount`; 0 in the paper). Tokens that the policy was `certain` of are not blamed
    (`credit.assign`; 1, all are, in the paper).
    """

    iterations: int = 6
    plateau: int = 0
    pool: int = 0
    tasks: int = 16
    attempts: int = 10
    minibatch: int = 20
    lr: float = 5e-4
    decay: float = 1.0
    algorithm: Name = "dapo"
    clip_low: float | None = None
    clip_high: float | None = None
    aggregate: Aggregation | None = None
    old: Literal["sampled", "recomputed"] = "sampled"
    mismatch: Mismatch = field(default_factory=Mismatch)
    penalty: Penalty = field(default_factory=Penalty)
    turns: int = 8
    context: int = 1024
    seconds: float = 600.0
    length_threshold: int = 6
    length_weight: float = 0.1
    refresh_before: bool = False
    filter_on: Literal["outcome", "reward"] = "outcome"
    starts: Literal["beginning", "prefixes"] = "beginning"
    forks: int = 0
    continuations: int = 3
    baseline: Literal["group", "tokens", "turns"] = "tokens"
    lowered: float = 0.1
    step_weight: float = 3.0
    discount: float = 0.9
    certain: float = 0.9
    failures: Failures = field(default_factory=partial(replace, unread("withhold"), looping="withhold"))
    top_p: float = 1.0

    def __post_init__(self) -> None:
        within(1, inf, "a stage's ", self, "iterations", "tasks", "minibatch", "context", "seconds")
        within(0, inf, "a stage's ", self, "length_threshold", "length_weight", "step_weight")
        within(0, 1, "a stage's ", self, "discount")
        require(self.lr > 0, f"a stage's lr is {self.lr}; a learning rate must be above 0")
        require(0 <= self.decay <= 1, f"a stage's decay is {self.decay}; it is the share, from 0 to 1, by which its lr falls")
        require(self.pool >= 0, f"a stage's pool is {self.pool}; it counts tasks, and 0 is all")
        require(self.plateau >= 0, f"a stage's plateau is {self.plateau}; it counts iterations, and 0 never ends a stage early")
        require(0 < self.top_p <= 1, f"a stage's top_p is {self.top_p}; it must be above 0, and at most 1, which cuts nothing")
        require(self.attempts >= 2, f"attempts is {self.attempts}; a group needs at least 2 attempts to have an advantage")
        clip(self.algorithm, self.clip_low, self.clip_high)
        require(
            self.old == "recomputed" or self.mismatch.none,
            "a mismatch is corrected by recomputed / sampled log-probabilities: set old to 'recomputed', or the mismatch's bounds to none",
        )
        require(
            self.algorithm != "maxrl" or self.length_weight == 0,
            f"maxrl divides by a mean of rewards that are 0 or 1, and a length_weight of {self.length_weight} makes them less: set it to 0",
        )
        require(0 < self.certain <= 1, f"certain is {self.certain}; it is a probability above which no token is blamed, and 1 blames all")
        require(
            self.turns > self.length_threshold,
            f"turns {self.turns} must be above length_threshold {self.length_threshold}, or the length penalty divides by zero",
        )
        require(self.forks >= 0 and self.continuations >= 1, "a stage's forks must be at least 0, its continuations at least 1")
        require(
            (self.forks > 0) == (self.baseline == "turns"),
            f"forks is {self.forks} and baseline is {self.baseline}; turn values are measured by forks, and forks are for nothing else",
        )
        require(
            not self.forks or ROWS[self.algorithm].estimator == "normalised",
            f"{self.algorithm} has an estimator of its own, which does not know forks: set forks to 0 and another baseline",
        )
        require(self.lowered >= 0, f"lowered is {self.lowered}; a baseline can only be lowered, by 0 or more")


@dataclass(frozen=True, slots=True)
class EvaluationChoice:
    """Held-out evaluation. Every policy of a run is measured under the `same` limits, so that no difference is one of budget alone; or
    under its `own`, those of the phase that trained it, as in the paper: only the base and the last policy have `turns` and `context` then.

    It comes after every phase, the base included, or after the `last` alone. Of RL's iterations every so many are followed by one on a
    `sample` of the tasks, for the curves; with 0 none. Where Verified-50 is among the tasks held out, it is the sample, as in the paper.

    Pass@k is of `k` attempts, or of all where it is 0; `seconds` end an attempt on whatever machine. Sampling is neutral unless it is set,
    and always told to the policy and by the report. With `best_of` the best of k is chosen too, by `grading.VisibleTests`.
    """

    after: Literal["phases", "last"] = "phases"
    limits: Literal["same", "own"] = "same"
    every: int = 0
    sample: int = 50
    attempts: int = 2
    turns: int = 20
    context: int = 2048
    k: int = 0
    seconds: float = 600.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    best_of: Literal["", "visible tests"] = ""

    def __post_init__(self) -> None:
        within(0, inf, "evaluation.", self, "every")
        within(1, inf, "evaluation.", self, "sample", "attempts", "turns", "context", "seconds")
        require(0 <= self.k <= self.attempts, f"evaluation.k is {self.k}; pass@k of {self.attempts} attempts needs a k up to them")
        require(self.temperature >= 0, f"evaluation.temperature is {self.temperature}; it must be 0, which takes the likeliest, or above")
        require(0 < self.top_p <= 1, f"evaluation.top_p is {self.top_p}; it must be above 0, and at most 1, which cuts nothing")
        require(self.top_k >= 0, f"evaluation.top_k is {self.top_k}; it must be at least 0, which cuts nothing")
        require(0 <= self.min_p < 1, f"evaluation.min_p is {self.min_p}; it must be from 0, which cuts nothing, to below 1")
        require(self.repetition_penalty > 0, f"evaluation.repetition_penalty is {self.repetition_penalty}; 1 is none")

    def under(self, phase: Rft | Stage | None) -> EvaluationChoice:
        """The evaluation of a policy that this phase trained and others train on; of none for the base and the last one."""
        return replace(self, turns=phase.turns, context=phase.context) if phase and self.limits == "own" else self

    @property
    def drawn(self) -> int:
        """The k of pass@k."""
        return self.k or self.attempts

    @property
    def told(self) -> dict[str, float]:
        """The sampling as a report tells it."""
        return {name: float(getattr(self, name)) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}

    @property
    def sampling(self) -> Sampling:
        """How actions are drawn; seed and length are the rollout's."""
        return Sampling(1, 0, self.temperature, self.top_p, self.top_k, self.min_p, self.repetition_penalty)
