"""A run as a value: nested frozen dataclasses that print as TOML and read back. A wrong value is refused here, before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Literal

from patchgrad.config import require, within
from patchgrad.contracts import ENFORCED
from patchgrad.recipes.bounds import Guards
from patchgrad.recipes.evaluation_choice import EvaluationChoice
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.stage import Stage
from patchgrad.recipes.warmup import Warmup
from patchgrad.tasks.synthetic.bugs import FAMILIES, SWAPS


@dataclass(frozen=True, slots=True)
class Machine:
    """What a recipe is sized for: so many machines with so many GPUs each. Without GPUs it is the cores of this one."""

    nodes: int = 1
    gpus: int = 0

    def __post_init__(self) -> None:
        require(self.nodes >= 1 and self.gpus >= 0, "machine.nodes must be at least 1, machine.gpus at least 0")


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
        require(0 <= self.synthetic < 1, f"tasks.mix.synthetic is {self.synthetic}; it must be a part of the training tasks, below 1")


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Where tasks come from. `synthetic` makes them from the seed; `set` reads a folder that `patchgrad tasks` wrote, with statements
    of this `level`, or of the first of several (`brief,report`) that a task has, and as many of its training tasks of each kind as `mix`
    says.

    `functions` are the sizes of a synthetic task's buggy module: with `(1, 2)` half of the tasks have one function, half two. `families`
    are those of its planted bugs (`tasks/mutations`): by default the four that exchange one operator or truth value. `planted` are those
    of a set's planted bugs that are taken, all where it is empty; tasks from a history or from rows have none and are taken as well.
    """

    source: Literal["synthetic", "set"] = "synthetic"
    train: int = 2000
    held_out: int = 60
    functions: tuple[int, ...] = (1,)
    families: tuple[str, ...] = SWAPS
    folder: str = ""
    level: str = "report"
    planted: tuple[str, ...] = ()
    mix: Mix = Mix()

    def __post_init__(self) -> None:
        require(self.source != "set" or bool(self.folder), "tasks.folder must name a task set when tasks.source is 'set'")
        for name, families in (("families", self.families), ("planted", self.planted)):
            unknown = sorted(set(families) - set(FAMILIES))
            require(not unknown, f"tasks.{name}: {unknown}; there are {', '.join(FAMILIES)}")
        require(bool(self.families), f"tasks.families: none given; there are {', '.join(FAMILIES)}")
        require(self.train > 0 and self.held_out > 0, "tasks.train and tasks.held_out must be at least 1")


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


def option_name(option: str) -> str:
    """As vLLM reads it: `option_name("--gpu_memory_utilization=0.5")` is `gpu-memory-utilization`."""
    return option.partition("=")[0].lstrip("-").partition(".")[0].replace("_", "-")


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """The base model: a folder or hub id, or empty for a network of `shape` that the warm-up trains from scratch.

    `yarn` stretches the positions of a model so many times beyond the length that it was trained at (`networks/rope.py`); the paper's
    factor is 4, from 32,768 to 131,072.

    It is sampled from by patchgrad's own code; or, where `vllm` names the Python of an environment that has it, by vLLM (`policies/vllm`)
    with these `options` of its own, written as `tensor-parallel-size=2`; not those of `KEPT`.
    """

    model: str = ""
    shape: Shape = Shape()
    context: int = 2048
    yarn: float = 1.0
    threads: int = 1
    vllm: str = ""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        within(1, inf, "policy.", self, "threads")
        require(not self.options or bool(self.vllm), "policy.options are vLLM's: name its Python in policy.vllm, or leave them away")
        for option in self.options:
            own = option_name(option).removeprefix("no-") not in KEPT
            require(own, f"policy.options has {option}; leave it away, or samples would not be the policy's own")
        require(self.context >= 256, f"policy.context is {self.context}; an episode needs at least 256 tokens")
        require(self.yarn >= 1, f"policy.yarn is {self.yarn}; a model's positions can be stretched, by 1 or more, not squeezed")
        require(
            self.yarn == 1 or bool(self.model),
            "policy.yarn stretches a model that was trained at less; a network made here has the context that it is told",
        )


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """`full` prompts say what the paper's say; `brief` ones suit a model of a few million parameters. The tools are the same.

    A view has `window` lines; an `observation` is cut to so many characters, where none is said to 600 with brief prompts and 16,384 with
    full ones. So many `format_errors` in a row end an attempt; with 0 none do (`rollout.Budget`).
    """

    prompts: Literal["full", "brief"] = "brief"
    window: int = 12
    observation: int | None = None
    action_tokens: int = 48
    format_errors: int = 3

    def __post_init__(self) -> None:
        within(1, inf, "agent.", self, "window", "observation", "action_tokens")
        within(0, inf, "agent.", self, "format_errors")

    @property
    def longest(self) -> int:
        """Characters of an observation."""
        return self.observation or (600 if self.prompts == "brief" else 16_384)


@dataclass(frozen=True, slots=True)
class SandboxChoice:
    """`concurrency` episodes at once; each holds one sandbox while it runs and one while it is graded.

    A backend that does not enforce what the recipe `requires` on this host is refused by name (`contracts.Capabilities`). `oci` opens
    archives in containers of `image`, through the engine at `socket`; where that is empty, at DOCKER_HOST or a usual place. `landlock` is
    for hosts without user namespaces, and weaker; reports say what it does not enforce. With `cache` a call that another attempt at the
    same task made in the same state is not run again, nor the same submission judged again
    (`rollouts/tool_cache.py`): for tests that do not flake.
    """

    backend: Literal["bwrap", "oci", "landlock"] = "bwrap"
    concurrency: int = 24
    image: str = ""
    socket: str = ""
    requires: tuple[str, ...] = ENFORCED
    cache: bool = False

    def __post_init__(self) -> None:
        within(1, inf, "sandbox.", self, "concurrency")
        unknown = sorted(set(self.requires) - set(ENFORCED))
        require(not unknown, f"sandbox.requires: {', '.join(unknown)} is nothing that can be required; there are {', '.join(ENFORCED)}")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides a run. The same recipe and seed draw the same tasks, attempts and minibatches."""

    name: str
    seed: int = 0
    machine: Machine = Machine()
    tasks: TaskSource = TaskSource()
    agent: AgentChoice = AgentChoice()
    policy: PolicyChoice = PolicyChoice()
    sandbox: SandboxChoice = SandboxChoice()
    optimiser: Optimiser = field(default_factory=Optimiser)
    warmup: Warmup = field(default_factory=Warmup)
    rft: Rft = field(default_factory=Rft)
    stages: tuple[Stage, ...] = field(default=(Stage(), Stage(refresh_before=True)))
    evaluation: EvaluationChoice = field(default_factory=EvaluationChoice)
    guards: Guards = field(default_factory=Guards)

    @property
    def workers(self) -> int:
        """Threads that train: a GPU takes one pack after the other."""
        return 1 if self.machine.gpus else self.optimiser.threads

    def __post_init__(self) -> None:
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
        for context in (self.rft.context, self.evaluation.context, *(stage.context for stage in self.stages)):
            require(
                context <= self.policy.context,
                f"a phase's context of {context} tokens is beyond policy.context of {self.policy.context}",
            )
            require(
                context > self.agent.action_tokens,
                f"a phase's context of {context} tokens holds nothing beside an action of agent.action_tokens {self.agent.action_tokens}",
            )
