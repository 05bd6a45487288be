"""Provenance: what is trained was sampled, by these weights and with this tokenizer, after exactly this prefix; and nothing else is.

    rollouts -> verify_rollouts -> credit -> verify_samples -> packing -> verify_batch -> step

A rollout is certified by its chain (`values.Turn`): every turn's address is computed anew and has to stand in the journal, which was
written when the turn happened, and so has its ending's; the first turn follows the beginning of this attempt at this task; every action
says after which ids it was sampled, and these are the stream as it is now. Samples are certified against their attempts: what is
trained are the actions, less the turns that a policy of failures leaves out. A batch is certified against its samples. What does not
verify is refused under a name, before the step: a wrong gradient looks like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from patchgrad.errors import ProvenanceError
from patchgrad.values import (
    NO_IDS,
    Action,
    Batch,
    Bools,
    Ending,
    Group,
    MicroBatch,
    Rollout,
    Sample,
    Segment,
    Trajectory,
    Turn,
    WeightedSample,
    root_address,
    stream_digest,
)

Fault = Literal[
    "endpoint",
    "beginning",
    "chain",
    "journal",
    "ending",
    "version",
    "fingerprint",
    "prefix",
    "log-probabilities",
    "stop token",
    "segments",
    "duplicate",
    "rows",
    "mask",
    "advantages",
    "counts",
]

MEANINGS: dict[Fault, str] = {
    "endpoint": "an endpoint said it, which tells no token ids and no log-probabilities: it can be evaluated; to train, name a policy that "
    "is loaded from a folder or a hub id",
    "beginning": "its first turn does not follow the beginning of this attempt at this task",
    "chain": "a turn does not follow the one before it",
    "journal": "a turn is not as it was when it was journalled, or is another attempt's",
    "ending": "how it ended, or its verdict, is not as it was when it was journalled",
    "version": "an action was sampled by another version of the policy",
    "fingerprint": "an action was sampled with another tokenizer or chat template than the policy's",
    "prefix": "an action was sampled after other ids than stand before it",
    "log-probabilities": "an action whose tokens and log-probabilities differ in number, or are none",
    "stop token": "an action that stopped does not end with the token that ends a turn, or one that did not does",
    "segments": "its segments do not hold its turns in their order",
    "duplicate": "it is there twice",
    "rows": "the tokens of a batch are not those of its samples",
    "mask": "other tokens are trained than the samples say",
    "advantages": "something stands at tokens that are not trained, or not what the samples say at those that are",
    "counts": "a batch counts other tokens than it trains",
}


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a rollout has to be to be trained on; what is `None` or empty is not asked.

    `journalled` says whether a turn or an ending of this address stands in the journal, under the attempt where one is named; `versions`
    are those of the policy that may have sampled, `fingerprint` is the policy's and `stops` are its ids that end a turn.
    """

    journalled: Callable[[str, str], bool] | None = None
    versions: frozenset[int] | None = None
    fingerprint: str = ""
    stops: frozenset[int] = frozenset()


ANY = Requirements()


def verify_rollouts(groups: Sequence[Group], terms: Requirements = ANY) -> None:
    """Raises `ProvenanceError` for the first attempt that is not what it says, or that is there twice."""
    seen: set[str] = set()
    for rollout in (rollout for group in groups for rollout in group.rollouts):
        if rollout.trajectory.id in seen:
            raise _refused("duplicate", rollout.trajectory.id)
        seen.add(rollout.trajectory.id)
        if (fault := violation(rollout, terms)) is not None:
            raise _refused(fault, rollout.trajectory.id)


def violation(rollout: Rollout, terms: Requirements = ANY) -> Fault | None:
    """The first thing that is wrong with an attempt, `None` where nothing is."""
    turns = [replace(turn) for turn in rollout.trajectory.turns]  # a copy has no cached address
    if not all(turn.action.trainable for turn in turns):
        return "endpoint"
    if turns and terms.journalled and turns[0].parent != root_address(rollout.task, rollout.trajectory.origin or rollout.trajectory.id):
        return "beginning"
    if any(turn.parent != before.address for before, turn in pairwise(turns)):
        return "chain"
    number, replayed = 0, replace(terms, versions=None)  # what a fork replays may be an earlier version's: it is not trained
    for segment in rollout.trajectory.segments:
        stream = NO_IDS
        for turn in segment.turns:
            stream = np.concatenate([stream, turn.context])
            asked = replayed if number < rollout.trajectory.replayed else terms
            if (fault := _action(turn.action, stream_digest(stream), asked)) is not None:
                return fault
            stream = np.concatenate([stream, turn.action.token_ids])
            number += 1
    return _unwritten(rollout, turns, terms.journalled) if terms.journalled else None


def _unwritten(rollout: Rollout, turns: Sequence[Turn], journalled: Callable[[str, str], bool]) -> Fault | None:
    """What of an attempt does not stand in the journal; only what it replays may stand there as another's."""
    trajectory = rollout.trajectory
    if not all(journalled(turn.address, trajectory.id if n >= trajectory.replayed else "") for n, turn in enumerate(turns)):
        return "journal"
    if rollout.broken:
        return None  # nobody judged it
    last = turns[-1].address if turns else root_address(rollout.task, trajectory.id)
    ending = Ending(last, trajectory.stop, trajectory.submission, rollout.verdict, judgements=rollout.judgements)
    return None if journalled(ending.address, trajectory.id) else "ending"


