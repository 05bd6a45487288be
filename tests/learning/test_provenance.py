"""Known bugs of the field, put in one at a time: each is refused under its name before a step is made, and an honest iteration is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.journals import Over
from tests.rollouts.test_loop import AGENT, FILES, TASK, command

from patchgrad.contracts import Journal, Tokenizer, Weights
from patchgrad.errors import ProvenanceError
from patchgrad.learning import loop as learning
from patchgrad.learning.advantages import GroupNormalised
from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.credit import by_group
from patchgrad.learning.failures import KEEP_ALL
from patchgrad.learning.loop import Learner, iterate
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.packing import pack
from patchgrad.learning.provenance import MEANINGS
from patchgrad.learning.selection import sound
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.policies.channel import DirectChannel
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.policies.scripted import ByteTokenizer, ScriptedPolicy
from patchgrad.rollouts import attempts
from patchgrad.rollouts.attempts import NEUTRAL, AttemptSettings, run_attempt
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.harness import Harness
from patchgrad.store import Run
from patchgrad.tasks.archive import pack as packed
from patchgrad.tasks.archive import store
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import constant
from patchgrad.values import (
    Action,
    Attempt,
    Batch,
    Bools,
    Budget,
    Floats,
    Group,
    Ids,
    Judgement,
    Message,
    Reward,
    Sample,
    Sampling,
    Segment,
    Snapshot,
    Task,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
)

torch.set_num_threads(1)
TOKENIZER = ChatTokenizer.train(["the tests fail", "exit code 1"], 300)
STOPS = tuple(range(2, 60))  # so many that actions end by themselves
BUDGET = Budget(turns=3, context=400, action_tokens=12)


class Bent:
    """The embedded policy; a fault is put in by bending what it is given, what it answers, or its fingerprint."""

    def __init__(
        self,
        given: Callable[[Ids], Ids] = lambda tokens: tokens,
        answers: Callable[[Action], Action] = lambda action: action,
        fingerprint: Callable[[str], str] = lambda own: own,
    ) -> None:
        network = Decoder(DecoderConfig(TOKENIZER.vocabulary, 40, 2, 5, 1, 8, intermediate=64, eos=STOPS), 0)
        self.inner = EmbeddedPolicy(network, TOKENIZER, sessions=8, context=500, rows=8)
        self.trainer = LocalTrainer(network)
        self.given, self.answers, self.bend = given, answers, fingerprint
        self.context, self.stops = self.inner.context, self.inner.stops

    @property
    def version(self) -> int:
        return self.inner.version

    @property
    def tokenizer(self) -> Tokenizer:
        return BentTokenizer(self.inner.tokenizer, self.bend)

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        return self.inner.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        return self.answers(await self.inner.act(session, self.given(tokens), sampling))

    def release(self, session: str) -> None:
        self.inner.release(session)

    def close(self) -> None:
        self.inner.close()

    def load(self, weights: Weights, version: int) -> None:
        self.inner.load(weights, version)


class BentTokenizer(ByteTokenizer):
    """A tokenizer of another fingerprint."""

    def __init__(self, inner: Tokenizer, bend: Callable[[str], str]) -> None:
        self.fingerprint = bend(inner.fingerprint)


@dataclass(frozen=True)
class Drawing:
    """The same tasks each time."""

    tasks: tuple[Task, ...]

    def draw(self, count: int) -> list[Task]:
        return list(self.tasks[:count])

    def observe(self, group: Group) -> None:
        """What comes of them changes nothing."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: object) -> None:
        """There is nothing to restore."""


def worth(task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement] = ()) -> Reward:
    """Attempts of any group differ."""
    value = float(trajectory.id[-1])
    return Reward(value, {"value": value})


async def judged(task: Task, patch: str) -> Verdict:
    return Verdict(task.id, patch, ("ran",), ())


def tasks(folder: Path) -> tuple[Task, ...]:
    repository = store(folder, packed({name: text.encode() for name, text in FILES.items()}))
    return tuple(replace(TASK, id=f"t{number}", repository=repository) for number in range(2))


def harness(run: Run) -> Harness:
    return Harness(AGENT, LocalSandboxes(), judged, run.journal, executor=LocalExecutor(4))


def learnt(folder: Path, policy: Bent) -> int:
    """The optimiser steps of one iteration."""
    algorithm = Algorithm(sound, GroupNormalised(), Clipped(), KEEP_ALL)
    sizes = IterationSizes(2, 3, minibatch=3, micro_batch_tokens=2000, schedule=lambda steps: constant(1e-3))
    learner = Learner(policy, policy.trainer, DirectChannel((policy,)), Drawing(tasks(folder)))
    with Run.create(folder / "run", "") as run:
        done = asyncio.run(iterate(harness(run), learner, algorithm, sizes, AttemptSettings(BUDGET, worth, 1), "rl/0"))
    return len(done.learned.updates)


