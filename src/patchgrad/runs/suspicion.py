"""Do attempts break by what the policy does? What happens to machines depends neither on commands nor on weights.

    groups of an iteration          -> broken_by_action    attempts broke in calls of one kind, more often than those calls take time
    its attempts, and earlier ones  -> broken_by_version   attempts broke more often than under earlier weights

Both are standard errors: how far a normal draw would have to lie out to be as unlikely as what was seen, if nothing depended on anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import comb
from statistics import NormalDist, fmean
from typing import Any

from patchgrad.values import Call, Group, Malformed, Turn

LEAST = 5  # broken attempts, below which nothing is said
_RAREST = 1e-15
_NO_TIME = 1e-3  # seconds that a call counts with at least: one that was answered from the cache took none


def by_action(groups: Sequence[Group]) -> dict[str, float]:
    """`{"broken_by_action": 6.2}`; nothing where too few attempts broke in a call.

    A call's kind is its tool, and of a shell command its first word. A break is expected in a kind as often as attempts spend time in it.
    """
    turns = [turn for group in groups for rollout in group.rollouts for turn in rollout.trajectory.turns]
    broke = [turn for turn in turns if turn.observation.failure == "infrastructure"]
    if len(broke) < LEAST:
        return {}
    whole = [(_kind(turn), max(turn.observation.seconds, _NO_TIME)) for turn in turns if turn.observation.failure != "infrastructure"]
    usual = fmean(seconds for _, seconds in whole) if whole else 1.0
    spent: dict[str, float] = defaultdict(float)
    for kind, seconds in [*whole, *((_kind(turn), usual) for turn in broke)]:
        spent[kind] += seconds
    total = sum(spent.values())
    found = Counter(map(_kind, broke))
    tails = [_binomial(count, len(broke), spent[kind] / total) for kind, count in found.items()]
    return {"broken_by_action": _errors(min(1.0, len(spent) * min(tails)))}


def by_version(broken: int, attempts: int, earlier: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """`{"broken_by_version": 5.1}` for so many broken of these attempts, and the records of earlier iterations; nothing where few broke."""
    before = [(row["episodes"], row["broken"]) for row in earlier if row.get("broken", 1.0) < 1.0 and row.get("episodes")]
    if broken < LEAST or not before:
        return {}
    whole = sum(episodes for episodes, _ in before)
    others = sum(round(episodes / (1.0 - share)) for episodes, share in before)
    return {"broken_by_version": _errors(_hypergeometric(broken, attempts, broken + others - whole, attempts + others))}


def _kind(turn: Turn) -> str:
    call = turn.call
    if isinstance(call, Malformed):
        return call.kind
    return _word(call) if call.tool == "shell" else call.tool


def _word(call: Call) -> str:
    return f"shell {next(iter(call.arguments.split()), '')}"


def _binomial(least: int, draws: int, chance: float) -> float:
    """The probability of at least so many hits in so many draws."""
    return sum(comb(draws, hits) * chance**hits * (1.0 - chance) ** (draws - hits) for hits in range(least, draws + 1))


def _hypergeometric(least: int, draws: int, marked: int, total: int) -> float:
    """The probability that so many draws without return, out of `total`, have at least so many of the `marked`."""
    ways = sum(comb(marked, hits) * comb(total - marked, draws - hits) for hits in range(least, min(draws, marked) + 1))
    return ways / comb(total, draws)


def _errors(probability: float) -> float:
    return NormalDist().inv_cdf(1.0 - min(1.0 - _RAREST, max(_RAREST, probability)))
