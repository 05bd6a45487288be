"""What a simulation is told: machines, a model, an iteration's sizes, and how fast things are taken to be.

`Rates` and `Assumed` are assumptions, as no run of this size was measured. What a run has recorded takes the place of the latter
(`recorded.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from patchgrad.errors import ConfigError
from patchgrad.networks.decoder import DecoderConfig


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU by its data sheet: dense bfloat16 operations a second, bytes a second and bytes of its memory."""

    flops: float
    bandwidth: float
    memory: float


GPUS = {
    "h200": Gpu(989e12, 4.8e12, 141e9),
    "h100": Gpu(989e12, 3.35e12, 80e9),
    "a100": Gpu(312e12, 2.04e12, 80e9),
}


@dataclass(frozen=True, slots=True)
class Machines:
    """So many nodes with so many GPUs each, and cores for sandboxes."""

    nodes: int
    gpus: int
    kind: Gpu
    cores: int = 28

    @classmethod
    def named(cls, text: str, cores: int = 28) -> Machines:
        """`16x8:h200` are 16 nodes of 8. Raises `ConfigError` for anything else."""
        size, _, kind = text.lower().partition(":")
        nodes, _, gpus = size.partition("x")
        if not (nodes.isdecimal() and gpus.isdecimal() and int(nodes) and int(gpus) and kind in GPUS):
            raise ConfigError(f"--cluster {text} is none: say nodes, GPUs of each and their kind ({', '.join(GPUS)}), as in 16x8:h200.")
        return cls(int(nodes), int(gpus), GPUS[kind], cores)


@dataclass(frozen=True, slots=True)
class Model:
    """What the cost of a token depends on: parameters, layers, their width, and the bytes of keys and values of a token in bfloat16."""

    parameters: float
    layers: int
    hidden: int
    cache: float

    @classmethod
    def of(cls, shape: DecoderConfig) -> Model:
        """A network's."""
        return cls(shape.parameters, shape.layers, shape.hidden, 2.0 * 2 * shape.layers * shape.kv_heads * shape.head_size)

    def training(self, length: float) -> float:
        """Operations for each token of a sequence of this length: forward, backward, and forward again, of products and attention.

        8 for each parameter, and in each layer half of 4 x 4.5 for each number of the tokens before.
        """
        return 8 * self.parameters + 4.5 * 4 * self.hidden * self.layers * length / 2


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of what a GPU could do, and seconds: `step` of each token's forward pass beside reading weights, `optimiser` of each of its
    steps with all that waits for it, `publish` of a publication, and `switch` where the same GPUs stop sampling and begin to train.

    While a replica reads a prompt it draws at a share of `beside`.
    """

    training: float = 0.38
    reading: float = 0.45
    bandwidth: float = 0.7
    memory: float = 0.9
    step: float = 0.004
    beside: float = 0.55
    optimiser: float = 6.0
    publish: float = 20.0
    switch: float = 45.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn: tokens of its action, tokens that its observation adds, seconds of its tool."""

    drawn: int
    observed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Script:
    """An attempt: tokens of its prompt, its turns, and seconds of its grading."""

    prompt: int
    turns: tuple[Taken, ...]
    grading: float

    @property
    def context(self) -> int:
        """Tokens of its whole stream."""
        return self.prompt + sum(turn.drawn + turn.observed for turn in self.turns)


Draw = Callable[[Random], Script]
"""An attempt by chance."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """Attempts like those of a SWE-agent of 72 B parameters: a submission ends one with a chance of `submits` from the fifth turn on.

    Tokens and seconds are means of log-normal distributions, which end at their caps; `turns` and `context` are the recipe's limits.
    """

    turns: int
    context: int
    submits: float = 0.028
    prompt: int = 3500
    action: float = 220
    observation: float = 900
    tool: float = 3.0
    grading: float = 40.0

    def __call__(self, random: Random) -> Script:
        found: list[Taken] = []
        length = self.prompt
        while True:
            drawn, observed = int(_around(random, self.action, 0.8, 8, 4096)), int(_around(random, self.observation, 0.9, 20, 8000))
            found.append(Taken(drawn, observed, _around(random, self.tool, 1.2, 0, 120)))
            length += drawn + observed
            if len(found) == self.turns or length + self.action > self.context or (len(found) > 4 and random.random() < self.submits):
                return Script(self.prompt, tuple(found), _around(random, self.grading, 1.0, 0, 1800))


def _around(random: Random, mean: float, sigma: float, least: float, most: float) -> float:
    return min(most, max(least, random.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)))


@dataclass(frozen=True, slots=True)
class World:
    """A stage on machines: `samplers` nodes have replicas over `split` GPUs each, `trainers` nodes have ranks.

    Where both are all nodes they take turns. At most `live` attempts live at once; a share of `taught` of the attempts of an iteration is
    trained, in steps of `minibatch`. A tool keeps a core busy for a share of `busy` of its seconds.
    """

    machines: Machines
    model: Model
    draw: Draw
    samplers: int
    trainers: int
    lag: int
    tasks: int
    attempts: int
    minibatch: int
    live: int
    split: int = 8
    taught: float = 0.5
    busy: float = 0.35
    iterations: int = 3
    rates: Rates = field(default_factory=Rates)

    @property
    def in_turn(self) -> bool:
        """Do the same GPUs sample and train?"""
        return self.samplers + self.trainers > self.machines.nodes

    @property
    def replicas(self) -> int:
        """How many there are."""
        return self.samplers * self.machines.gpus // self.split

    def room(self) -> float:
        """Tokens that a replica's caches have room for."""
        return (self.machines.kind.memory * self.rates.memory * self.split - 2 * self.model.parameters) / self.model.cache
