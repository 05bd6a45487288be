"""The table of algorithms: each row learns, none depends on how its batch is cut, and what cannot work is refused in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
import torch
from tests.attempts import VOCABULARY, some_groups
from tests.learning.objectives.tokens import gradient, tokens
from tests.runs.bandit import climb

from patchgrad.config import dumps, loads, override
from patchgrad.contracts import Aggregate, Estimator, Objective
from patchgrad.errors import ConfigError
from patchgrad.learning.advantages import (
    Anchored,
    GroupNormalised,
    LeaveOneOut,
    LengthWeighted,
    MeanOnly,
    MeanScaled,
    Ones,
    Returns,
    whitened,
)
from patchgrad.learning.aggregation import seq_mean_token_mean, seq_mean_token_sum, token_mean
from patchgrad.learning.algorithm import IterationSizes
from patchgrad.learning.credit import assign
from patchgrad.learning.failures import KINDS, MASK_FORMAT_ERRORS
from patchgrad.learning.loop import learn
from patchgrad.learning.objectives.cispo import Cispo, CispoTwoSided
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.corrections import MaskGeometric, MaskSequence, MaskToken, Together, TruncateSequence, TruncateToken
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.objectives.gspo import Gspo
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.recipes import Recipe, laptop
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.failures import Failures
from patchgrad.recipes.loss import ImportanceCorrection, KlPenalty, LossChoice
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.rows import ROWS, Aggregation, Name
from patchgrad.recipes.stage import LengthPenalty, Stage
from patchgrad.runs.algorithms import algorithm, imitation
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import constant
from patchgrad.values import Group, Update, ids

torch.set_num_threads(1)
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "algorithms.md"
EVERY = pytest.mark.parametrize("name", ROWS)
CONFIG = DecoderConfig(VOCABULARY, 24, 2, 3, 1, 8, intermediate=32)
GROUPS = some_groups(seed=3)
CORRECTED = ImportanceCorrection(truncate_token=2.0, mask_token=(0.05, 20.0), mask_geometric=(0.2, 5.0))


GROUPED: dict[str, Callable[..., Any]] = {"advantage": AdvantageChoice, "loss": LossChoice, "reward": LengthPenalty}


def plain(name: Name = "dapo", **changes: object) -> Stage:
    """A row, and these keys of whichever group has them."""
    groups = {group: {field.name for field in fields(made)} for group, made in GROUPED.items()}  # type: ignore[arg-type]
    assert set(changes) <= set().union(*groups.values())
    chosen = {group: GROUPED[group](**{key: changes[key] for key in names & set(changes)}) for group, names in groups.items()}
    return Stage(name, **chosen)


class Descent:
    """The plainest optimiser, so that a difference of gradients is one of weights."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self.parameters = parameters

    @torch.no_grad()
    def step(self, gradients: Mapping[str, torch.Tensor], rate: float, spread: object = map) -> None:
        for name, parameter in self.parameters.items():
            parameter.sub_(gradients[name], alpha=rate)

    def state(self) -> dict[str, torch.Tensor]:
        return {}

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        pass


def learned(stage: Stage, groups: Sequence[Group], pack: int = 10_000, workers: int = 1) -> tuple[dict[str, torch.Tensor], Update]:
    """The weights after one step over all groups, and what was measured."""
    trainer = LocalTrainer(Decoder(CONFIG), optimiser=Descent, threads=workers)
    sizes = IterationSizes(len(groups), 4, 1000, pack, schedule=lambda steps: constant(1.0), workers=workers)
    (update,) = learn(groups, algorithm(stage), trainer, sizes, 0).updates
    return {name: tensor.clone() for name, tensor in trainer.weights().items()}, update


def apart(one: Mapping[str, torch.Tensor], two: Mapping[str, torch.Tensor]) -> float:
    """The largest difference of any weight."""
    return max(float((tensor - two[name]).abs().max()) for name, tensor in one.items())


