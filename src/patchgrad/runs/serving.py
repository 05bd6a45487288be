"""A policy that programs of others ask, for as long as the command runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from patchgrad.agents.gateway.serving import serve as served
from patchgrad.agents.gateway.visits import Allowance, Visits
from patchgrad.contracts import Policy, Tracker
from patchgrad.errors import ConfigError
from patchgrad.links.listening import Place
from patchgrad.recipes import Evaluation
from patchgrad.runs.measure import policy_of
from patchgrad.values import Sampling


def serve(
    evaluation: Evaluation,
    place: Place,
    allowed: tuple[float, float, float],
    tracker: Tracker,
    say: Callable[[str], None],
    vllm: str = "",
) -> None:
    """Serves the policy of an evaluation under its sampling until the process is interrupted; `allowed` are a session's calls, tokens and
    seconds. Where `vllm` names a Python that has it, vLLM draws. Ends with `KeyboardInterrupt`.
    """
    if vllm and evaluation.remote:
        raise ConfigError(f"--vllm starts vLLM on a model's folder, and {evaluation.policy} is an address: leave one of the two out.")
    asyncio.run(_serve(evaluation, place, Allowance(*allowed), partial(_opened, evaluation, tracker, vllm), say))
    raise KeyboardInterrupt  # uvicorn stops by it alone, and what it raises of it again may come when the loop has ended


async def _opened(evaluation: Evaluation, tracker: Tracker, vllm: str) -> Policy:
    if not vllm:
        return await policy_of(evaluation, tracker)
    from patchgrad.runs.build.measured import by_vllm

    return await asyncio.to_thread(by_vllm, evaluation, vllm)


async def _serve(
    evaluation: Evaluation, place: Place, allowance: Allowance, opened: Callable[[], Awaitable[Policy]], say: Callable[[str], None]
) -> None:
    policy = await opened()
    try:
        drawn = sampling(evaluation)
        what = f"temperature {drawn.temperature:g}, at most {drawn.max_tokens:,} tokens an answer, a context of {policy.context:,}"
        say(f"{evaluation.policy} is served at {place.address}/v1 until Ctrl-C: {what}.")
        say("What a request asks for of these is not used.")
        await served(Visits(policy, drawn, allowance), place)
    finally:
        policy.close()


def sampling(evaluation: Evaluation) -> Sampling:
    """How an evaluation draws."""
    return replace(evaluation.evaluation.sampling, seed=evaluation.seed, max_tokens=evaluation.agent.action_tokens, purpose="evaluation")
