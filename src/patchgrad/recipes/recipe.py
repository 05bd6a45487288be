"""A run as a value: nested frozen dataclasses that print as TOML and read back. A wrong value is refused here, before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, prod
from typing import Literal

from patchgrad.config import require, within
from patchgrad.contracts import ENFORCED, REQUIRED
from patchgrad.recipes.bounds import Guards
from patchgrad.recipes.component import Component, named
from patchgrad.recipes.evaluation_choice import EvaluationChoice, Validation
from patchgrad.recipes.limits import AttemptLimits
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.stage import Stage, Start
from patchgrad.recipes.warmup import Warmup
from patchgrad.tasks.synthetic.bugs import FAMILIES, SWAPS
from patchgrad.values import Budget
from patchgrad.values.places import unfit


@dataclass(frozen=True, slots=True)
class Machine:
    """What a recipe is sized for: so many machines with so many GPUs each. Without GPUs it is the cores of this one.

    With `common` instructions all arithmetic is done with those of x86-64-v2, so that a run is the same on other x86-64 processors, and
    slower (`runs/instructions.py`).
    """

    nodes: int = 1
    gpus: int = 0
    instructions: Literal["all", "common"] = "all"

    def __post_init__(self) -> None:
        require(self.nodes >= 1 and self.gpus >= 0, "machine.nodes must be at least 1, machine.gpus at least 0")
        require(
            self.gpus == 0 or self.instructions == "all",
            "machine.instructions are the processor's, and another GPU rounds otherwise: leave it, or set machine.gpus to 0",
        )


@dataclass(frozen=True, slots=True)
class Mix:
    """How much of a set's training tasks is of which kind (`tasks/splits.py`): one bug, two, a missing body, a commit of its history.

    `synthetic` is the part of all training tasks that is generated beside those of the set: a network from scratch solves nothing of real
    packages at first, so there is nothing to learn from.
    """

    repair: float = 0.50
    pair: float = 0.15
    implement: float = 0.15
    history: float = 0.20
    synthetic: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.repair, self.pair, self.implement, self.history)
        require(
            min(shares) >= 0 and max(shares) > 0, "tasks.mix: a share is 0 or more, and one of repair, pair, implement, history is more"
        )
        require(0 <= self.synthetic < 1, f"tasks.mix.synthetic is {self.synthetic}; it must be a part of the training tasks, below 1")


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Where tasks come from. `synthetic` makes them from the seed; `set` reads a folder that `patchgrad tasks` wrote, with statements
    of this `level`, or of the first of several (`brief,report`) that a task has, and as many of its training tasks of each kind as `mix`
    says; another name is a source of the user's own.

    So many `held_out_generated` tasks are held out beside those of a set; a report tells of both kinds.

    `functions` are the sizes of a synthetic task's buggy module: with `(1, 2)` half of the tasks have one function, half two. `families`
    are those of its planted bugs (`tasks/mutations`): by default the four that exchange one operator or truth value. `planted` are those
    of a set's planted bugs that are taken, all where it is empty; tasks from a history or from rows have none and are taken as well.
    """

    source: Component = field(default=Component("synthetic"))
    train: int = 2000
    held_out: int = 60
    held_out_generated: int = 0
    functions: tuple[int, ...] = (1,)
    families: tuple[str, ...] = SWAPS
    folder: str = ""
    level: str = "report"
    planted: tuple[str, ...] = ()
    mix: Mix = Mix()

    def __post_init__(self) -> None:
        named("task_sources", "tasks.source", self.source)
        require(self.source.name != "set" or bool(self.folder), "tasks.folder must name a task set when tasks.source is 'set'")
        families, planted = (sorted(set(names) - set(FAMILIES)) for names in (self.families, self.planted))
        require(not families, f"tasks.families: {families}; there are {', '.join(FAMILIES)}")
        require(not planted, f"tasks.planted: {planted}; there are {', '.join(FAMILIES)}")
        require(bool(self.families), f"tasks.families: none given; there are {', '.join(FAMILIES)}")
        require(self.train > 0 and self.held_out > 0, "tasks.train and tasks.held_out must be at least 1")
        require(self.held_out_generated >= 0, f"tasks.held_out_generated is {self.held_out_generated}; it counts tasks, and 0 is none")
        require(
            self.source.name != "synthetic" or not self.held_out_generated,
            "tasks.held_out_generated is for tasks beside those of a set: all that are generated are held out by tasks.held_out",
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """A Qwen3-shaped network made from scratch; with `copies` it starts with heads that copy and point
    (`runs/demonstrations/induction.py`)."""

    hidden: int = 192
    layers: int = 4
    heads: int = 3
    kv_heads: int = 3
    head_dim: int = 64
    intermediate: int = 512
    vocabulary: int = 1024
    theta: float = 1e6
    copies: bool = True

    def __post_init__(self) -> None:
        sizes = ("hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate", "vocabulary")
        within(1, inf, "policy.shape.", self, *sizes)


KEPT = (
    *("config", "model", "served-model-name", "uds", "max-model-len", "seed", "generation-config", "override-generation-config"),
    *("logprobs-mode", "dtype", "quantization", "kv-cache-dtype", "hf-overrides"),
)
"""Options of vLLM's server that are not a user's: what `policies/vllm` says itself, and what would make another policy of the weights."""

SPLIT = ("tensor-parallel-size", "pipeline-parallel-size")
"""Options of vLLM's whose product is the number of GPUs that a server takes."""


def option_name(option: str) -> str:
    """As vLLM reads it: `option_name("--gpu_memory_utilization=0.5")` is `gpu-memory-utilization`."""
    return option.partition("=")[0].lstrip("-").partition(".")[0].replace("_", "-")


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """The base model: a folder or hub id, or empty for a network of `shape` that the warm-up trains from scratch.

    `yarn` stretches the positions of a model so many times beyond the length that it was trained at (`networks/rope.py`); the paper's
    factor is 4, from 32,768 to 131,072.

    It is sampled from by patchgrad's own code; or, where `vllm` names the Python of an environment that has it, by vLLM (`policies/vllm`)
    with these `options` of its own, written as `tensor-parallel-size=2`; not those of `KEPT`. Where an `implementation` is named, by that.
    Patchgrad's own multiplies in this `precision`, or as `optimiser.precision` has it; on a CPU in `bfloat16` only where that is
    faster (`networks/rounding.py`).

    So many `replicas` sample in processes of their own, each with as many `threads`, or with GPUs of its own where vLLM samples; with a
    cluster they are on its machines. With none, one policy samples in the process that trains (`policies/replicas`).

    Sampling ahead of training meets an `update` of the weights between two turns of an attempt, or between two tokens: then each token
    says which version drew it, and nobody waits for long turns to end.
    """

    model: str = ""
    shape: Shape = Shape()
    context: int = 2048
    yarn: float = 1.0
    threads: int = 1
    vllm: str = ""
    options: tuple[str, ...] = ()
    implementation: Component | None = None
    precision: Literal["float32", "bfloat16", "auto"] | None = None
    replicas: int = 0
    update: Literal["turn", "token"] = "turn"

    def __post_init__(self) -> None:
        within(1, inf, "policy.", self, "threads")
        within(0, inf, "policy.", self, "replicas")
        named("policies", "policy.implementation", self.implementation)
        own = self.implementation is None or self.implementation.name in ("embedded", "vllm")
        require(own or not self.replicas, "policy.replicas are of embedded or vllm; a policy of your own says itself how many there are")
        require(own or self.update == "turn", "policy.update is of embedded or vllm; a policy of your own says itself when it takes over")
        require(not self.options or bool(self.vllm), "policy.options are vLLM's: name its Python in policy.vllm, or leave them away")
        ours = [option for option in self.options if option_name(option).removeprefix("no-") in KEPT]
        require(not ours, f"policy.options has {', '.join(ours)}; leave it away, or samples would not be the policy's own")
        counts = [option for option in self.options if option_name(option) in SPLIT]
        wrong = [option for option in counts if not (option.partition("=")[2].isdecimal() and int(option.partition("=")[2]))]
        require(not wrong, f"policy.options has {', '.join(wrong)}; it counts GPUs, from 1")
        require(self.context >= 256, f"policy.context is {self.context}; an episode needs at least 256 tokens")
        require(self.yarn >= 1, f"policy.yarn is {self.yarn}; a model's positions can be stretched, by 1 or more, not squeezed")
        require(
            self.yarn == 1 or bool(self.model),
            "policy.yarn stretches a model that was trained at less; a network made here has the context that it is told",
        )

    @property
    def by_vllm(self) -> bool:
        """Does vLLM sample? A Python that has it is named, and no other implementation."""
        return bool(self.vllm) and (self.implementation is None or self.implementation.name == "vllm")

    @property
    def split(self) -> int:
        """GPUs of one replica: one, or what its options split a model over."""
        told = {option_name(option): option.partition("=")[2] for option in self.options}
        return prod(int(told.get(name, "1")) for name in SPLIT)


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """`full` prompts say what the paper's say; `brief` ones suit a model of a few million parameters. The tools are the same, and those of
    `tools` beside them. The `scaffold` says what is asked and how an answer is read.

    A view has `window` lines; an `observation` is cut to so many characters, where none is said to 600 with brief prompts and 16,384 with
    full ones. So many `format_errors` in a row end an attempt; with 0 none do (`rollout.Budget`). So do so many `repeats`,
    calls that were made before in the same state; where they do, the agent is told of each. In the last `announced` turns it is told how
    many are left.
    """

    prompts: Literal["full", "brief"] = "brief"
    window: int = 12
    observation: int | None = None
    action_tokens: int = 48
    format_errors: int = 3
    repeats: int = 0
    announced: int = 0
    scaffold: Component = field(default=Component("react"))
    tools: tuple[Component, ...] = ()

    def __post_init__(self) -> None:
        named("scaffolds", "agent.scaffold", self.scaffold)
        named("tools", "agent.tools", *self.tools)
        within(1, inf, "agent.", self, "window", "observation", "action_tokens")
        within(0, inf, "agent.", self, "format_errors", "repeats", "announced")

    @property
    def longest(self) -> int:
        """Characters of an observation."""
        return self.observation or (600 if self.prompts == "brief" else 16_384)

    def budget(self, limits: AttemptLimits) -> Budget:
        """What one attempt of this agent may use under these limits."""
        counts = (self.format_errors, self.repeats, self.announced)
        return Budget(limits.turns, limits.context, self.action_tokens, limits.seconds, *counts)


@dataclass(frozen=True, slots=True)
class SandboxChoice:
    """`concurrency` episodes at once; each holds one sandbox while it runs and one while it is graded.

    A backend that does not enforce what the recipe `requires` on this host is refused by name (`contracts.Capabilities`). `oci` opens
    archives in containers of `image`, through the engine at `socket`; where that is empty, at DOCKER_HOST or a usual place. `landlock` is
    for hosts without user namespaces, and weaker; reports say what it does not enforce. With `cache` a call that another attempt at the
    same task made in the same state is not run again, nor the same submission judged again
    (`rollouts/tool_cache.py`): for tests that do not flake.

    `folders` are absolute paths of this host that sandboxes have at the same path, to read and to run and never to write, such as
    `/opt/agents` with an agent of others that works inside. A program in one is called by its whole path. Grading is in the same ones, so
    the submission that is judged sees them too. What lies there has to be open to all users.
    """

    backend: Component = field(default=Component("bwrap"))
    concurrency: int = 24
    image: str = ""
    socket: str = ""
    requires: tuple[str, ...] = REQUIRED
    cache: bool = False
    folders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        within(1, inf, "sandbox.", self, "concurrency")
        wrong = [sentence for folder in self.folders if (sentence := unfit(folder))]
        require(not wrong, f"sandbox.folders: {'; '.join(wrong)}")
        named("sandboxes", "sandbox.backend", self.backend)
        unknown = sorted(set(self.requires) - set(ENFORCED))
        require(not unknown, f"sandbox.requires: {', '.join(unknown)} is nothing that can be required; there are {', '.join(ENFORCED)}")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides a run. The same recipe and seed draw the same tasks, attempts and minibatches.

    The parts that a name stands for can be the user's own (`component.Component`): what an attempt is worth is the `reward`, of a verdict
    and of what the `judges` say; a stage takes its length penalty off it. The `curriculum` says which tasks are drawn, the `trainer` owns
    the weights, and the `trackers` are told what happens.
    """

    name: str
    seed: int = 0
    reward: Component = field(default=Component("tests"))
    judges: tuple[Component, ...] = ()
    curriculum: Component = field(default=Component("pool"))
    trainer: Component = field(default=Component("local"))
    trackers: tuple[Component, ...] = field(default=(Component("terminal"),))
    machine: Machine = Machine()
    tasks: TaskSource = TaskSource()
    agent: AgentChoice = AgentChoice()
    policy: PolicyChoice = PolicyChoice()
    sandbox: SandboxChoice = SandboxChoice()
    optimiser: Optimiser = field(default_factory=Optimiser)
    warmup: Warmup = field(default_factory=Warmup)
    rft: Rft = field(default_factory=Rft)
    stages: tuple[Stage, ...] = field(default=(Stage(), Stage(start=Start(refresh_before=True))))
    evaluation: EvaluationChoice = field(default_factory=EvaluationChoice)
    validation: Validation = field(default=Validation())
    guards: Guards = field(default_factory=Guards)

    @property
    def workers(self) -> int:
        """What trains at once: ranks, or threads; one GPU takes one micro-batch after the other."""
        return self.ranks or (1 if self.machine.gpus else self.optimiser.threads)

    @property
    def beside(self) -> int:
        """How many of these workers share one memory: on GPUs each has its own."""
        return 1 if self.machine.gpus else self.workers

    @property
    def ranks(self) -> int:
        """Processes with a part of the network each: one a GPU where there are several, and on the cores what a `sharded` trainer is told.

        0 where one process trains all of it.
        """
        several = self.trainer.name == "sharded" or (self.trainer.name == "local" and self.machine.gpus > 1)
        return int(self.trainer.options.get("ranks", self.machine.gpus or self.optimiser.threads)) if several else 0

    @property
    def sampled_in(self) -> Literal["float32", "bfloat16", "auto"]:
        """The precision of the products that draw."""
        return self.policy.precision or self.optimiser.precision

    @property
    def warms_up(self) -> bool:
        """Does the base policy learn from demonstrations? A network from scratch always does."""
        return not self.policy.model or self.warmup.pretrained

    def __post_init__(self) -> None:
        require(self.warmup.until == 0 or self.validation.tasks > 0, "warmup.until is measured on validation tasks: set validation.tasks")
        require(
            self.agent.scaffold.name != "command" or not self.warms_up,
            "agent.scaffold is a program with words of its own, in which there are no demonstrations: name a model that knows calls of "
            "tools by policy.model, and leave warmup.pretrained false",
        )
        named("rewards", "reward", self.reward)
        named("judges", "judges", *self.judges)
        named("curricula", "curriculum", self.curriculum)
        named("trainers", "trainer", self.trainer)
        told = self.trainer.options if self.trainer.name == "sharded" else {}
        wrong = [name for name in ("ranks", "together") if not isinstance(number := told.get(name, 1), int) or number < 1]
        require(not wrong, f"trainer.{', '.join(wrong)} is {[told[name] for name in wrong]}; it counts processes, from 1")
        named("trackers", "trackers", *self.trackers)
        require(
            self.machine.gpus > 0 or not self.optimiser.offload,
            "optimiser.offload moves the optimiser from a GPU into host memory, where it is without one: set machine.gpus, or leave it",
        )
        require(
            not self.rft.demonstration or self.agent.prompts == "full", "rft.demonstration is of the full prompts: brief ones have none"
        )
        require(
            not self.optimiser.rank or bool(self.policy.model),
            "optimiser.rank asks for adapters of a model: name one by policy.model, or set it to 0",
        )
        require(
            self.sampled_in == self.optimiser.precision or all(stage.corrected for stage in self.stages),
            f"policy.precision is {self.sampled_in} and optimiser.precision {self.optimiser.precision}, so sampler and trainer differ: "
            "set loss.old to 'recomputed' and a bound of loss.correction in every stage, or leave policy.precision away",
        )
        contexts = (self.rft.limits.context, self.evaluation.limits.context, *(stage.limits.context for stage in self.stages))
        require(
            max(contexts) <= self.policy.context,
            f"a phase's context of {max(contexts)} tokens is beyond policy.context of {self.policy.context}",
        )
        require(
            min(contexts) > self.agent.action_tokens,
            f"a phase's context of {min(contexts)} tokens holds nothing beside an action of agent.action_tokens {self.agent.action_tokens}",
        )
