"""The peers' side of `benchmarks/sandbox.py`; runs in an environment of its own, which that script makes.

    python sandbox_peers.py swe-rex|mini-swe-agent N

Prints one JSON object: samples in milliseconds by figure.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

BIG = "head -c 1000000 /dev/zero | tr '\\0' x"


def since(start: float) -> float:
    """Milliseconds."""
    return 1000 * (time.perf_counter() - start)


async def swe_rex(count: int) -> dict[str, list[float]]:
    """SWE-ReX 1.4, the local runtime: a bash on a pseudo-terminal, no isolation."""
    from swerex.runtime.abstract import BashAction, CloseBashSessionRequest, CreateBashSessionRequest
    from swerex.runtime.local import LocalRuntime

    runtime, found = LocalRuntime(), {name: [] for name in ("first_answer", "true", "megabyte")}  # type: dict[str, list[float]]
    for number in range(count):
        start = time.perf_counter()
        await runtime.create_session(CreateBashSessionRequest(session=str(number)))
        await runtime.run_in_session(BashAction(session=str(number), command="true"))
        found["first_answer"].append(since(start))
        for name, command, repeat in (("true", "/bin/true", 5), ("megabyte", BIG, 1)):
            for _ in range(repeat):
                start = time.perf_counter()
                await runtime.run_in_session(BashAction(session=str(number), command=command, timeout=60))
                found[name].append(since(start))
        await runtime.close_session(CloseBashSessionRequest(session=str(number)))
    for number in range(16):
        await runtime.create_session(CreateBashSessionRequest(session=f"s{number}"))
    start = time.perf_counter()
    await asyncio.gather(*(runtime.run_in_session(BashAction(session=f"s{n}", command="sleep 1", timeout=60)) for n in range(16)))
    found["sixteen_sleep"] = [since(start)]
    await runtime.close()
    return found


def mini_swe_agent(count: int) -> dict[str, list[float]]:
    """mini-swe-agent 2.4, the bubblewrap environment: a fresh bubblewrap for every command."""
    from minisweagent.environments.extra.bubblewrap import BubblewrapEnvironment

    found: dict[str, list[float]] = {name: [] for name in ("first_answer", "true", "megabyte")}
    for _ in range(count):
        start = time.perf_counter()
        environment: Any = BubblewrapEnvironment()
        assert environment.execute({"command": "true"})["returncode"] == 0
        found["first_answer"].append(since(start))
        for name, command, repeat in (("true", "/bin/true", 5), ("megabyte", BIG, 1)):
            for _ in range(repeat):
                start = time.perf_counter()
                environment.execute({"command": command})
                found[name].append(since(start))
        environment.cleanup()
    return found


if __name__ == "__main__":
    name, count = sys.argv[1], int(sys.argv[2])
    print(json.dumps(asyncio.run(swe_rex(count)) if name == "swe-rex" else mini_swe_agent(count)))