NORMALISED = GroupNormalised()
MADE: dict[Name, tuple[Estimator, Objective, Aggregate | None]] = {
    "dapo": (NORMALISED, Clipped(0.2, 0.28), token_mean),
    "grpo": (NORMALISED, Clipped(0.2, 0.2), seq_mean_token_mean),
    "dr-grpo": (MeanOnly(), Clipped(0.2, 0.2), None),
    "rloo": (LeaveOneOut(), Clipped(0.2, 0.2), token_mean),
    "maxrl": (MeanScaled(), Clipped(0.2, 0.2), token_mean),
    "reinforce": (Returns(), cross_entropy, seq_mean_token_sum),
    "reinforce++": (Returns(), Clipped(0.2, 0.2), token_mean),
    "reinforce++-baseline": (MeanOnly(), Clipped(0.2, 0.2), token_mean),
    "dual-clip": (NORMALISED, Clipped(0.2, 0.2, dual=3.0), token_mean),
    "gspo": (NORMALISED, Gspo(3e-4, 4e-4), seq_mean_token_mean),
    "cispo": (NORMALISED, Cispo(4.0), token_mean),
    "cispo-two-sided": (NORMALISED, CispoTwoSided(0.2, 0.28), token_mean),
}


@EVERY
def test_a_row_is_made_of_what_the_table_says(name: Name) -> None:
    estimator, objective, aggregate = MADE[name]
    made = algorithm(plain(name))
    assert made.estimator == estimator
    assert aggregate in (made.aggregate, None)
    assert (made.rescale is whitened) == name.startswith("reinforce++")
    alike = [Group(GROUPS[0].rollouts[:1])]
    every = ("grpo", "dr-grpo", "rloo", "reinforce", "reinforce++", "gspo")
    assert made.select(alike) == (alike if name in every else [])
    given = tokens([-0.1, -0.1, -3.0, -3.0, -1.0, -1.0], [-2.0, -2.0, -1.0, -1.0, -1.0, -1.25], [1, -1, 1, -1, 1, 1], [0, 1, 2, 3, 4, 5])
    assert made.objective == objective
    assert torch.equal(made.objective(given)[0], objective(given)[0])
    assert torch.equal(gradient(made.objective, given), gradient(objective, given))


def test_imitation_takes_what_the_recipe_says_and_follows_the_plain_prompt_where_one_is_given() -> None:
    won = [rollout for group in GROUPS for rollout in group.rollouts if rollout.solved]
    kept = imitation(Rft(cap=None, dedupe=False)).select(GROUPS)
    assert [rollout for group in kept for rollout in group.rollouts] == won
    assert all(len(group.rollouts) == 1 for group in imitation(Rft(cap=1)).select(GROUPS))
    reprompted = imitation(Rft(cap=None, dedupe=False), lambda task: ids([1, 2, 3])).select(GROUPS)
    samples = assign(reprompted, Ones(), MASK_FORMAT_ERRORS)
    assert len(samples) >= len(won)
    assert all(group.rollouts[0].trajectory.turns[0].context.tolist() == [1, 2, 3] for group in reprompted)


def test_a_stage_s_bounds_of_a_mismatch_are_corrections() -> None:
    every = ImportanceCorrection(truncate_token=2.0, mask_token=(0.5, 5.0), mask_sequence=(0.1, 3.0), mask_geometric=(0.9, 1.1))
    parts = (TruncateToken(2.0), MaskToken(0.5, 5.0), MaskSequence(0.1, 3.0), MaskGeometric(0.9, 1.1))
    assert algorithm(plain(old="recomputed", correction=every)).correction == Together(parts)
    sequence = algorithm(plain(old="recomputed", correction=ImportanceCorrection(truncate_sequence=4.0))).correction
    assert sequence == Together((TruncateSequence(4.0),))
    assert algorithm(plain(old="recomputed")).correction is None


def test_a_stage_s_own_credit_is_around_every_row_s() -> None:
    stage = plain("rloo", step_weight=2.0, discount=0.5, confident_above=0.8, penalty=0.25, failures=Failures(looping="withhold"))
    made = algorithm(stage)
    assert (made.estimator, made.confident_above, made.penalty) == (Anchored(LeaveOneOut(), 2.0, 0.5), 0.8, 0.25)
    assert dict(made.failures) == {"looping": "withhold"}
    assert dict(imitation(Rft()).failures) == dict.fromkeys(("no command", "truncated", "several commands"), "mask")
    every = {kind.replace(" ", "_"): "mask" for kind in KINDS - {"infrastructure"}}
    assert set(Failures(**every).policy) == KINDS - {"infrastructure"}, "each kind of failure is a field"  # type: ignore[arg-type]
    tokens = plain("dapo", baseline="tokens", baseline_offset=0.1, confident_above=0.9)
    assert algorithm(tokens).estimator == LengthWeighted(baseline_offset=0.1)


