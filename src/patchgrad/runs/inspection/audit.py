"""What a finished run was trained on, proved from its folder alone: every chain anew, every token counted.

recipe, tables, journal -> the attempts of each iteration -> their samples -> tokens that were trained, and why others were not
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from patchgrad.errors import Refused
from patchgrad.learning.algorithm import Algorithm
from patchgrad.learning.credit import by_group
from patchgrad.learning.failures import kept, kinds
from patchgrad.learning.provenance import MEANINGS, Requirements, violation
from patchgrad.recipes.recipe import Recipe
from patchgrad.rollouts.attempts import grouped
from patchgrad.runs.algorithms import algorithm, imitation
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.reading import recipe_of
from patchgrad.store import Run
from patchgrad.values import Group, Rollout, Trajectory

NOT_CHOSEN = "not chosen by the algorithm"
NOTHING_TO_TEACH = "an advantage of zero"
BROKEN = "broken by infrastructure"

FINE_TUNING = PhaseId("imitate").trained


@dataclass(frozen=True, slots=True)
class Audited:
    """One iteration. Tokens are action tokens; `left_out` says why others of those that were sampled were not trained.

    `versions` are those of the policy that sampled what was trained, with their tokens; `current` is the one that the run's own updates
    had led to when it was trained, and `allowed` are those that the lag of its stage allows. `recorded` is how many tokens were counted
    then, in all `epochs` together, where that can be told from the attempts alone: not where a correction masks by what the trainer said.
    `reprompted` of the trained tokens were imitated after a prompt without the demonstration that they were collected with
    (`algorithms.reprompted`): all others were sampled after exactly what they were trained after. `flaws` are attempts that do not verify.
    `told` turns were told that their sandbox was opened anew without something that was outside of the repository (`Turn.lost`). `again`
    of the trained tokens are of groups of earlier iterations. `forks` attempts went on after turns of another one, `restarted` have more
    than one token stream, of `streams` in all, and `asides` questions of programs were answered and are no turns.
    """

    phase: str
    iteration: int
    attempts: int
    turns: int
    sampled: int
    trained: int
    current: int
    allowed: Sequence[int]
    recorded: int | None
    versions: Mapping[int, int]
    left_out: Mapping[str, int]
    reprompted: int
    flaws: Sequence[str] = field(default=())
    told: int = 0
    again: int = 0
    forks: int = 0
    restarted: int = 0
    streams: int = 0
    asides: int = 0
    epochs: int = 1

    @property
    def sound(self) -> bool:
        """Is every chain whole, was all sampled by a version that is allowed, and were as many tokens trained as the record says?"""
        return not self.flaws and not self.strange and self.recorded in (None, self.epochs * self.trained)

    @property
    def strange(self) -> frozenset[int]:
        """Versions that have sampled what was trained, and may not."""
        return frozenset(self.versions) - set(self.allowed)

    @property
    def behind(self) -> Mapping[int, int]:
        """How many updates behind the policy that was trained -> how many of its tokens were sampled there: `{}` where none was."""
        return {self.current - version: tokens for version, tokens in self.versions.items() if version != self.current}


@dataclass(frozen=True, slots=True)
class _Learned:
    """One iteration of learning as it was meant and recorded: by which algorithm, over how many epochs, of how many tokens.

    `published` are the versions that may have sampled it, the last of which was trained. `again` says which groups of earlier iterations
    were trained again, each by its iteration and its name, and under which versions they may have been sampled.
    """

    phase: str
    iteration: int
    row: Algorithm
    epochs: int
    recorded: int | None
    published: Sequence[int]
    again: Mapping[tuple[int, str], Sequence[int]]


def audit(run: Run) -> list[Audited]:
    """Every iteration of learning that the folder holds, in order.

    A damaged attempt is a flaw of its iteration; `StoreError` where a whole table, or the list of iterations, is damaged.
    """
    recipe = recipe_of(run)
    recorded = {(row["phase"], row["iteration"]): row for row in run.results.metrics()}
    rows = run.rollouts.rows(columns=["phase", "iteration", "policy_version", "attempt"])
    learned = _algorithms(recipe)
    rows = [row for row in rows if row["phase"] in learned]
    count = Counter(row["attempt"] for row in rows)
    twice = {attempt for attempt, times in count.items() if times > 1}
    current = next((row["policy_version"] for row in rows if row["policy_version"] is not None), 0)
    found: list[Audited] = []
    stages = {PhaseId("reinforce", number).trained: stage for number, stage in enumerate(recipe.stages, 1)}
    published: list[int] = []
    windows: dict[int, Sequence[int]] = {}
    for phase, iteration in dict.fromkeys((row["phase"], row["iteration"]) for row in rows):
        told = recorded.get((phase, iteration), {})
        published = [*(published if iteration else []), current]
        stage = stages.get(phase)
        windows[iteration] = published[-((stage.sampling.lag if stage else 0) + 1) :]
        epochs = stage.loss.epochs if stage else recipe.rft.epochs
        known = None if stage and stage.loss.correction.masks else told.get("trained")
        again = {(row["iteration"], row["group"]): windows[row["iteration"]] for row in told.get("replay", ()) if row["near"]}
        meant = _Learned(phase, iteration, learned[phase], epochs, known, windows[iteration], again)
        one = _audited(run, meant, twice)
        shown = phase == FINE_TUNING and recipe.rft.demonstration and not iteration
        found.append(replace(one, reprompted=one.trained) if shown else one)
        current += told.get("updates", 0)
    return found


def _algorithms(recipe: Recipe) -> dict[str, Algorithm]:
    """The row of each phase that learns, by what its tables are filed under."""
    stages = {PhaseId("reinforce", number).trained: algorithm(stage) for number, stage in enumerate(recipe.stages, 1)}
    return {FINE_TUNING: imitation(recipe.rft), **stages}


def _audited(run: Run, learned: _Learned, twice: Collection[str]) -> Audited:
    damaged, row = Refused(), learned.row
    rollouts = run.rollouts.read(learned.phase, learned.iteration, damaged)
    terms = Requirements(run.journal.holds)
    faults = [(one.trajectory.id, "duplicate" if one.trajectory.id in twice else violation(one, terms)) for one in rollouts]
    flaws = [*damaged.sentences, *(f"{attempt}: {MEANINGS[fault]}" for attempt, fault in faults if fault is not None)]
    again = _again(run, learned)
    flaws += [f"{group}: it was trained again, and cannot be read" for _, group in learned.again if group not in again]
    chosen = [] if flaws else [*row.select([*grouped(rollouts).values()]), *again.values()]
    samples = [
        sample for unit in by_group(chosen, row.estimator, row.failures, row.rescale, row.confident_above, row.penalty) for sample in unit
    ]
    versions: Counter[int] = Counter()
    for sample in samples:
        turns = sample.segment.turns
        drawn = np.concatenate([turn.action.drawn_under for turn in turns])
        versions.update(drawn[sample.trained].tolist())
    own = {one.trajectory.id for one in rollouts}
    return Audited(
        learned.phase,
        learned.iteration,
        len(rollouts) + len(damaged.errors),
        sum(len(one.trajectory.turns) for one in rollouts),
        sum(_actions(one.trajectory) for one in rollouts),
        versions.total(),
        learned.published[-1],
        tuple(dict.fromkeys(version for window in (*learned.again.values(), learned.published) for version in window)),
        learned.recorded,
        dict(versions),
        dict(_left_out(rollouts, chosen, {sample.attempt for sample in samples}, row)),
        0,
        tuple(flaws),
        sum(bool(turn.lost) for one in rollouts for turn in one.trajectory.turns[one.trajectory.replayed :]),
        sum(int(sample.trained.sum()) for sample in samples if sample.attempt not in own),
        sum(one.trajectory.replayed > 0 for one in rollouts),
        sum(len(one.trajectory.segments) > 1 for one in rollouts),
        sum(len(one.trajectory.segments) for one in rollouts),
        sum(one.trajectory.asides for one in rollouts),
        learned.epochs,
    )


def _again(run: Run, learned: _Learned) -> dict[str, Group]:
    """The groups of earlier iterations that were trained again, by their names, as far as they can be read."""
    iterations = dict.fromkeys(iteration for iteration, _ in learned.again)
    found = {number: grouped(run.rollouts.read(learned.phase, number, Refused())) for number in iterations}
    return {group: found[number][group] for number, group in learned.again if group in found[number]}


def _left_out(rollouts: Sequence[Rollout], chosen: Sequence[Group], taught: set[str], row: Algorithm) -> Counter[str]:
    """Why -> how many action tokens were not trained."""
    there = {one.trajectory.id for group in chosen for one in group.rollouts}
    why: Counter[str] = Counter()
    for one in rollouts:
        trajectory = one.trajectory
        if one.broken:
            why[BROKEN] += _actions(trajectory)
        elif trajectory.id not in there:
            why[NOT_CHOSEN] += _actions(trajectory)
        elif trajectory.id not in taught:
            why[NOTHING_TO_TEACH] += _actions(trajectory)
        else:
            trained = iter(kept(trajectory, row.failures))
            for turn, kind in zip(trajectory.turns, kinds(trajectory), strict=True):
                masked = sum(not next(trained) for _ in turn.action.token_ids)
                if kind != "replayed":
                    why[f"masked: {kind or 'overlong'}"] += masked
    return +why


def _actions(trajectory: Trajectory) -> int:
    """Tokens of its own actions: those that it replays were sampled elsewhere."""
    return sum(len(turn.action.token_ids) for turn in trajectory.turns[trajectory.replayed :])
