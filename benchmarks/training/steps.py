"""One training step against TRL 1.16 on the same batch from the same weights: forward, backward and AdamW on one thread.

    python benchmarks/training/steps.py [--vocabulary 151936] [--hidden 128] [--layers 4] [--rounds 3] [--only rl] [--tried "rows 1;rows 2"]
    python benchmarks/training/steps.py --model models/smollm2-135m-instruct --rank 16 --scale 0.4 --only rl

With a large vocabulary not all sides fit in 24 GB at once, and those that matter have to be chosen. A model takes the place of random
weights, and a rank that of all parameters: adapters of every linear layer, TRL's by peft, which both sides begin with. Lengths are scaled.

rl     eight attempts of one group, 1,000 to 4,000 tokens, of which 400 are the prompt that they share and 15 % were drawn: `update` with
       `Clipped(0.2, 0.3)` against GRPOTrainer with `loss_type="dapo"` and a tool mask.
rft    sixteen samples of 500 to 3,000 tokens that share nothing: `update` with `cross_entropy` against SFTTrainer with assistant masks.

First each side makes two steps, and what it says is held against ours: the loss, and the gradient of every parameter. That is also how
TRL's settings are tried: micro-batches of several sizes, packed and grouped by length where there is such a thing, `torch_compile`,
layers computed again, eager attention, products `rounded` to bfloat16; of ours imitation's are, and RL's where a recipe asks for it.
Gradient checkpointing and bfloat16, which are on in TRL as it comes, are off otherwise. Its fused log-probabilities are on, as always in
1.16; Liger's kernels and the hub's need a GPU. The fastest goes on to the rounds, rounded and not, and beside it the fastest of those that
are `lent` what TRL does not do on a CPU (`steps_trl.Setting`), so that it is told what a ratio is owed to.

Each side is a process of its own that makes a step when it is asked to; sides take turns in each round. Seconds are of the process's CPU;
tokens are those of the batch, without padding. Memory is the most that a process held, and the same less what it held before its first
step, in which the model is loaded. Prints a line a step, and JSON last.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library import pairing
from benchmarks.library.batches import alike
from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import over, progress, same
from benchmarks.library.peers import HEAP, QUIET, TRL
from benchmarks.training.steps_trl import HIGH, LOW, RATE, Line, Setting

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.packing import pack, scored
from patchgrad.networks import folder as folders
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import CONFIG, Lora, adapt, adapters
from patchgrad.networks.lora import load as load_adapters
from patchgrad.networks.lora import save as save_adapters
from patchgrad.networks.rounding import Precision
from patchgrad.trainers.allocator import give_back
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Action, Batch, Call, Observation, Sample, Segment, StepSettings, ToolState, Turn, floats, ids

HERE = Path(__file__).resolve().parent
LENGTHS = {"rl": (8, 1000, 4000, 400), "rft": (16, 500, 3000, 300)}  # how many, from, to, and what of it is the prompt
DRAWN, TURN = 0.15, 200  # the share of tokens that were drawn, and about how many a turn has
EVERYTHING = 1 << 20


@dataclass(frozen=True, slots=True)
class Own:
    """What of our trainer is set: packs of so many tokens, whether what sequences share is computed once, whether products are `rounded`,
    and whether memory that is freed stays in the `heap` or is given `back` at once, as a run asks for where memory is short; else glibc
    does as it likes."""

    budget: int = EVERYTHING
    share: bool = True
    heap: bool = False
    back: bool = False
    rounded: bool = False


OURS = {
    "shared": Own(),
    "separate": Own(share=False),
    "packs of 4096": Own(4096),
    "packs of 4096, heap kept": Own(4096, heap=True),
    "shared, given back": Own(back=True),
    "separate, given back": Own(share=False, back=True),
    "packs of 4096, given back": Own(4096, back=True),
    "packs of 4096, heap kept, rounded": Own(4096, heap=True, rounded=True),
    "packs of 2048": Own(2048),
    "packs of 2048, rounded": Own(2048, rounded=True),
    "packs of 2048, heap kept, rounded": Own(2048, heap=True, rounded=True),
}
ROWS = {f"rows {rows}": Setting(rows) for rows in (1, 2, 4, 8)}
ALIKE = {
    "heap kept": Setting(heap=True),
    "compiled": Setting(compiled=True),
    "computed again": Setting(gradient_checkpointing=True),
    "eager": Setting(attention="eager"),
    "compact": Setting(lent=("compact",)),
    "compact, tiles": Setting(lent=("compact", "tiles")),
    "heap kept, rounded": Setting(heap=True, rounded=True),
}
TRIED = {
    "rl": ROWS
    | ALIKE
    | {
        "compact, trimmed": Setting(lent=("compact", "trimmed")),
        "compact, trimmed, tiles": Setting(lent=("compact", "trimmed", "tiles")),
        "compact, trimmed, tiles, heap kept": Setting(heap=True, lent=("compact", "trimmed", "tiles")),
        "compact, trimmed, tiles, trained": Setting(heap=True, lent=("compact", "trimmed", "tiles", "trained")),
    },
    "rft": ROWS
    | ALIKE
    | {
        "rows 2, grouped": Setting(2, grouped=True),
        "rows 4, grouped": Setting(4, grouped=True),
        "packed 4096": Setting(packed=4096),
        "compact, tiles, heap kept": Setting(heap=True, lent=("compact", "tiles")),
        "compact, tiles, heap kept, rounded": Setting(heap=True, rounded=True, lent=("compact", "tiles")),
    },
}
Told = dict[str, Any]


# --- the batch -----------------------------------------------------------------------------------


def arrays(kind: str, vocabulary: int, scale: float) -> dict[str, Any]:
    """Tokens of all samples end to end, where each starts, and which were drawn."""
    random = np.random.default_rng(0)
    count, *lengths = LENGTHS[kind]
    least, most, prompt = (round(scale * length) for length in lengths)
    stem, masks, streams = random.integers(3, vocabulary, prompt), [], []
    for length in np.linspace(least, most, count).astype(int):
        own = random.integers(3, vocabulary, length)
        if kind == "rl":
            own[:prompt] = stem
        streams.append(own)
        masks.append(drawn(length, prompt, random))
    starts = np.cumsum([0, *map(len, streams)])
    told = {"tokens": ids(np.concatenate(streams)), "mask": np.concatenate(masks), "starts": starts, "prompt": prompt}
    told["old"] = np.zeros(starts[-1], np.float32)
    return told | ({"advantages": random.normal(size=count).astype(np.float32)} if kind == "rl" else {})


def drawn(length: int, prompt: int, random: np.random.Generator) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """After the prompt an action, an observation, an action: turns of about as many tokens, observations of any length, an action last."""
    turns, said = max(2, length // TURN), round(DRAWN * length)
    seen = length - prompt - said
    observed = np.diff([0, *np.sort(random.choice(np.arange(1, seen), turns - 2, replace=False)), seen])
    spans = [(prompt, False)]
    for number, action in enumerate(np.array_split(np.arange(said), turns)):
        spans += [(len(action), True)] + ([(int(observed[number]), False)] if number < len(observed) else [])
    return np.concatenate([np.full(size, sampled) for size, sampled in spans])


def samples(told: Mapping[str, Any]) -> list[Sample]:
    """The same as turns, with the old log-probabilities that stand in the arrays."""
    found = []
    advantages = told.get("advantages", np.ones(len(told["starts"]) - 1, np.float32))
    for number, (first, last) in enumerate(pairwise(told["starts"].tolist())):
        tokens, mask, old = (told[name][first:last] for name in ("tokens", "mask", "old"))
        cuts = [0, *(np.flatnonzero(np.diff(mask.astype(int))) + 1).tolist(), last - first]
        turns = []
        for begin, middle, end in zip(cuts[:-2:2], cuts[1:-1:2], cuts[2::2], strict=True):
            action = Action(ids(tokens[middle:end]), floats(old[middle:end]), 0, "", "stop")
            turns.append(Turn(ids(tokens[begin:middle]), action, Call("shell", ""), Observation("", ToolState()), "", ""))
        ones = np.ones(int(mask.sum()))
        found.append(Sample(Segment(tuple(turns)), floats(ones * advantages[number]), ones.astype(bool), str(number), "0"))
    return found


@dataclass(frozen=True, slots=True)
class Work:
    """What is trained: a model of a folder, or random weights of a shape; all of it, or adapters of a rank; on samples of a length."""

    shape: DecoderConfig
    model: Path | None
    rank: int
    scale: float

    def network(self) -> Decoder:
        """As it is before a step."""
        return folders.load(self.model) if self.model else Decoder(self.shape)


def prepared(folder: Path, kind: str, work: Work) -> dict[str, Any]:
    """Writes the model, its adapters and the batch.

    Old log-probabilities are the network's with some noise, so that ratios differ and some clip. What would be zeros in fresh adapters is
    noise as well: half of the gradients would be zeros otherwise.
    """
    network = work.network()
    told = arrays(kind, network.config.vocabulary, work.scale)
    if work.model:
        (folder / "model").symlink_to(work.model.resolve())
    else:
        folders.save(folder / "model", network.config, network.state_dict())
    if work.rank:
        adapt(network, Lora(work.rank))
        for name, tensor in adapters(network).items():
            if name.endswith("lora_B"):
                tensor.normal_(0, 0.01, generator=torch.Generator().manual_seed(2))
        save_adapters(folder / "adapters", adapters(network), Lora(work.rank), str(folder / "model"))
    if kind == "rl":
        said = np.concatenate(scored(samples(told), LocalTrainer(network).score, 4096))
        told["old"][told["mask"]] = said + np.random.default_rng(1).normal(0, 0.2, len(said))
    np.savez(folder / "batch.npz", **told)
    return told


# --- sides ---------------------------------------------------------------------------------------


def ours(folder: Path, name: str) -> None:
    """Our side, in a process of its own, until no step is asked for."""
    line, told = Line(), dict(np.load(folder / "batch.npz"))
    own = OURS[name]
    if own.back:
        give_back()
    torch.set_num_threads(1)
    objective = Clipped(LOW, HIGH) if "advantages" in told else cross_entropy
    batch: Batch = pack(alike(samples(told)), own.budget)
    precision: Precision = "bfloat16" if own.rounded else "float32"
    named = folder / "adapters"
    lora = Lora(json.loads((named / CONFIG).read_text())["r"]) if named.exists() else None
    trainer = LocalTrainer(folders.load(folder / "model"), optimiser="adamw", precision=precision, share=own.share, lora=lora)
    if lora:
        load_adapters(named, trainer.network)
    line.tell()
    kept = False
    while line.asked():
        if not kept:
            save_file(trainer.gradients(batch, objective)[0], folder / f"{name}.safetensors")
            kept = True
        began = time.process_time()
        update = trainer.update(batch, objective, StepSettings(RATE))
        line.tell(seconds=time.process_time() - began, loss=update.metrics["loss"])


class Side:
    """A process that makes steps until it is closed."""

    def __init__(self, folder: Path, name: str, setting: Setting | Own) -> None:
        self.name, self.gradients = name, folder / f"{name}.safetensors"
        words = [sys.executable, __file__, "--side", str(folder), name]
        if isinstance(setting, Setting):
            words = [TRL.python, str(HERE / "steps_trl.py"), str(folder), json.dumps(asdict(setting)), name]
        around = {**os.environ, **QUIET, **(HEAP if setting.heap else {})}
        self._log = (folder / f"{name}.log").open("w+")
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=around)
        self._held = self._read()["held"]

    def step(self) -> Told:
        """Seconds and loss of one more step, the most that was held so far, and that less what was held before the first."""
        assert self._process.stdin
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        told = self._read()
        return {name: told[name] for name in ("seconds", "loss")} | {"peak": told["most"], "above_idle": told["most"] - self._held}

    def close(self) -> None:
        """It has no more steps to make, and so it ends."""
        self._process.communicate()
        self._log.close()

    def _read(self) -> Told:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            sys.exit(f"{self.name} ended: {self._log.read().strip()[-800:]}")
        return dict(json.loads(line))


# --- figures -------------------------------------------------------------------------------------


def apart(one: Path, other: Path) -> dict[str, float]:
    """How far two sets of gradients lie apart, over the length of the second: all of them, and the parameter where it is most."""
    left, right = load_file(one), load_file(other)
    assert left.keys() == right.keys()
    gaps = {name: float((left[name] - right[name]).norm()) for name in right}
    sizes = {name: float(right[name].norm()) for name in right}
    whole = float(np.hypot.reduce([*gaps.values()]) / np.hypot.reduce([*sizes.values()]))
    return {"all": whole, "most": max(gaps[name] / sizes[name] for name in right)}


def tried(folder: Path, settings: Mapping[str, Setting | Own]) -> tuple[dict[str, Told], list[Side]]:
    """What each says in its first step, held against the first of them, and those that stay for the rounds.

    Ours stay, and the fastest of each family of TRL's settings. What is compiled makes a step before.
    """
    alone: dict[str, Told] = {}
    staying: dict[str, Side] = {}
    reference: Path | None = None
    for name, setting in settings.items():
        side = Side(folder, name, setting)
        told = first = side.step()
        if isinstance(setting, Setting) and setting.compiled:
            told = side.step()
        reference = reference or side.gradients
        origin = next(iter(alone.values()), first)
        logprob_diff = {"loss_gap": abs(first["loss"] / origin["loss"] - 1), "gradient_gap": apart(side.gradients, reference)}
        alone[name] = {**told, "loss": first["loss"], **logprob_diff}
        print(f"  {name:34} {told['seconds']:7.1f} s, {shown(alone[name])}", flush=True)
        if side.gradients != reference:
            side.gradients.unlink()
        before = staying.setdefault(family(name, setting), side)
        if before is not side:
            slower = max(before, side, key=lambda one: alone[one.name]["seconds"])
            staying[family(name, setting)] = before if slower is side else side
            slower.close()
    return alone, [*staying.values()]


def family(name: str, setting: Setting | Own) -> str:
    """Ours, each for itself; TRL as it is; with something lent; with something lent that only we do; each of them rounded or not."""
    if isinstance(setting, Own):
        return name
    return ("trained" if "trained" in setting.lent else "lent" if setting.lent else "as it is") + ", rounded" * setting.rounded


def by_turns(sides: Sequence[Side], rounds: int) -> dict[str, list[Told]]:
    """The steps of each side, round by round."""
    told = pairing.by_turns({side.name: same(side.step) for side in sides}, rounds, progress("  round"))
    for side in sides:
        side.close()
    return told


def of(settings: Mapping[str, Any], chosen: Sequence[str]) -> dict[str, Any]:
    """Those that are chosen, and all where none is."""
    return {name: setting for name, setting in settings.items() if name in chosen} or dict(settings)


def compared(kind: str, work: Work, rounds: int, chosen: Sequence[str]) -> Told:
    """Everything of one kind of step."""
    settings, own = of(TRIED[kind], chosen), of(OURS, chosen)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        batch = prepared(folder, kind, work)
        tokens, trained = int(batch["starts"][-1]), int(batch["mask"].sum())
        print(f"{kind}: {tokens} tokens, {trained} of them trained", flush=True)
        alone, sides = tried(folder, {**own, **settings})
        steps = by_turns(sides, rounds)
    spent = {name: [step["seconds"] for step in told] for name, told in steps.items()}
    rows = {
        name: {
            "seconds": seconds,
            "median": median(seconds),
            "tokens_a_second": tokens / median(seconds),
            "peak": steps[name][-1]["peak"],
            "above_idle": steps[name][-1]["above_idle"],
            "over": {side: over(seconds, spent[side]) for side in own},
        }
        for name, seconds in spent.items()
    }
    for name, row in rows.items():
        print(f"  {name:34} {row['median']:7.2f} s, {row['tokens_a_second']:6.0f} tokens a second, {row['peak'] / 1e6:.0f} MB", flush=True)
        for side, ratio in row["over"].items() if name not in OURS else ():
            print(f"      over {side}: {pairing.times(ratio)}", flush=True)
    written = {name: asdict(setting) for name, setting in settings.items()}
    return {"tokens": tokens, "trained": trained, "settings": written, "alone": alone, "rounds": rows}


def shown(told: Told) -> str:
    """Memory and how far from ours, for a person."""
    logprob_diff = told["gradient_gap"]
    memory = f"{told['peak'] / 1e6:5.0f} MB, {told['above_idle'] / 1e6:5.0f} above idle"
    return f"{memory}; loss {told['loss_gap']:.0e}, gradients {logprob_diff['all']:.0e} (at most {logprob_diff['most']:.0e}) from ours"


def main() -> None:
    """Measures and prints."""
    if sys.argv[1:2] == ["--side"]:
        ours(Path(sys.argv[2]), sys.argv[3])
        return
    asked = parser(__doc__)
    asked.add_argument("--vocabulary", type=int, default=151_936)
    asked.add_argument("--hidden", type=int, default=128)
    asked.add_argument("--layers", type=int, default=4)
    asked.add_argument("--model", type=Path, help="a folder, whose shape it has then")
    asked.add_argument("--rank", type=int, default=0, help="adapters of this rank, in the place of all parameters")
    asked.add_argument("--scale", type=float, default=1.0, help="of the lengths")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--only", choices=tuple(LENGTHS), help="one kind of step")
    asked.add_argument(
        "--tried", default="", help="settings of either side by their names, parted by semicolons; all of a side of which none is told"
    )
    options = asked.parse_args()
    torch.set_num_threads(1)
    shape = DecoderConfig(options.vocabulary, options.hidden, options.layers, heads=4, kv_heads=2, head_size=options.hidden // 4)
    shape = replace(shape, intermediate=3 * options.hidden, context=8192)
    chosen = [name.strip() for name in options.tried.split(";") if name.strip()]
    if lost := {*chosen} - {name for settings in TRIED.values() for name in (*OURS, *settings)}:
        asked.error(f"there is no setting {min(lost)}")
    work = Work(shape, options.model, options.rank, options.scale)
    network = work.network()
    told: Told = {"shape": asdict(network.config), "parameters": folders.count(network), "rank": options.rank, "scale": options.scale}
    told |= {"model": options.model.name if options.model else "", "versions": versions(), "rounds": options.rounds}
    del network
    for kind in [options.only] if options.only else LENGTHS:
        told[kind] = compared(kind, work, options.rounds, chosen)
    tell(told)


def versions() -> dict[str, str]:
    """Of torch here, and of what TRL's side runs on."""
    return {"torch, ours": torch.__version__, **TRL.versions("torch", "trl", "transformers", "accelerate", "datasets", "peft")}


if __name__ == "__main__":
    main()
