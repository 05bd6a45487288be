"""A plan for many machines as lines of text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from patchgrad.runs.planning.cluster.planned import ClusterPlan, Simulated
from patchgrad.runs.planning.cluster.roles import Role
from patchgrad.runs.planning.cluster.splits import Row
from patchgrad.runs.planning.plan import size
from patchgrad.runs.planning.ranks import Held


def page(plan: ClusterPlan, like: str = "") -> list[str]:
    """All of it; `like` names the run whose attempts were simulated."""
    lines = _held(f"A GPU of the trainer, in {plan.rank.phase}", plan.rank, plan.memory)
    lines += ["", *_held("A GPU of a replica", plan.replica, plan.memory)]
    whole = plan.tokens / plan.replica.sequence
    lines.append(f"  A replica's caches have room for {plan.tokens:,} tokens, {whole:.1f} of the longest attempts.")
    source = f"attempts like those of {like}" if like else "assumed attempts, as no run is named by --like"
    lines += ["", f"Simulated: {source}; rates are assumptions, and nothing of it was measured on such machines."]
    for stage in plan.stages:
        lines += ["", *_stage(stage)]
    lines += ["", "  * as the paper did. This version has no mode in which the same GPUs sample and train."]
    lines += ["", "Processes:", *_processes(plan.roles)]
    return [*lines, "", "A job for Slurm that begins all of it:", f"  {shlex.join(plan.job)} > job.sh"]


def _held(title: str, held: Held, memory: int) -> list[str]:
    wide = max(len(part.name) for part in held.parts)
    lines = [f"{title}:", *(f"  {part.name:{wide}}  {size(part.bytes):>9}" for part in held.parts)]
    return [*lines, f"  {'in all':{wide}}  {size(held.peak):>9} of {size(memory)}"]


def _stage(stage: Simulated) -> list[str]:
    title = f"{'nodes: sample + train':<24}{'lag':>4}{'minutes an iteration':>24}{'samplers idle':>16}{'trainer busy':>15}"
    return [f"Stage {stage.stage}:  {title}", *(_row(row, row == stage.best) for row in stage.rows)]


def _row(row: Row, best: bool) -> str:
    minutes = f"{row.seconds / 60:.1f} +- {row.error / 60:.1f}"
    name = row.name + ("" if row.built else " *")
    return f"{'the best' if best else '':>8}   {name:<24}{row.lag:>4}{minutes:>24}{row.idle:>16.0%}{row.busy:>15.0%}"


def _processes(roles: Sequence[Role]) -> list[str]:
    lines = [f"  {'machines':<10}{'each':>5}  {'what':<24}{'begun by; listens at; writes'}"]
    for role in roles:
        machines = f"{role.first}" if role.first == role.last else f"{role.first} to {role.last}"
        told = "; ".join(part for part in (role.command, role.listens, role.writes) if part)
        lines.append(f"  {machines:<10}{role.each:>5}  {role.name:<24}{told}")
    return lines