def test_the_name_of_an_algorithm_alone_is_its_published_setting() -> None:
    dapo, row = Stage(algorithm="dapo"), Stage(algorithm="dapo").row
    assert row == ROWS["dapo"]
    assert (row.clip_low, row.clip_high, row.aggregate, row.filter_on, row.old) == (0.2, 0.28, "token-mean", "outcome", "sampled")
    assert (row.baseline, row.baseline_offset, row.step_weight, row.confident_above) == ("group", 0.0, 0.0, 1.0)
    assert (dict(row.failures.policy), dapo.reward.length_weight, dapo.loss.kl_penalty.weight, dapo.decay) == ({}, 0.0, 0.0, 0.0)
    grpo = Stage(algorithm="grpo").row
    assert (grpo.clip_low, grpo.clip_high, grpo.aggregate, grpo.filter_on) == (0.2, 0.2, "seq-mean-token-mean", "nothing")
    assert all(Stage(algorithm=name).row == row for name, row in ROWS.items())
    assert override(laptop(), {"stages.0.advantage.failures.looping": "none"}).stages[0].row.failures.looping == "keep"


@EVERY
@pytest.mark.parametrize("correction", [ImportanceCorrection(), CORRECTED], ids=["sampled", "corrected"])
def test_neither_order_nor_packs_nor_workers_change_a_step(name: Name, correction: ImportanceCorrection) -> None:
    stage = plain(name, old="sampled" if correction.none else "recomputed", correction=correction, kl_penalty=KlPenalty(0.1, "k2", "old"))
    whole, update = learned(stage, GROUPS)
    moved = apart(whole, LocalTrainer(Decoder(CONFIG)).weights())
    shuffled = [Group(tuple(Random(5).sample(group.rollouts, len(group.rollouts)))) for group in GROUPS[::-1]]
    for groups, pack, workers in ((GROUPS, 30, 1), (GROUPS, 30, 2), (shuffled, 10_000, 1), (shuffled, 20, 2)):
        weights, other = learned(stage, groups, pack, workers)
        assert apart(whole, weights) < 2e-3 * moved
        assert other.metrics["loss"] == pytest.approx(update.metrics["loss"], rel=1e-4, abs=1e-6)
        assert other.metrics["trained"] == update.metrics["trained"]


@pytest.mark.parametrize("name", ["dapo", "gspo", "reinforce++"])
def test_a_row_climbs_a_bandit_of_three_turns(name: Name) -> None:
    share, iterations = climb(algorithm(plain(name)), seed=0, iterations=60)
    assert share > 0.9, f"{name} is at {share:.2f} after {iterations} iterations"


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("seed", range(5))
def test_a_row_climbs_whatever_the_seed(name: Name, seed: int) -> None:
    """Two steps an iteration of 64 attempts; 14 to 25 iterations were seen."""
    share, iterations = climb(algorithm(plain(name)), seed=seed, iterations=60)
    assert share > 0.9, f"{name} is at {share:.2f} after {iterations} iterations"


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", get_args(Aggregation))
@pytest.mark.parametrize(
    "correction",
    [ImportanceCorrection(), ImportanceCorrection(truncate_token=2.0, mask_geometric=(0.5, 2.0))],
    ids=["sampled", "corrected"],
)
def test_every_aggregation_climbs_and_so_does_a_corrected_row(aggregate: Aggregation, correction: ImportanceCorrection) -> None:
    stage = plain("dapo", aggregate=aggregate, old="sampled" if correction.none else "recomputed", correction=correction)
    assert climb(algorithm(stage), seed=1, iterations=60)[0] > 0.9


def test_a_row_that_is_told_the_opposite_does_not_climb() -> None:
    row = algorithm(plain())
    backwards = replace(row, rescale=lambda advantages, _: [-part for part in advantages])
    assert climb(backwards, seed=0, iterations=30)[0] < 0.05


