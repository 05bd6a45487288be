"""The peers' side of `benchmarks/sandboxes/sandbox.py`; runs in an environment of its own, which that script makes.

    python sandbox_peers.py swe-rex|mini-swe-agent N

Prints one JSON object: samples in milliseconds by figure.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import milliseconds as since

BIG = "head -c 1000000 /dev/zero | tr '\\0' x"


async def swe_rex(count: int) -> dict[str, list[float]]:
    """SWE-ReX 1.4, the local runtime: a bash on a pseudo-terminal, no isolation."""
    from swerex.runtime.abstract import BashAction, CloseBashSessionRequest, CreateBashSessionRequest
    from swerex.runtime.local import LocalRuntime

    runtime = LocalRuntime()
    found: dict[str, list[float]] = {name: [] for name in ("first_answer", "true", "megabyte")}
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


def main() -> None:
    """Measures the peer that is named."""
    asked = parser(__doc__)
    asked.add_argument("name", choices=("swe-rex", "mini-swe-agent"))
    asked.add_argument("count", type=int)
    given = asked.parse_args()
    tell(asyncio.run(swe_rex(given.count)) if given.name == "swe-rex" else mini_swe_agent(given.count))


if __name__ == "__main__":
    main()
