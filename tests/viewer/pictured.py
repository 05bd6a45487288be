"""The run of the pictures in the guide: made up, but with words as tokens, files that turns change, failures, and forks. Seeded."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.viewer.synthetic import STEPS, episode, policy, record

from patchgrad.store import Run
from patchgrad.store.journal import Ended, Entry
from patchgrad.values import Action, Ending, Report, Repository, Rollout, Snapshot, TrainedTurn, Turn, floats, ids

RECIPE = """name = "laptop"
seed = {seed}

[policy]
context = 2048

[rft]
tasks = 40
attempts = 4

[[stages]]
iterations = 12

[stages.sampling]
tasks = 8
attempts = 8
"""
CODE = '''"""A shop's cart."""


def total(items):
    return sum(items)


def at_least(items, low):
    """The items that are not below a limit."""
    found = []
    for item in items:
        if item > low:
            found.append(item)
    return found
'''
FAMILIES = ("cmp_boundary", "op_swap", "bool_swap", "cmp_negate")
PACKAGES = ("toolz-0.12.1", "semver-3.1.1", "isodate-0.7.2", "sqlparse-0.5.3")


def words(folder: Path) -> Any:
    """A tokenizer of the words of the attempts, kept in a checkpoint as a run keeps its own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([text for step in STEPS for text in step], trainer)
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


class Maker:
    """Makes attempts with tokens of this tokenizer, and the states that their turns left."""

    def __init__(self, run: Run, tokenizer: Any, seed: int) -> None:
        self._run, self._tokenizer, self._rng = run, tokenizer, np.random.default_rng(seed)
        fixed = CODE.replace("item > low", "item >= low")
        broken = fixed.replace("        if item >=", "      if item >=")
        self._states = [Snapshot.of({}), *(Snapshot.of({"shop/cart.py": (0o100644, text.encode())}) for text in (broken, fixed))]
        for state in self._states:
            run.journal.states.put(state)
        archive = run.folder / "archives" / f"{'0' * 64}.tar"
        archive.parent.mkdir()
        with tarfile.open(archive, "w") as packed:
            member = tarfile.TarInfo("shop/cart.py")
            member.size = len(CODE)
            packed.addfile(member, io.BytesIO(CODE.encode()))

    def attempt(self, name: str, task: str, solved: bool, failure: str = "", like: Rollout | None = None, left: int = 0) -> Rollout:
        """An attempt at a task; a fork goes on after so many turns of another one."""
        plain = episode(
            name, solved, malformed=failure == "no command", turns=6 if solved else 5, stop="submitted" if solved else "turn limit"
        )
        turns: list[Turn] = list(like.trajectory.turns[:left]) if like else []
        for number, turn in enumerate(plain.trajectory.turns[left:], left):
            seen = replace(turn.observation, seconds=float(self._rng.gamma(2.0, 0.4)))
            if failure == "timeout" and number == 2:
                seen = replace(seen, failure="timeout", content="The command was stopped after 60 s.", exit_code=124, seconds=60.0)
            state = self._states[2 if number > 2 else 0 if number < 1 or failure == "no command" else 1]
            said = f"I read the statement once more. {turn.action.text}" if like and number == left else turn.action.text
            parent = turns[-1].address if turns else name
            turns.append(replace(turn, action=self._action(said), observation=seen, state=state.address, parent=parent))
        segment = replace(plain.trajectory.segments[0], turns=tuple(turns))
        origin = like.trajectory.id if like else ""
        trajectory = replace(
            plain.trajectory, task=task, segments=(segment,), origin=origin, replayed=left, seconds=float(self._rng.gamma(6, 4))
        )
        repository = Repository("archive", "cart.tar", "0" * 64)
        return replace(plain, task=replace(plain.task, id=task, repository=repository), trajectory=trajectory)

    def _action(self, text: str) -> Action:
        drawn = self._tokenizer.encode(text).ids
        sure = self._rng.beta(5.0, 0.6, len(drawn)).clip(0.02, 0.9999)
        return Action(ids(drawn), floats([math.log(value) for value in sure]), 41, text, "stop")


def reported(name: str, share: float, tasks: Sequence[str], rng: np.random.Generator) -> Report:
    """A report on these tasks, each as often solved as its difficulty allows."""
    ease = np.linspace(-2.2, 2.2, len(tasks))
    outcomes = {
        task: tuple(bool(one) for one in rng.random(4) < 1 / (1 + math.exp(-(3.2 * (share - 0.45) + hard))))
        for task, hard in zip(tasks, ease, strict=True)
    }
    means = [sum(row) / 4 for row in outcomes.values()]
    return replace(policy(name, float(np.mean(means)), 0.6, 0.9, 6.5, 2.0), tasks=len(tasks), outcomes=outcomes, solved={}, faults=0)


def make(folder: Path, seed: int = 0, better: float = 0.0) -> Run:
    """A run of fine-tuning and a stage of eight iterations, which is in an iteration more."""
    rng = np.random.default_rng(seed)
    tasks = [f"{package}.{family}.{rng.integers(16**6):06x}" for package in PACKAGES for family in FAMILIES for _ in range(3)]
    with Run.create(folder, RECIPE.format(seed=seed)) as run:
        maker = Maker(run, words(run.folder / "checkpoints" / "rft-0"), seed)
        for number in range(9):
            phase, iteration = ("rft", 0) if number == 0 else ("stage1", number - 1)
            row = record(phase, iteration, number / 9 * (0.9 + better), rng) | {"sampled": int(rng.integers(38_000, 61_000))}
            run.results.write_metrics(row)
            group = _group(maker, f"{phase}/{iteration}", tasks[number * 3 : number * 3 + 3], rng, 0.3 + 0.05 * number)
            run.rollouts.write(phase, iteration, group)
            run.trained.write(phase, iteration, [turn for rollout in group for turn in _trained(rollout, phase, 40 + number, rng)])
        reports = [reported(name, share + better, tasks, rng) for name, share in (("base", 0.2), ("+ RFT", 0.35), ("+ stage 1 RL", 0.62))]
        run.results.write_reports(reports)
        for number, report in enumerate(reports, 1):
            attempts = _measured(maker, report.name, report.outcomes)
            run.rollouts.write(f"evaluate-{number}", 0, attempts)
        run.save_state({"step": "stage1-7"})
        for number in range(23):
            attempt = maker.attempt(f"stage1/8/{number % 8}/{number // 8}", tasks[number % 8], True)
            for turn in attempt.trajectory.turns:
                run.journal.records.append(Entry(attempt.trajectory.id, turn))
            if number < 18:
                run.journal.records.append(Ended(attempt.trajectory.id, Ending(turn.address, "submitted", "", attempt.verdict)))
    return run


def _trained(rollout: Rollout, phase: str, version: int, rng: np.random.Generator) -> Iterator[TrainedTurn]:
    """What two updates make of an attempt: of imitation what was solved, and no turn that failed in its form."""
    advantage = 1.0 if phase == "rft" else 1.2 * rollout.solved - 0.5
    for update in range(2):
        for number, turn in enumerate(rollout.trajectory.turns, 1):
            if number <= rollout.trajectory.replayed or turn.observation.failure or (phase == "rft" and not rollout.solved):
                continue
            old = turn.action.logprobs
            moved = 0.3 * update * advantage * rng.random(len(old)) * np.abs(old) ** 0.5
            entropies = np.abs(old) * rng.gamma(4.0, 0.4, len(old))
            same = [floats(np.full(len(old), value)) for value in (advantage, 1.0)]
            logprobs = floats(np.minimum(old + moved, -1e-4))
            yield TrainedTurn(rollout.trajectory.id, number, update, version + update, same[0], same[1], old, logprobs, floats(entropies))


def _group(maker: Maker, label: str, tasks: Sequence[str], rng: np.random.Generator, share: float) -> list[Rollout]:
    found = []
    for place, task in enumerate(tasks):
        for number in range(4):
            failure = str(rng.choice(["", "", "", "timeout", "no command"]))
            found.append(maker.attempt(f"{label}/{place}/{number}", task, bool(rng.random() < share), failure))
        first = found[-4]
        for left, solved in ((2, False), (3, True), (3, False)):
            name = f"{first.trajectory.id}+{left}.{int(solved)}"
            found.append(maker.attempt(name, task, solved, like=first, left=left))
    return found


def _measured(maker: Maker, name: str, outcomes: Mapping[str, tuple[bool | None, ...]]) -> list[Rollout]:
    told = enumerate(outcomes.items())
    return [
        maker.attempt(f"evaluate/{name}/{place}/{number}", task, bool(won)) for place, (task, row) in told for number, won in enumerate(row)
    ]