def test_an_honest_iteration_is_trained_on(tmp_path: Path) -> None:
    assert learnt(tmp_path, Bent()) == 2


def retokenised(tokens: Ids) -> Ids:
    """The history as text and back: nobody's ids any more."""
    text = TOKENIZER.decode(tokens.tolist())
    return ids(TOKENIZER.tokenizer.encode(text).ids)


def without_reasoning(tokens: Ids) -> Ids:
    """As templates do that drop what a model thought in its earlier turns."""
    ends = np.flatnonzero(tokens == TOKENIZER.special["<|im_end|>"])
    return tokens if len(ends) < 2 else ids(np.delete(tokens, np.arange(ends[0] + 3, ends[0] + 5)))


def without_stop(action: Action) -> Action:
    cut = len(action.token_ids) - (action.finish == "stop" and len(action.token_ids) > 1)
    return replace(action, token_ids=ids(action.token_ids[:cut]), logprobs=floats(action.logprobs[:cut]))


POLICIES = {
    "a history that is tokenised again": ("prefix", {"given": retokenised}),
    "a context that is truncated": ("prefix", {"given": lambda tokens: ids(tokens[-60:])}),
    "reasoning that is stripped from earlier turns": ("prefix", {"given": without_reasoning}),
    "a stop token that is dropped": ("stop token", {"answers": without_stop}),
    "a version that is not the one that sampled": ("version", {"answers": lambda action: replace(action, version=action.version + 1)}),
    "a log-probability that is lost": ("log-probabilities", {"answers": lambda a: replace(a, logprobs=floats(a.logprobs[1:]))}),
    "a log-probability that is no number": ("log-probabilities", {"answers": lambda a: replace(a, logprobs=floats(a.logprobs * np.nan))}),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_fault_of_the_sampler_is_refused_by_name(tmp_path: Path, name: str) -> None:
    fault, bent = POLICIES[name]
    policy = Bent(**bent)  # type: ignore[arg-type]
    refused(fault, tmp_path, policy)


def refused(fault: str, folder: Path, policy: Bent) -> None:
    before = {name: tensor.clone() for name, tensor in policy.trainer.weights().items()}
    with pytest.raises(ProvenanceError) as caught:
        learnt(folder, policy)
    assert caught.value.fault == fault
    assert MEANINGS[fault] in str(caught.value)  # type: ignore[index]
    assert all(torch.equal(tensor, before[name]) for name, tensor in policy.trainer.weights().items()), "no step was made"


def test_a_template_that_changes_between_sampling_and_training_is_refused(tmp_path: Path) -> None:
    def fingerprint(own: str) -> str:
        return own if not (tmp_path / "run" / "journal" / "00000.jsonl").exists() else "another template"

    refused("fingerprint", tmp_path, Bent(fingerprint=fingerprint))


def rebuilt(group: Group, change: Callable[[Action], Action]) -> Group:
    """The same attempts with other actions, in chains that fit together again."""
    made = []
    for rollout in group.rollouts:
        turns: list[Turn] = []
        for turn in rollout.trajectory.turns:
            parent = turns[-1].address if turns else turn.parent
            turns.append(replace(turn, action=change(turn.action), parent=parent))
        made.append(replace(rollout, trajectory=replace(rollout.trajectory, segments=(Segment(tuple(turns)),))))
    return Group(tuple(made))


PLAYED: dict[str, tuple[str, Callable[[list[Group]], list[Group]]]] = {
    "log-probabilities of another version": (
        "journal",
        lambda groups: [rebuilt(group, lambda a: replace(a, logprobs=floats(a.logprobs - 0.5))) for group in groups],
    ),
    "a group that is there twice": ("duplicate", lambda groups: [*groups, groups[0]]),
    "a verdict that nobody gave": (
        "ending",
        lambda groups: [Group(tuple(replace(one, verdict=replace(one.verdict, stages=())) for one in group.rollouts)) for group in groups],
    ),
    "turns of two attempts that are mixed up": (
        "beginning",
        lambda groups: [_swapped(groups[0]), *groups[1:]],
    ),
}


def _swapped(group: Group) -> Group:
    one, two, *rest = group.rollouts
    segments = one.trajectory.segments, two.trajectory.segments
    return Group(
        (
            replace(one, trajectory=replace(one.trajectory, segments=segments[1])),
            replace(two, trajectory=replace(two.trajectory, segments=segments[0])),
            *rest,
        )
    )


@pytest.mark.parametrize("name", PLAYED)
def test_a_fault_between_sampling_and_credit_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fault, change = PLAYED[name]
    collect_groups = attempts.collect_groups

    async def bent(*words: Any, **more: Any) -> list[Group]:
        return change(await collect_groups(*words, **more))

    monkeypatch.setattr(learning, "collect_groups", bent)
    refused(fault, tmp_path, Bent())


def _rolled(samples: Sequence[Sample]) -> list[Sample]:
    return [replace(sample, keep=np.arange(len(sample.keep)) > 0) for sample in samples]


def test_a_sample_that_keeps_other_tokens_than_its_attempt_says_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "by_group", lambda *words: [_rolled(unit) for unit in by_group(*words)])
    refused("mask", tmp_path, Bent())


