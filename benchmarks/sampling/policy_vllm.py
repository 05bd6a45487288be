"""The embedded policy against vLLM's server on the same network, through the same contract: tokens per CPU-second, and per second.

    python benchmarks/sampling/policy_vllm.py --python ENVIRONMENT/bin/python [--rows 32] [--attempts 8] [--new 20] [--rounds 5]
        [--model models/smollm2-135m-instruct]

So many live episodes of three turns, of which each task has so many attempts with the same prompt; every episode asks for its next turn as
soon as it has the last. Of a small network in `float32`, or of a model, in `bfloat16` where the processor multiplies it. CPU-seconds are
those of all processes of a side. vLLM with the threads that it takes by itself and with one, both after a round that is not counted. All
sides by turns in each round. Prints progress, and JSON last.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import Spread, by_turns, medians, over, progress
from benchmarks.sampling.policy import ANSWER, TURNS, VOCABULARY, prompts

from patchgrad.contracts import Policy
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.products import supported
from patchgrad.networks.rounding import Precision
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.policies.vllm import Installed, VllmPolicy
from patchgrad.values import Sampling, ids

CONTEXT = 1024
OPTIONS = ("--kv-cache-memory-bytes", str(2 << 30), "--max-num-seqs", "64", "--max-num-batched-tokens", "8192")
WHOLE = "--no-enable-chunked-prefill"  # vLLM 0.32 on a CPU ends where it reads a part of a prompt that has a seed (decision 0029)


async def episode(policy: Policy, name: str, new: int, seed: int, prompt: Any) -> int:
    """Tokens that an episode of three turns has drawn."""
    stream, drawn, random = prompt, 0, np.random.default_rng(seed)
    for turn in range(TURNS):
        action = await policy.act(name, stream, Sampling(new, seed=100 * seed + turn))
        drawn += len(action.token_ids)
        stream = ids(np.concatenate([stream, action.token_ids, random.integers(3, VOCABULARY, ANSWER)]))
    policy.release(name)
    return drawn


def played(policy: Policy, spent: Callable[[], float], rows: int, attempts: int, new: int, round_: int) -> dict[str, float]:
    """Tokens drawn in all episodes at once, a CPU-second and a second."""

    async def all_() -> int:
        streams = prompts(rows, attempts, round_)  # others each round: vLLM would have kept what it read
        return sum(await asyncio.gather(*(episode(policy, f"{round_}/{i}", new, 1000 * round_ + i, s) for i, s in enumerate(streams))))

    cpu, wall = spent(), time.monotonic()
    drawn = asyncio.run(all_())
    return {"cpu": drawn / (spent() - cpu), "wall": drawn / (time.monotonic() - wall), "drawn": drawn}


def below(policy: VllmPolicy) -> float:
    """CPU-seconds of this process and of the living ones below a policy's keeper."""
    pid = policy.pid
    parents, seconds = dict[int, int](), dict[int, float]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    for one in parents:
        above: int | None = one
        while above is not None and above != pid:
            above = parents.get(above)
        total += seconds[one] if above == pid else 0.0
    return total


def served(network: Decoder, tokenizer: ChatTokenizer, python: str, precision: Precision, threads: int) -> VllmPolicy:
    """vLLM with so many threads; 0 leaves them to it."""
    for name, value in (("OMP_NUM_THREADS", str(threads)), ("VLLM_CPU_OMP_THREADS_BIND", "nobind")):
        os.environ.pop(name, None)
        if threads:
            os.environ[name] = value
    vllm = Installed(python, ("--dtype", precision, *OPTIONS, WHOLE))
    return VllmPolicy(network.config, dict(network.named_parameters()), tokenizer, context=CONTEXT, vllm=vllm)


def main() -> None:
    """Measures and prints."""
    asked = parser(__doc__)
    asked.add_argument("--python", required=True, help="of an environment that has vLLM")
    asked.add_argument("--rows", type=int, default=32)
    asked.add_argument("--attempts", type=int, default=8)
    asked.add_argument("--new", type=int, default=20)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--model", type=Path)
    given = asked.parse_args()
    network = folder.load(given.model, CONTEXT) if given.model else Decoder(DecoderConfig(VOCABULARY))
    tokenizer = ChatTokenizer.load(given.model) if given.model else ChatTokenizer.train([], 300)
    precision = supported("bfloat16") if given.model else "float32"
    places: Any = {"sessions": given.rows, "rows": given.rows, "context": CONTEXT, "precision": precision}
    policies: dict[str, Policy] = {"patchgrad": EmbeddedPolicy(network, tokenizer, **places)}
    policies["patchgrad, 2 threads"] = EmbeddedPolicy(network, tokenizer, threads=2, **places)
    others = {f"vLLM, {threads or 'its own'} threads": served(network, tokenizer, given.python, precision, threads) for threads in (0, 1)}
    spent = dict.fromkeys(policies, time.process_time) | {name: partial(below, one) for name, one in others.items()}
    found = by_turns(
        {name: partial(played, one, spent[name], given.rows, given.attempts, given.new) for name, one in (policies | others).items()},
        given.rounds,
        progress(),
        warm_up=1,
    )
    for one in others.values():
        one.close()
    ask = [given.python, "-c", "import vllm; print(vllm.__version__)"]
    version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[-1]
    whose = {"model": given.model.name if given.model else "", "precision": precision}
    sizes = whose | {"parameters": folder.count(network), "rows": given.rows, "attempts": given.attempts, "new": given.new}
    tell(result(found) | {"version": version} | sizes)


def result(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians of each side; ours over the better of vLLM's two, in CPU-seconds with one thread and on the clock with two."""
    sides = {name: medians(told) for name, told in found.items()}

    def over_the_better(mine: str, key: str) -> Spread:
        best = max((name for name in found if name.startswith("vLLM")), key=lambda name: sides[name][key])
        return over([one[key] for one in found[mine]], [one[key] for one in found[best]])

    return {"sides": sides, "ratio": over_the_better("patchgrad", "cpu"), "clock": over_the_better("patchgrad, 2 threads", "wall")}


if __name__ == "__main__":
    main()
