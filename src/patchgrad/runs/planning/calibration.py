"""How fast this machine trains, measured once, and what a step will take by that.

A step's multiplications are counted: those of each token with the matrices, and those of pairs of tokens in attention. Each kind goes
at a speed of its own, which two probes tell apart: eight short sequences, and a long one. What is done with each logit beside its product,
which counts where the vocabulary is large, is timed by a third, and the optimiser by a fourth.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.rounding import settled, worthwhile
from patchgrad.networks.threads import one_thread
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.planning.packs import DRAWN
from patchgrad.runs.planning.rehearsal import Step, passed
from patchgrad.runs.planning.shapes import shape_of
from patchgrad.store.files import put
from patchgrad.trainers.optimisers import STEPS, AdamW
from patchgrad.values import digest

PROBE = DecoderConfig(1024, hidden=256, layers=4, heads=4, kv_heads=2, head_size=64, intermediate=768)
PROBES = (256,) * 8, (4096,)  # the lengths of sequences: many short ones, and a long one
TIMES = 3  # each probe is made so often, and its fastest counts: others use the machine too


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one worker, in a second: multiplications with matrices and in attention by precision, logits, and parameters that AdamW moves."""

    dense: dict[str, float]
    paired: dict[str, float]
    logits: float
    moved: float


def place() -> Path:
    """Where the measurement of this machine is kept. Machines may share a home: each processor has a file, and each version of torch."""
    told = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line for line in told if line.startswith("model name")), platform.machine())
    which = digest(processor, str(os.cpu_count()), torch.__version__)[:12]
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "patchgrad" / f"speed-{which}.json"


def known() -> Speed | None:
    """What was measured before on this machine."""
    try:
        return Speed(**json.loads(place().read_text()))
    except (OSError, ValueError, TypeError):
        return None


def calibrate(probes: Sequence[tuple[int, ...]] = PROBES) -> Speed:
    """Measures this machine and keeps what it found."""
    with one_thread():
        network = Decoder(PROBE)
        both = {precision: _rates(network, precision, probes) for precision in ("float32", "bfloat16")}
        dense, paired = ({name: one[kind] for name, one in both.items()} for kind in (0, 1))
        speed = Speed(dense, paired, _scored(dense["float32"]), _moved(network))
    place().parent.mkdir(parents=True, exist_ok=True)
    put(place(), json.dumps(asdict(speed)).encode() + b"\n")
    return speed


def seconds(recipe: Recipe, speed: Speed) -> dict[str, float]:
    """Seconds of an optimiser's step by phase, where every attempt fills its context, on as many cores as there are workers."""
    shape, choice, rft = shape_of(recipe), recipe.optimiser, recipe.rft
    own = settled(choice.precision, recipe.machine.gpus > 0)
    rounded = worthwhile(choice.imitation, own, recipe.machine.gpus > 0)
    batches = {"fine-tuning": (rft.batch, rft.limits.context, rounded)} if rft.rounds else {}
    batches |= {f"stage {n}": (stage.loss.minibatch, stage.limits.context, own) for n, stage in enumerate(recipe.stages, 1)}
    told = {}
    for name, (attempts, context, precision) in batches.items():
        trained = int(DRAWN * attempts * context)
        dense, paired = work(shape, (context,) * attempts, trained, choice.gradient_checkpointing, recipe.machine.gpus > 0)
        passing = dense / speed.dense[precision] + paired / speed.paired[precision]
        passing += trained * shape.vocabulary / speed.logits
        told[name] = passing / min(choice.threads, attempts) + _stepping(shape, recipe, speed)
    return told


def work(
    shape: DecoderConfig, lengths: tuple[int, ...], trained: int, gradient_checkpointing: bool, gpu: bool = False
) -> tuple[float, float]:
    """Multiplications of a forward and a backward pass over sequences of these lengths: with matrices, and in attention.

    A backward pass makes twice those of the forward pass, which with `gradient_checkpointing` is made twice. The last layer has keys and
    values of all tokens, and on a CPU the rest of those that are trained, wherever they stand.
    """
    passes, tokens = 4 if gradient_checkpointing else 3, sum(lengths)
    last = tokens if gpu else trained
    dense = tokens * ((shape.layers - 1) * shape.dense + shape.kept) + last * (shape.dense - shape.kept)
    pairs = (shape.layers - 1 + last / tokens) * sum(length**2 / 2 for length in lengths)
    return passes * dense + 4 * trained * shape.vocabulary * shape.hidden, passes * shape.paired * pairs


def _rates(network: Decoder, precision: str, probes: Sequence[tuple[int, ...]]) -> tuple[float, float]:
    """Multiplications a second with matrices and in attention: two probes, two unknowns."""
    made = [(*work(PROBE, lengths, sum(lengths) // 4, False), _best(partial(_pass, network, lengths, precision))) for lengths in probes]
    rows = torch.tensor(made, dtype=torch.float64)
    inverse = torch.linalg.solve(rows[:, :2], rows[:, 2]).clamp(min=1e-15)
    return float(1 / inverse[0]), float(1 / inverse[1])


def _pass(network: Decoder, lengths: tuple[int, ...], precision: str) -> None:
    passed(network, dict(network.named_parameters()), lengths, Step(sum(lengths), sum(lengths) // 4, precision))


def _scored(dense: float) -> float:
    """Logits a second, their products left out, of a vocabulary that is taken in tiles."""
    shape = DecoderConfig(1 << 17, hidden=64, layers=1, heads=1, kv_heads=1, head_size=64, intermediate=64)
    network, targets = Decoder(shape), torch.zeros(256, dtype=torch.int64)
    hidden = torch.randn(256, shape.hidden, requires_grad=True)

    def act() -> None:
        torch.autograd.grad(network.logprobs(hidden, targets)[0].sum(), [hidden, network.head])

    count = len(targets) * shape.vocabulary
    return count / max(_best(act) - 4 * count * shape.hidden / dense, 1e-9)


def _moved(network: Decoder) -> float:
    parameters = dict(network.named_parameters())
    steps, gradients = AdamW(parameters), {name: torch.ones_like(parameter) for name, parameter in parameters.items()}
    return PROBE.parameters / _best(lambda: steps.step(gradients, 1e-9))


def _best(act: Callable[[], None]) -> float:
    spent = []
    for _ in range(TIMES + 1):  # the first one warms up
        began = time.perf_counter()
        act()
        spent.append(time.perf_counter() - began)
    return min(spent[1:])


def _stepping(shape: DecoderConfig, recipe: Recipe, speed: Speed) -> float:
    """The optimiser's own seconds; Muon's matrices take five times two products of the smaller side's square, and one of its cube."""
    if recipe.optimiser.rank:
        return 0.0
    adamw = shape.parameters / speed.moved
    if recipe.optimiser.name == "adamw":
        return adamw
    c = shape
    wide, narrow = c.heads * c.head_size, c.kv_heads * c.head_size
    sides = ((c.hidden, wide), (c.hidden, narrow), (c.hidden, narrow), (wide, c.hidden), *((c.hidden, c.intermediate),) * 3)
    products = sum(2 * min(pair) ** 2 * max(pair) + min(pair) ** 3 for pair in sides)
    return adamw + c.layers * STEPS * products / speed.dense["float32"]