def _patched(samples: Sequence[Sample]) -> list[Sample]:
    """Each has another one's last turn."""
    lasts = [sample.segment.turns[-1] for sample in samples]
    segments = [Segment((*sample.segment.turns[:-1], last)) for sample, last in zip(samples, [*lasts[1:], lasts[0]], strict=True)]
    return [replace(sample, segment=segment) for sample, segment in zip(samples, segments, strict=True)]


def test_a_sample_with_a_turn_of_another_attempt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "by_group", lambda *words: [_patched(unit) for unit in by_group(*words)])
    refused("segments", tmp_path, Bent())


def bent_packs(change: Callable[..., dict[str, Any]]) -> Callable[..., Batch]:
    def packing(*words: Any, **more: Any) -> Batch:
        batch = pack(*words, **more)
        return replace(batch, micro_batches=tuple(replace(one, **change(one)) for one in batch.micro_batches))

    return packing


def mixed(values: Floats, mask: Bools) -> Floats:
    """What stands at trained tokens, moved on by seven of them."""
    found = np.zeros_like(values)
    found[mask] = np.roll(values[mask], 7)
    return floats(found)


PACKS: dict[str, tuple[str, Callable[..., Batch]]] = {
    "a mask that is shifted by one": ("mask", bent_packs(lambda p: {"mask": np.roll(p.mask, 1)})),
    "an advantage on observations": ("advantages", bent_packs(lambda p: {"advantages": floats(np.where(p.mask, p.advantages, 0.5))})),
    "advantages of mixed-up rows": (
        "advantages",
        bent_packs(lambda p: {"advantages": floats(np.roll(p.advantages[p.mask], 7)[np.cumsum(p.mask) - 1] * p.mask)}),
    ),
    "log-probabilities of mixed-up rows": (
        "log-probabilities",
        bent_packs(lambda p: {"old": floats(np.roll(p.old[p.mask], 3)[np.cumsum(p.mask) - 1] * p.mask)}),
    ),
    "tokens of another row": ("rows", bent_packs(lambda p: {"tokens": ids(np.roll(p.tokens, 1))})),
    "positions that go on over a row's end": ("rows", bent_packs(lambda p: {"positions": ids(np.arange(len(p.positions)))})),
    "padding that is counted": ("counts", lambda *words, **more: replace(pack(*words, **more), trained=pack(*words, **more).trained + 9)),
}


@pytest.mark.parametrize("name", PACKS)
def test_a_fault_of_packing_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fault, packing = PACKS[name]
    monkeypatch.setattr(learning, "pack", packing)
    refused(fault, tmp_path, Bent())


def test_an_attempt_that_would_go_on_in_a_stale_state_is_refused(tmp_path: Path) -> None:
    script = [command("edit --file shop/cart.py 2:2 'total += x'"), command("ls"), command("submit")]
    (task, _) = tasks(tmp_path)
    item = Attempt(task, "a/0", 1, Budget(5, 100_000), NEUTRAL)
    with Run.create(tmp_path / "run", "") as run:
        own = harness(run)

        def attempted(journal: Journal) -> None:
            asyncio.run(run_attempt((replace(own, journal=journal), ScriptedPolicy(script)), item))

        async def killed(attempt: str, turn: Turn) -> None:
            await run.journal.turn(attempt, turn)
            raise ZeroDivisionError

        async def empty(address: str, directory: str) -> Snapshot:
            return Snapshot.of({}, directory)

        with pytest.raises(ZeroDivisionError):
            attempted(Over(run.journal, turn=killed))
        with pytest.raises(ProvenanceError) as caught:
            attempted(Over(run.journal, snapshot=empty))
        assert caught.value.fault == "state"
        attempted(run.journal)