def _action(action: Action, prefix: str, terms: Requirements) -> Fault | None:
    if not 0 < len(action.token_ids) == len(action.logprobs) or not np.isfinite(action.logprobs).all():
        return "log-probabilities"
    versions = {action.version, *(version for version, _ in action.spans)}
    if terms.versions is not None and not versions <= terms.versions:
        return "version"
    if terms.fingerprint and (action.origin is None or action.origin.fingerprint != terms.fingerprint):
        return "fingerprint"
    if action.origin is not None and action.origin.prefix != prefix:
        return "prefix"
    if terms.stops and (int(action.token_ids[-1]) in terms.stops) != (action.finish == "stop"):
        return "stop token"
    return None


def verify_samples(samples: Sequence[Sample], groups: Sequence[Group], kept: Callable[[Trajectory], Bools]) -> None:
    """Raises `ProvenanceError` for a sample that is no segment of its attempt, or keeps other action tokens than `kept` says."""
    attempts = {rollout.trajectory.id: rollout.trajectory for group in groups for rollout in group.rollouts}
    expected: dict[tuple[str, ...], Bools] = {}
    for trajectory in attempts.values():
        whole = kept(trajectory)
        sizes = [sum(len(turn.action.token_ids) for turn in segment.turns) for segment in trajectory.segments]
        for segment, part in zip(trajectory.segments, np.split(whole, np.cumsum(sizes)[:-1]), strict=True):
            expected[_chain(trajectory.id, segment)] = part
    seen: set[tuple[str, ...]] = set()
    for sample in samples:
        key = _chain(sample.attempt, sample.segment)
        if key in seen:
            raise _refused("duplicate", sample.attempt)
        seen.add(key)
        if key not in expected:
            raise _refused("segments", sample.attempt)
        if not np.array_equal(sample.keep, expected[key]):
            raise _refused("mask", sample.attempt)


def _chain(attempt: str, segment: Segment) -> tuple[str, ...]:
    """What names a segment: its attempt, and the addresses of all its turns, computed anew."""
    return (attempt, *(replace(turn).address for turn in segment.turns))


def verify_batch(batch: Batch, samples: Sequence[WeightedSample]) -> list[WeightedSample]:
    """The samples in the order of the batch's sequences; `ProvenanceError` where a batch is not what its samples say, token by token.

    Samples of 3 and 2 tokens, the last one of each an action: `tokens [a b c d e]`, `starts [0 3 5]`, `mask [F F T F T]`.
    """
    left = {(one.sample.attempt, one.sample.segment.turns[0].address) for one in samples}
    if len(left) != len(samples):
        raise _refused("duplicate", "A batch")
    waiting: dict[bytes, list[WeightedSample]] = {}
    for one in samples:
        waiting.setdefault(one.sample.segment.tokens().tobytes(), []).append(one)
    found: list[WeightedSample] = []
    for micro_batch in batch.micro_batches:
        for first, last in pairwise(micro_batch.starts.tolist()):
            alike = waiting.get(micro_batch.tokens[first:last].tobytes(), [])
            faults = [_row(micro_batch, first, last, one) for one in alike]
            if not faults or min(faults, key=bool):
                raise _refused(next((fault for fault in faults if fault), "rows"), "A batch")
            found.append(alike.pop(faults.index(None)))
    if any(waiting.values()):
        raise _refused("rows", "A batch")
    if batch.trained != sum(int(micro_batch.mask.sum()) for micro_batch in batch.micro_batches) or batch.sequences != len(samples):
        raise _refused("counts", "A batch")
    return found


def _row(micro_batch: MicroBatch, first: int, last: int, one: WeightedSample) -> Fault | None:
    """What is wrong with a sample's place in a micro-batch."""
    segment = one.sample.segment
    trained = np.zeros(last - first, bool)
    trained[segment.actions()] = one.trained
    if not np.array_equal(micro_batch.positions[first:last], np.arange(last - first)):
        return "rows"
    if not np.array_equal(micro_batch.mask[first:last], trained):
        return "mask"
    there = (micro_batch.sampled, micro_batch.old, micro_batch.reference, micro_batch.advantages)
    said = (segment.logprobs(), one.scored.old, one.scored.reference, one.sample.advantages)
    faults: tuple[Fault, ...] = ("log-probabilities", "log-probabilities", "log-probabilities", "advantages")
    for array, values, fault in zip(there, said, faults, strict=True):
        part = array[first:last]
        if part[~trained].any() or not np.array_equal(part[trained], values[one.trained]):
            return fault
    return "advantages" if micro_batch.weights[first:last][~trained].any() else None


def _refused(fault: Fault, what: str) -> ProvenanceError:
    return ProvenanceError(f"{what} cannot be trained on: {MEANINGS[fault]}.", fault)