def test_a_stage_s_own_bounds_and_aggregation_replace_the_row_s() -> None:
    for one, two in (
        (plain(), plain(clip_low=0.2, clip_high=0.28, aggregate="token-mean")),
        (plain("grpo"), plain("dapo", clip_high=0.2, aggregate="seq-mean-token-mean", filter_on="nothing")),
        (plain("reinforce++-baseline"), plain("reinforce++-baseline", baseline="tokens", baseline_offset=0.5)),
    ):
        first, second = learned(one, GROUPS)[0], learned(two, GROUPS)[0]
        assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    losses = {name: learned(plain(aggregate=name), GROUPS)[1].metrics["loss"] for name in get_args(Aggregation)}
    assert len({round(value, 6) for value in losses.values()}) == len(losses)
    assert losses["seq-mean-token-sum-norm"] == pytest.approx(losses["seq-mean-token-sum"] / Stage().limits.context)


def test_every_name_is_a_row_and_every_row_stands_in_the_guide_with_its_numbers() -> None:
    assert list(ROWS) == list(get_args(Name))
    told = {found[1]: found[2] for found in re.finditer(r"^\| `([^`]+)` (.*)$", PAGE.read_text(), re.MULTILINE)}
    for name, row in ROWS.items():
        assert name in told, f"{name} is missing in {PAGE.name}"
        line = told[name]
        assert f"`{row.aggregate}`" in line
        for bound in (row.clip_low, row.clip_high, row.dual):
            assert bound is None or re.search(rf"(?<![\d.]){re.escape(f'{bound:g}')}(?![\d])", line), f"{name}: {bound}"


def test_a_stage_with_everything_set_prints_and_reads_back_as_itself() -> None:
    stage = plain(
        "gspo", clip_low=1e-4, clip_high=2e-4, old="recomputed", correction=CORRECTED, kl_penalty=KlPenalty(0.01, "k3", "reference")
    )
    recipe = replace(laptop(), stages=(stage,))
    assert loads(Recipe, dumps(recipe)) == recipe
    words = {
        "stages.0.algorithm": "cispo-two-sided",
        "stages.0.loss.aggregate": "group-mean-token-mean",
        "stages.0.loss.old": "recomputed",
        "stages.0.loss.correction.mask_token": "0.5,5",
        "stages.0.loss.correction.truncate_token": "5",
        "stages.0.loss.kl_penalty.weight": "0.001",
    }
    changed = override(laptop(), words).stages[0]
    assert (changed.algorithm, changed.loss.correction) == (
        "cispo-two-sided",
        ImportanceCorrection(truncate_token=5.0, mask_token=(0.5, 5.0)),
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: plain(clip_low=0.4, clip_high=0.3), r"clip_low 0.4 is above clip_high 0.3: it must not be"),
        (lambda: plain("grpo", clip_low=0.25), r"clip_low 0.25 is above clip_high 0.2"),
        (lambda: plain(clip_low=1.5), "clip_low must lie between 0 and 1"),
        (lambda: plain(clip_high=-0.1), "clip_high above 0"),
        (lambda: plain("reinforce", clip_high=0.2), "reinforce has no such bound: set it to none"),
        (lambda: plain("cispo", clip_low=0.2), "clip_low is 0.2, but cispo has no such bound"),
        (lambda: plain("gspo", clip_low=0.2, clip_high=0.3), "would never act on gspo's ratio"),
        (lambda: plain("dual-clip", clip_high=2.5), "leaves dual-clip nothing to bound"),
        (lambda: plain("maxrl", length_weight=0.1), "maxrl divides by a mean"),
        (lambda: plain("dapo", confident_above=0.0), "1 blames all"),
        (lambda: plain("dapo", penalty=0.0), "more than 0"),
        (lambda: plain(correction=CORRECTED), "set loss.old to 'recomputed'"),
        (lambda: ImportanceCorrection(truncate_token=2.0, truncate_sequence=2.0), "the same ratio twice"),
        (lambda: ImportanceCorrection(truncate_token=0.5), "at least 1"),
        (lambda: ImportanceCorrection(mask_geometric=(1.1, 1.2)), "the ratio 1, where both agree, must lie between"),
        (lambda: KlPenalty(weight=-1.0), "kl_penalty.weight is -1.0"),
        (lambda: override(laptop(), {"stages.0.algorithm": "gspo"}), "set clip_low and clip_high to none for these"),
    ],
)
def test_a_row_that_cannot_work_is_refused_before_anything_starts(wrong: object, sentence: str) -> None:
    assert callable(wrong)
    with pytest.raises(ConfigError, match=sentence):
        wrong()
