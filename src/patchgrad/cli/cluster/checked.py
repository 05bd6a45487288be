"""Of `patchgrad check --cluster`: each machine looks at itself, and what a recipe has besides attempts is tried once."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from patchgrad.cli import options as shared
from patchgrad.runs.inspection.machines import Machine, machines

if TYPE_CHECKING:
    from patchgrad.runs.inspection.roles import Role

LOOK = "patchgrad.cli.check.isolation:sandbox"
"""What a machine does to look at itself."""

CLOCK = 5.0
"""Seconds by which the clock of a machine may be off before it is told."""


def checked(cluster: str, recipe: str | None, scale: str | None, as_json: bool) -> int:
    """Look, tell, and exit with 1 where something would not do in a run."""
    found, tried, trouble = asyncio.run(_looked(cluster, recipe, scale))
    wrong = {one.name: one.lost or "; ".join(part.name for part in one.said if part.needed and not part.holds) for one in found}
    ready = bool(found) and not any(wrong.values()) and not trouble and not any(role.fault for role in tried)
    if as_json:
        told = {"ready": ready, "machines": [asdict(one) for one in found], "roles": [asdict(role) for role in tried], "trouble": trouble}
        print(json.dumps(told))
        return 0 if ready else 1
    for one in found:
        off = f"its clock is {one.ahead:+.0f} s off" if abs(one.ahead) > CLOCK else ""
        said = [wrong[one.name] or "a sandbox opens", f"{one.free / 1e9:.0f} GB free", off]
        print(f"  {'NO ' if wrong[one.name] else 'yes'}  {one.name:<40} {one.cells:>4} cells  {', '.join(filter(None, said))}")
    for role in tried:
        print(f"  {'NO ' if role.fault else 'yes'}  {role.name}: {role.fault or f'{role.seconds:.0f} s'}")
    if trouble or not found:
        print(f"  NO   {trouble or 'no machine of the cluster has the resource cells'}")
    print(
        f"\nMachines that can make attempts: {len(found)}, together {sum(one.cells for one in found)} at once."
        if ready
        else "\nThe lines with NO are to be mended."
    )
    return 0 if ready else 1


async def _looked(cluster: str, recipe: str | None, scale: str | None) -> tuple[list[Machine], Sequence[Role], str]:
    """What machines and roles say, and why there are no more machines."""
    from patchgrad.rollouts.executors.hosts.opening import opened

    asked = shared.recipe(recipe, scale) if recipe else None  # a wrong name is told before a cluster is asked for
    hosts = opened(cluster, os.cpu_count() or 1)
    try:
        found, tried = await machines(hosts, LOOK), list["Role"]()
        if asked is not None:
            from patchgrad.runs.inspection.roles import roles  # torch is heavy
            from patchgrad.testing.trainer import example_batches

            tried = await asyncio.to_thread(lambda: list(roles(asked, cluster, lambda vocabulary: example_batches(vocabulary)[1])))
        return found, tried, hosts.trouble
    finally:
        await hosts.close()
