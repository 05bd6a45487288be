"""What `patchgrad plan` says a training step holds, beside what a process that makes one holds.

    python benchmarks/memory/plan.py [--points 24] [--of smollm2]

Each point is a shape, a length and the options of the trainer. A process of its own makes one step of two packs a worker, and tells the
most that it had resident; the plan's figure is that of its rehearsal and of a process that has made a step of next to nothing. Prints a
line a point, and JSON last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell, told
from benchmarks.library.pairing import spread

SMALL = {"vocabulary": 1024, "hidden": 192, "layers": 4, "heads": 3, "kv_heads": 3, "head_size": 64, "intermediate": 512}
MIDDLE = {"vocabulary": 8192, "hidden": 384, "layers": 8, "heads": 6, "kv_heads": 2, "head_size": 64, "intermediate": 1024}
WIDE = {"vocabulary": 151_936, "hidden": 128, "layers": 3, "heads": 4, "kv_heads": 2, "head_size": 32, "intermediate": 384}
SMOLLM2 = {"vocabulary": 49_152, "hidden": 576, "layers": 30, "heads": 9, "kv_heads": 3, "head_size": 64, "intermediate": 1536}
PLAIN = {"precision": "float32", "gradient_checkpointing": False, "optimiser": "adamw", "workers": 1, "rank": 0}


def points() -> list[dict[str, Any]]:
    """Shapes and lengths with layers kept and computed again; then one option at a time."""
    lengths = ((SMALL, 2560), (SMALL, 4800), (SMALL, 9600), (MIDDLE, 1600), (MIDDLE, 3200), (WIDE, 1600), (WIDE, 4800))
    both = product(lengths, (False, True))
    found = [
        {**PLAIN, "shape": shape, "tokens": tokens, "gradient_checkpointing": gradient_checkpointing}
        for (shape, tokens), gradient_checkpointing in both
    ]
    for shape, tokens in ((SMALL, 4800), (MIDDLE, 1600)):
        options = (
            {"precision": "bfloat16"},
            {"optimiser": "muon"},
            {"workers": 2},
            {"rank": 16},
            {"rank": 16, "gradient_checkpointing": True},
        )
        found += [{**PLAIN, "shape": shape, "tokens": tokens, **option} for option in options]
    return found


def smollm2() -> list[dict[str, Any]]:
    """SmolLM2-135M as the recipe `smol` trains it, and otherwise."""
    adapters = {**PLAIN, "shape": {**SMOLLM2, "family": "llama"}, "rank": 16}
    return [
        {**adapters, "tokens": 2560, "workers": 2, "precision": "bfloat16"},
        {**adapters, "tokens": 2560, "workers": 2},
        {**adapters, "tokens": 1400},
        {**adapters, "tokens": 2560, "gradient_checkpointing": True},
        {**adapters, "tokens": 1400, "rank": 0},
        {**adapters, "tokens": 800, "workers": 2, "rank": 0, "precision": "bfloat16"},
    ]


OF = {"small": points, "smollm2": smollm2}


def main() -> None:
    """Measures and prints."""
    asked = parser(__doc__)
    asked.add_argument("--of", choices=tuple(OF), default="small", help="whose shapes")
    asked.add_argument("--points", type=int, default=100, help="the first so many of them")
    asked.add_argument("--one", metavar="JSON", help=argparse.SUPPRESS)
    asked.add_argument("--idle", metavar="JSON", help=argparse.SUPPRESS)
    options = asked.parse_args()
    if options.one or options.idle:
        tell(resident(json.loads(options.one)) if options.one else nothing(json.loads(options.idle)))
        return
    rows: list[dict[str, Any]] = []
    for point in OF[options.of]()[: options.points]:
        seen, said = _apart("--one", json.dumps(point)), _apart("--idle", json.dumps(point["gradient_checkpointing"])) + rehearsed(point)
        rows.append({"point": point, "resident": seen, "planned": said, "error": said / seen - 1})
        words = ", ".join(str(value) for value in (*point["shape"].values(), *(v for k, v in point.items() if k != "shape")))
        print(f"{words:90} {seen / 1e6:7.0f} MB, planned {said / 1e6:7.0f}: {100 * rows[-1]['error']:+.1f} %", flush=True)
    tell({"points": rows, "error": spread([abs(row["error"]) for row in rows])})


def _apart(*words: str) -> int:
    return int(told(subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True).stdout))


def rehearsed(point: dict[str, Any]) -> int:
    """What the plan says that a step holds."""
    from benchmarks.library.batches import DRAWN, TURN

    from patchgrad.networks.decoder import DecoderConfig
    from patchgrad.networks.lora import Lora
    from patchgrad.runs.planning.rehearsal import Step, rehearse
    from patchgrad.trainers.optimisers import AdamW, Muon

    step = Step(
        tokens=point["tokens"],
        trained=point["tokens"] // TURN * DRAWN,
        precision=point["precision"],
        gradient_checkpointing=point["gradient_checkpointing"],
        lora=Lora(point["rank"]) if point["rank"] else None,
    )
    footprint = rehearse(DecoderConfig(**point["shape"]), {"adamw": AdamW, "muon": Muon}[point["optimiser"]], step)
    return footprint.peak(point["workers"])


def nothing(gradient_checkpointing: bool) -> int:
    """What a process has resident that has imported what `resident` does, and made a step of next to nothing."""
    from patchgrad.learning.objectives.clipped import Clipped  # noqa: F401
    from patchgrad.runs.planning.rehearsal import idle
    from patchgrad.trainers.allocator import give_back
    from patchgrad.trainers.local import LocalTrainer  # noqa: F401

    give_back()
    torch.set_num_threads(1)
    return idle(gradient_checkpointing)


def resident(point: dict[str, Any]) -> int:
    """The most that this process holds while it makes the point's step."""
    import resource

    from benchmarks.library.batches import group

    from patchgrad.learning.objectives.clipped import Clipped
    from patchgrad.networks.decoder import Decoder, DecoderConfig
    from patchgrad.networks.lora import Lora
    from patchgrad.trainers.allocator import give_back
    from patchgrad.trainers.local import LocalTrainer
    from patchgrad.values import StepSettings

    give_back()
    shape = DecoderConfig(**point["shape"])
    batch = group(2 * point["workers"], point["tokens"], 0.0, shape, point["tokens"])
    trainer = LocalTrainer(
        Decoder(shape),
        optimiser=point["optimiser"],
        precision=point["precision"],
        gradient_checkpointing=point["gradient_checkpointing"],
        threads=point["workers"],
        lora=Lora(point["rank"]) if point["rank"] else None,
    )
    trainer.update(batch, Clipped(), StepSettings(1e-3))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
