"""what a recipe will take before it takes it: memory by part, sandboxes, disk, seconds a step; and what to change if it does not fit

RECIPE is a name or a TOML file, and any field of it can be set, as in `train`; of a model nothing but its config.json is read:

  patchgrad plan laptop
  patchgrad plan laptop --policy.shape.layers 24 --policy.shape.hidden 1024
  patchgrad plan mine.toml --policy.model Qwen/Qwen3-0.6B --optimiser.rank 16 --memory 64GB
  patchgrad plan nebius2508 --scale gpu --memory 80GB --host-memory 256GB
  patchgrad plan laptop --calibrate
  patchgrad plan nebius2508 --scale cluster --cluster 16x8:h200

Exit code 0: it fits; 1: it does not, and what would fit is told. With --calibrate this machine's speed is measured first, for about half
a minute, and kept; without a measurement no seconds are told, nor of a GPU. Of a recipe with machine.gpus memory is that of the GPU,
and host memory what an offloaded optimiser is in.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys

from patchgrad.cli import options as shared
from patchgrad.errors import ConfigError
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.planning.plan import MemoryPlan, size
from patchgrad.store import plain

CHOSEN = {"machine.nodes", "machine.gpus", "trainer.ranks", "policy.replicas"}
"""What a plan for a cluster says itself."""

UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe's name, or a TOML file")
    parser.add_argument("--scale", metavar="SCALE", help="the machine that the recipe is sized for, as in train")
    parser.add_argument("--memory", metavar="SIZE", help="plan for a machine with so much free memory, such as 64GB (default: this one's)")
    parser.add_argument("--host-memory", metavar="SIZE", help="and so much free beside its GPU (default: this one's)")
    words = "plan for so many machines, as in 16x8:h200: 16 nodes of 8 GPUs; a simulation tells which should sample and which should train"
    parser.add_argument("--cluster", metavar="MACHINES", help=words)
    parser.add_argument("--cells", type=int, default=64, help="with --cluster: attempts that a machine makes at once (default: 64)")
    parser.add_argument("--cores", type=int, default=28, help="with --cluster: cores of a machine for sandboxes (default: 28)")
    parser.add_argument("--like", metavar="RUN", help="with --cluster: simulate attempts like those of this run's last stage")
    parser.add_argument("--calibrate", action="store_true", help="measure this machine, so that seconds can be told")
    parser.add_argument("--json", action="store_true", help="the plan as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """MemoryPlan, and say what would fit."""
    recipe = shared.changed(shared.recipe(arguments.recipe, arguments.scale), arguments.changes)
    if arguments.cluster:
        return _on_a_cluster(recipe, arguments)
    room, beside = _bytes("memory", arguments.memory), _bytes("host-memory", arguments.host_memory)
    from patchgrad.runs.planning.advice import advice
    from patchgrad.runs.planning.calibration import calibrate, known, seconds
    from patchgrad.runs.planning.estimate import plan
    from patchgrad.runs.untaught import notes

    found = plan(recipe, room, beside)
    changes, then = advice(recipe, room, beside)
    speed = calibrate() if arguments.calibrate else known()
    steps = seconds(recipe, speed) if speed and not recipe.machine.gpus else {}
    if arguments.json:
        told = {**plain(found), "peak": found.peak, "fits": found.fits, "seconds": steps, "advice": {"changes": changes, "peak": then.peak}}
        print(json.dumps({**told, "notes": notes(recipe)}))
        return 0 if found.fits else 1
    print(_page(found))
    print(_paces(steps))
    for note in notes(recipe):
        print(f"\n{note}")
    if not found.fits:
        words = " ".join(f"--{name} {value}" for name, value in changes.items())
        print(f"\nIt would fit with: {words}   ({size(then.peak)})" if then.fits else f"\nEven with {words} it takes {size(then.peak)}.")
    return 0 if found.fits else 1


def _on_a_cluster(recipe: Recipe, arguments: argparse.Namespace) -> int:
    from patchgrad.runs.planning.cluster.page import page
    from patchgrad.runs.planning.cluster.planned import Asked, planned
    from patchgrad.runs.planning.cluster.recorded import recorded
    from patchgrad.runs.planning.cluster.world import Machines
    from patchgrad.store import Run

    if arguments.cells < 1 or arguments.cores < 1:
        raise ConfigError("--cells and --cores must be at least 1.")
    like = recorded(Run.open(arguments.like)) if arguments.like else None
    asked = Asked(Machines.named(arguments.cluster, arguments.cores), arguments.cells, like)
    scale = ("--scale", arguments.scale) if arguments.scale else ()
    changes = [word for key, value in arguments.changes.items() if key not in CHOSEN for word in (f"--{key}", value)]
    found = planned(recipe, (arguments.recipe, *scale, *changes), asked, lambda text: print(text, file=sys.stderr))
    print(json.dumps({**plain(found), "fits": found.fits}) if arguments.json else "\n".join(page(found, arguments.like or "")))
    return 0 if found.fits else 1


def _page(found: MemoryPlan) -> str:
    wide = max(len(part.name) for part in found.parts)
    lines = [f"Memory, the most of it in {found.phase}:", *(f"  {part.name:{wide}}  {size(part.bytes):>9}" for part in found.parts)]
    lines.append(f"  {'in all':{wide}}  {size(found.peak):>9} of {size(found.room)} free: {'it fits' if found.fits else 'it does not fit'}")
    if found.host:
        lines.append(f"Host memory: {size(found.host)} for the optimiser, of {size(found.beside)} free.")
    lines.append(f"Sandboxes: up to {found.sandboxes}, each limited to {size(found.sandbox)}; they are let in as memory is free.")
    lines.append(f"Disk: at most {size(found.disk)} in the run's folder; {size(shutil.disk_usage('.').free)} are free here.")
    return "\n".join(lines)


def _paces(steps: dict[str, float]) -> str:
    if not steps:
        return "Seconds: not known. They are told of a machine's cores, once --calibrate has measured them."
    told = ", ".join(f"{phase} {each:.2g}" for phase, each in steps.items())
    return f"Seconds a step of the optimiser, where every attempt fills its context: {told}."


def _bytes(name: str, text: str | None) -> int:
    """`_bytes("memory", "1.5 GB")` is 1,500,000,000; 0 of an option that is not given."""
    if text is None:
        return 0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]i?[bB])?", text.strip())
    if not found or not float(found[1]):
        raise ConfigError(f"--{name} {text} is no amount of memory; say it as in 64GB or 512MiB.")
    return int(float(found[1]) * UNITS[(found[2] or "").lower()])
