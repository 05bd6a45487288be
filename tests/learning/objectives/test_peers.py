"""Our rows beside the functions of verl, TRL and OpenRLHF, on the same numbers, in float64.

Slow, and skipped where a library is not installed. None is a dependency; to run these, in an environment of their own beside torch:

    pip install --no-deps verl==0.9.1 trl==1.16.0 openrlhf==0.11.2     # and what their imports then ask for, each with --no-deps
    python -m pytest -m slow tests/learning/objectives/test_peers.py

Losses and their gradients are held to a relative 1e-12, to 1e-6 where a library adds 1e-8 to a count (`NEAR`) or our factors are float32,
and to 1e-5 where it computes in float32. Where the same name is another function, the test's name says how.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.attempts import alike, attempt
from torch import Tensor

from patchgrad.contracts import Aggregate, Correction, Estimator, Objective, Trained
from patchgrad.learning.advantages import GroupNormalised, LeaveOneOut, LengthWeighted, MeanOnly, Returns, whitened
from patchgrad.learning.aggregation import seq_mean_token_mean, seq_mean_token_sum, seq_mean_token_sum_norm, token_mean
from patchgrad.learning.objectives.cispo import Cispo, CispoTwoSided
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.corrections import MaskGeometric, MaskSequence, MaskToken, Together, TruncateSequence, TruncateToken
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.objectives.gspo import Gspo
from patchgrad.learning.objectives.kl_penalty import WithKlPenalty, k1, k2, k3
from patchgrad.values import Group, Sample, Segment, floats

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NEAR = 1e-6
SEEDS = pytest.mark.parametrize("seed", range(5))
AGGREGATES: dict[str, Aggregate] = {
    "token-mean": token_mean,
    "seq-mean-token-mean": seq_mean_token_mean,
    "seq-mean-token-sum": seq_mean_token_sum,
    "seq-mean-token-sum-norm": seq_mean_token_sum_norm(9),
}


@dataclass(frozen=True, slots=True)
class Case:
    """Six attempts in three groups of two, `[6, 9]` tokens: padded on the right, and interrupted by what the environment said."""

    logprobs: Tensor
    old: Tensor
    sampled: Tensor
    reference: Tensor
    mask: Tensor
    advantages: Tensor
    groups: tuple[str, ...] = ("a", "a", "b", "b", "c", "c")


def case(seed: int) -> Case:
    random = np.random.default_rng(seed)
    lengths = random.integers(2, 10, 6)
    mask = (np.arange(9) < lengths[:, None]) & (random.random((6, 9)) < 0.8)
    mask[:, 0] = True
    old = -random.exponential(1.0, (6, 9)) - 0.01
    shifts = {"logprobs": 0.4, "sampled": 0.5, "reference": 0.8}
    near = {name: torch.from_numpy(old + random.normal(0, scale, (6, 9))) for name, scale in shifts.items()}
    advantages = torch.from_numpy(random.normal(0, 1, 6))
    return Case(near["logprobs"], torch.from_numpy(old), near["sampled"], near["reference"], torch.from_numpy(mask), advantages)


def ours(objective: Objective, aggregate: Aggregate, of: Case, factors: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The loss of a batch and its gradient, `[6, 9]`."""
    logprobs = of.logprobs.clone().requires_grad_()
    rows = of.mask.nonzero()[:, 0]
    advantages = of.advantages[:, None].expand(6, 9)
    tokens = Trained(logprobs[of.mask], of.old[of.mask], of.reference[of.mask], advantages[of.mask], rows)
    weights = torch.tensor(aggregate(alike([sample(of, row) for row in range(6)])), dtype=torch.float64)[rows]
    costs = weights * objective(tokens)[0] * (1.0 if factors is None else factors[of.mask])
    loss = costs.sum() / of.mask.sum()
    return loss.detach(), torch.autograd.grad(loss, logprobs)[0]


def sample(of: Case, row: int) -> Sample:
    """As many trained tokens as the mask has in that row."""
    count = int(of.mask[row].sum())
    (turn,) = attempt(str(row), [[(1, count)]]).trajectory.turns
    return Sample(Segment((turn,)), floats(np.ones(count)), np.ones(count, bool), str(row), of.groups[row])


def theirs(function: Callable[[Tensor], Tensor], of: Case) -> tuple[Tensor, Tensor]:
    logprobs = of.logprobs.clone().requires_grad_()
    loss = function(logprobs)
    return loss.detach(), torch.autograd.grad(loss, logprobs)[0]


def agree(mine: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], rtol: float = 1e-12) -> None:
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one.double(), two.double(), rtol=rtol, atol=1e-14)


def group(rewards: list[float], lengths: list[int]) -> Group:
    pairs = zip(rewards, lengths, strict=True)
    return Group(tuple(attempt(str(number), [[(1, length)]], reward) for number, (reward, length) in enumerate(pairs)))


# --- verl ----------------------------------------------------------------------------------------


def verl(name: str = "core_algos") -> Any:
    return pytest.importorskip(f"verl.trainer.ppo.{name}", exc_type=ImportError)


def verl_loss(name: str, aggregate: str, of: Case, low: float, high: float, weights: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    configuration = importlib.import_module("verl.workers.config.actor")
    config = configuration.ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=3.0
    )
    config.global_batch_info["loss_scale_factor"] = 9
    advantages, mask = of.advantages[:, None].expand(6, 9), of.mask.double()
    function = verl().get_policy_loss_fn(name)
    return lambda logprobs: function(of.old, logprobs, advantages, mask, aggregate, config, weights)[0]


@SEEDS
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize(
    ("name", "objective", "low", "high"),
    [
        ("vanilla", Clipped(0.2, 0.28, dual=3.0), 0.2, 0.28),
        ("gspo", Gspo(3e-4, 4e-4), 3e-4, 4e-4),
        ("gspo", Gspo(0.2, 0.2), 0.2, 0.2),
        ("cispo", CispoTwoSided(0.2, 0.28), 0.2, 0.28),
    ],
    ids=["dual clip", "gspo", "gspo, wide", "cispo"],
)
def test_verl_s_losses(seed: int, aggregate: str, name: str, objective: Objective, low: float, high: float) -> None:
    of = case(seed)
    verl()
    rtol = NEAR if aggregate == "seq-mean-token-mean" else 1e-12
    agree(ours(objective, AGGREGATES[aggregate], of), theirs(verl_loss(name, aggregate, of, low, high), of), rtol)


@SEEDS
def test_verl_s_reinforce_with_truncated_weights(seed: int) -> None:
    of, helper = case(seed), verl("rollout_corr_helper")
    weights, _ = helper.compute_rollout_correction_weights(of.old - of.sampled, of.mask.double(), "token", 2.0)
    config = SimpleNamespace(global_batch_info={})
    mask, advantages = of.mask.double(), of.advantages[:, None].expand(6, 9)

    def loss(logprobs: Tensor) -> Tensor:
        found = verl().compute_policy_loss_reinforce(of.sampled, logprobs, advantages, mask, "seq-mean-token-sum", config, weights)
        return found[0]  # type: ignore[no-any-return]

    agree(ours(cross_entropy, seq_mean_token_sum, of, factors(TruncateToken(2.0), of)), theirs(loss, of), NEAR)


def factors(correction: Correction, of: Case) -> Tensor:
    """What a correction says, sequence by sequence, `[6, 9]`."""
    found = torch.zeros(6, 9, dtype=torch.float64)
    for row in range(6):
        found[row, of.mask[row]] = torch.from_numpy(correction(floats((of.old - of.sampled)[row, of.mask[row]].numpy()))[0].astype(float))
    return found


@SEEDS
@pytest.mark.parametrize(
    ("correction", "level", "threshold"),
    [
        (TruncateToken(1.5), "token", 1.5),
        (TruncateSequence(2.0), "sequence", 2.0),
        (Together((MaskToken(0.6, 1.8), TruncateToken(1.8))), "token", "0.6_1.8"),
    ],
    ids=["token", "sequence", "IcePop"],
)
def test_verl_s_weights_between_sampler_and_trainer(seed: int, correction: Correction, level: str, threshold: float | str) -> None:
    of = case(seed)
    weights, _ = verl("rollout_corr_helper").compute_rollout_correction_weights(of.old - of.sampled, of.mask.double(), level, threshold)
    torch.testing.assert_close(factors(correction, of), weights.double(), rtol=1e-6, atol=1e-7)


@SEEDS
@pytest.mark.parametrize(
    ("correction", "option", "threshold"),
    [
        (MaskToken(0.7, 1.6), "token_k1", f"{1 / 1.6}_{1 / 0.7}"),
        (MaskSequence(0.4, 1.6), "seq_sum_k1", f"{1 / 1.6}_{1 / 0.4}"),
        (MaskGeometric(0.8, 1.2), "seq_mean_k1", f"{1 / 1.2}_{1 / 0.8}"),
    ],
    ids=["token", "sequence", "geometric"],
)
def test_verl_s_rejections_whose_bounds_are_of_sampled_over_old(seed: int, correction: Correction, option: str, threshold: str) -> None:
    of = case(seed)
    mask, _ = verl("rollout_corr_helper").compute_rollout_rejection_mask(of.old - of.sampled, of.mask.double(), option, threshold)
    assert factors(correction, of).tolist() == mask.double().tolist()


@SEEDS
@pytest.mark.parametrize(("name", "estimator"), [("k1", k1), ("k2", k2), ("k3", k3)])
def test_verl_s_penalties(seed: int, name: str, estimator: Callable[[Tensor], Tensor]) -> None:
    of = case(seed)
    agree(
        theirs(lambda logprobs: estimator(logprobs - of.reference).sum(), of),
        theirs(lambda logprobs: verl().kl_penalty(logprobs, of.reference, name).sum(), of),
    )


REWARDS, LENGTHS = [1.0, 0.0, 0.0, 1.0, 0.5], [3, 1, 4, 2, 5]


def verl_advantages(name: str, rewards: list[float], lengths: list[int], index: list[str], **more: Any) -> list[float]:
    """One value an attempt: that of its first token."""
    width = max(lengths)
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).double()
    scores = torch.zeros(len(rewards), width, dtype=torch.float64)
    scores[torch.arange(len(rewards)), torch.tensor(lengths) - 1] = torch.tensor(rewards, dtype=torch.float64)
    function = verl().get_adv_estimator_fn(name)
    config = SimpleNamespace(gamma=1.0)
    given = {"token_level_rewards": scores, "response_mask": mask, "index": np.array(index), "config": config, **more}
    if name == "reinforce_plus_plus":
        del given["index"]
    return [float(row[0]) for row in function(**given)[0]]


@pytest.mark.parametrize(
    ("name", "estimator", "more"),
    [
        ("grpo", GroupNormalised("sample"), {}),
        ("grpo", MeanOnly(), {"norm_adv_by_std_in_grpo": False}),
        ("rloo", LeaveOneOut(), {}),
        ("rloo_vectorized", LeaveOneOut(), {}),
    ],
    ids=["grpo", "dr-grpo", "rloo", "rloo, vectorised"],
)
def test_verl_s_advantages(name: str, estimator: Estimator, more: dict[str, Any]) -> None:
    found = [float(row[0]) for row in estimator(group(REWARDS, LENGTHS))]
    assert found == pytest.approx(verl_advantages(name, REWARDS, LENGTHS, ["a"] * 5, **more), rel=1e-6)


def test_verl_s_opo_does_not_divide_by_the_deviation() -> None:
    scale = float(np.std(REWARDS)) + 1e-6
    found = [scale * float(row[0]) for row in LengthWeighted()(group(REWARDS, LENGTHS))]
    assert found == pytest.approx(verl_advantages("opo", REWARDS, LENGTHS, ["a"] * 5), rel=1e-6)


@pytest.mark.parametrize(("name", "estimator"), [("reinforce_plus_plus", Returns()), ("reinforce_plus_plus_baseline", MeanOnly())])
def test_verl_s_reinforce_plus_plus_whitens_with_the_deviation_of_a_sample(name: str, estimator: Estimator) -> None:
    groups = [group(REWARDS[:3], LENGTHS[:3]), group(REWARDS[3:], LENGTHS[3:])]
    raw = [part for one in groups for part in estimator(one)]
    found = [float(part[0]) for part in whitened(raw, [np.ones(len(part), bool) for part in raw])]
    tokens = sum(LENGTHS)
    index = ["a"] * 3 + ["b"] * 2
    expected = verl_advantages(name, REWARDS, LENGTHS, index)
    assert [value * ((tokens - 1) / tokens) ** 0.5 for value in found] == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_verl_gives_an_attempt_without_others_its_reward_for_an_advantage() -> None:
    assert [verl_advantages(name, [1.0], [2], ["a"])[0] for name in ("grpo", "rloo", "rloo_vectorized")] == pytest.approx(
        [1, 1, 0], abs=1e-5
    )


# --- TRL -----------------------------------------------------------------------------------------


def trl_loss(of: Case, loss_type: str, factor: Tensor | None = None, **settings: Any) -> Callable[[Tensor], Tensor]:
    """The loss of its trainer, which is handed the log-probabilities that a model would have given."""
    trainer = pytest.importorskip("trl.trainer.grpo_trainer", exc_type=ImportError).GRPOTrainer
    defaults: dict[str, Any] = {
        "loss_type": loss_type,
        "importance_sampling_level": "token",
        "epsilon_low": 0.2,
        "epsilon_high": 0.28,
        "beta": 0.0,
        "use_vllm": factor is not None,
        "vllm_importance_sampling_correction": True,
        "max_completion_length": 9,
        "current_gradient_accumulation_steps": 1,
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "aux_loss_enabled": False,
        "_entropy_bonus_enabled": False,
        "_metrics": {"train": defaultdict(list)},
        "args": SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1),
        "model": SimpleNamespace(training=True),
        "accelerator": SimpleNamespace(num_processes=1, gather=_as_is, reduce=_as_is),
    }
    stub = SimpleNamespace(**{**defaults, **settings})
    inputs = {
        "prompt_ids": torch.zeros(6, 1, dtype=torch.int64),
        "prompt_mask": torch.ones(6, 1),
        "completion_ids": torch.zeros(6, 9, dtype=torch.int64),
        "completion_mask": torch.ones(6, 9),
        "tool_mask": of.mask.double(),
        "advantages": of.advantages,
        "old_per_token_logps": of.old,
        "ref_per_token_logps": of.reference,
        "num_items_in_batch": of.mask.sum(),
        "importance_sampling_ratio": factor,
    }

    def loss(logprobs: Tensor) -> Tensor:
        stub._get_per_token_logps_and_entropies = lambda *_, **__: (logprobs, torch.zeros(6, 9), None)
        return trainer._compute_loss(stub, None, inputs)  # type: ignore[no-any-return]

    return loss


def _as_is(value: Tensor, **_: object) -> Tensor:
    return value


@SEEDS
@pytest.mark.parametrize(
    ("loss_type", "objective", "aggregate", "settings"),
    [
        ("grpo", Clipped(0.2, 0.28), seq_mean_token_mean, {}),
        ("dapo", Clipped(0.2, 0.28), token_mean, {}),
        ("bnpo", Clipped(0.2, 0.28), token_mean, {}),
        ("dr_grpo", Clipped(0.2, 0.28), seq_mean_token_sum_norm(9), {}),
        ("grpo", Gspo(0.2, 0.28), seq_mean_token_mean, {"importance_sampling_level": "sequence"}),
        ("cispo", Cispo(4.0), token_mean, {"epsilon_high": 5.0}),
        ("cispo", Cispo(0.2), token_mean, {"epsilon_high": 1.2}),
        ("dapo", WithKlPenalty(Clipped(0.2, 0.28), 0.1, "k3", "reference"), token_mean, {"beta": 0.1}),
    ],
    ids=["grpo", "dapo", "bnpo", "dr_grpo", "gspo", "cispo", "cispo, narrow", "k3"],
)
def test_trl_s_losses(seed: int, loss_type: str, objective: Objective, aggregate: Aggregate, settings: dict[str, Any]) -> None:
    of = case(seed)
    agree(ours(objective, aggregate, of), theirs(trl_loss(of, loss_type, **settings), of))


@SEEDS
def test_trl_multiplies_by_weights_between_sampler_and_trainer_as_we_do(seed: int) -> None:
    of = case(seed)
    weights = factors(TruncateToken(1.5), of)
    agree(ours(Clipped(0.2, 0.28), token_mean, of, weights), theirs(trl_loss(of, "dapo", weights), of))


@SEEDS
def test_trl_s_rloo_clips_the_ratio_of_a_whole_attempt(seed: int) -> None:
    """So its loss is no row of ours; where no ratio has moved, its gradient is that of our `rloo` added up over an attempt."""
    of = case(seed)
    trainer = pytest.importorskip("trl.trainer.rloo_trainer", exc_type=ImportError).RLOOTrainer
    metrics: Any = {"train": defaultdict(list)}
    mask = of.mask.double()
    stub = SimpleNamespace(
        aux_loss_enabled=False, epsilon_low=0.2, epsilon_high=0.2, model=SimpleNamespace(training=True), _metrics=metrics
    )
    stub.accelerator = SimpleNamespace(gather=_as_is, reduce=_as_is)
    inputs = {
        "prompt_ids": torch.zeros(6, 1, dtype=torch.int64),
        "prompt_mask": torch.ones(6, 1),
        "completion_ids": torch.zeros(6, 9, dtype=torch.int64),
        "completion_mask": mask,
        "advantages": of.advantages,
        "old_logps": (of.old * mask).sum(1),
    }

    def loss(logprobs: Tensor) -> Tensor:
        stub._get_per_token_logps_and_entropies = lambda *_, **__: (logprobs, torch.zeros(6, 9), None)
        return trainer._compute_loss(stub, None, inputs)  # type: ignore[no-any-return]

    still = Case(of.old, of.old, of.sampled, of.reference, of.mask, of.advantages)
    assert torch.allclose(ours(Clipped(0.2, 0.2), seq_mean_token_sum, still)[1], theirs(loss, still)[1])
    assert not torch.allclose(ours(Clipped(0.2, 0.2), seq_mean_token_sum, of)[1], theirs(loss, of)[1])


# --- OpenRLHF ------------------------------------------------------------------------------------


def openrlhf(name: str) -> Any:
    """A module of its, without the packages around it: those import kernels for GPUs, which its formulas do not need."""
    found = importlib.util.find_spec("openrlhf")
    if found is None or not found.submodule_search_locations:
        pytest.skip("openrlhf is not installed")
    root = found.submodule_search_locations[0]
    for package in ("models", "trainer", "trainer/ppo_utils", "trainer/ray", "trainer/ray/launcher"):
        bare = ModuleType(f"openrlhf.{package.replace('/', '.')}")
        bare.__path__ = [f"{root}/{package}"]
        vars(bare)["__getattr__"] = lambda name: None if name[0] != "_" else getattr(object(), name)  # what is named there and not used
        sys.modules.setdefault(bare.__name__, bare)
    return pytest.importorskip(f"openrlhf.{name}", exc_type=ImportError)


@SEEDS
@pytest.mark.parametrize(
    ("objective", "aggregate", "settings"),
    [
        (Clipped(0.2, 0.28), token_mean, {}),
        (Clipped(0.2, 0.28), seq_mean_token_mean, {"token_level_loss": False}),
        (Clipped(0.2, 0.28, dual=3.0), token_mean, {"dual_clip": 3.0}),
        (Gspo(0.2, 0.28), seq_mean_token_mean, {"policy_loss_type": "gspo"}),
    ],
    ids=["dapo", "grpo", "dual clip", "gspo"],
)
def test_openrlhf_s_losses(seed: int, objective: Objective, aggregate: Aggregate, settings: dict[str, Any]) -> None:
    of = case(seed)
    loss = openrlhf("models.loss").PolicyLoss(clip_eps_low=0.2, clip_eps_high=0.28, **settings)
    mask, advantages = of.mask.double(), of.advantages[:, None].expand(6, 9)
    rtol = NEAR if aggregate is seq_mean_token_mean else 1e-12
    agree(ours(objective, aggregate, of), theirs(lambda logprobs: loss(logprobs, of.old, advantages, mask)[0], of), rtol)


@SEEDS
@pytest.mark.parametrize(
    ("correction", "settings"),
    [
        (Together((MaskToken(0.6, 1.8), TruncateToken(1.8))), {"is_correction_level": "token", "is_correction_mode": "mask"}),
        (Together((MaskGeometric(0.6, 1.8), TruncateToken(1e9))), {"is_correction_level": "seq", "is_correction_mode": "mask"}),
    ],
    ids=["IcePop", "geometric"],
)
def test_openrlhf_s_corrections(seed: int, correction: Correction, settings: dict[str, Any]) -> None:
    of = case(seed)
    loss = openrlhf("models.loss").PolicyLoss(0.2, 0.28, is_correction_threshold=(0.6, 1.8), **settings)
    mask, advantages = of.mask.double(), of.advantages[:, None].expand(6, 9)
    other = theirs(lambda logprobs: loss(logprobs, of.old, advantages, mask, of.sampled)[0], of)
    agree(ours(Clipped(0.2, 0.28), token_mean, of, factors(correction, of)), other, NEAR)


@SEEDS
@pytest.mark.parametrize(("name", "estimator"), [("k1", k1), ("k2", k2), ("k3", k3)])
def test_openrlhf_s_penalties(seed: int, name: str, estimator: Callable[[Tensor], Tensor]) -> None:
    """To float32, in which it computes them."""
    of, utils = case(seed), openrlhf("models.utils")
    agree(
        theirs(lambda logprobs: estimator(logprobs - of.reference).sum(), of),
        theirs(lambda logprobs: utils.compute_approx_kl(logprobs, of.reference, kl_estimator=name).sum(), of),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("name", "estimator", "whiten"),
    [
        ("group_norm", GroupNormalised("sample", delta=1e-9), False),
        ("dr_grpo", MeanOnly(), False),
        ("rloo", LeaveOneOut(), False),
        ("reinforce", Returns(), True),
        ("reinforce_baseline", MeanOnly(), True),
    ],
)
def test_openrlhf_s_advantages(name: str, estimator: Estimator, whiten: bool) -> None:
    maker = openrlhf("trainer.ppo_utils.experience_maker").RemoteExperienceMaker
    rewards, lengths = [1.0, 0.0, 0.0, 0.5, 1.0, 0.25], [3, 1, 4, 2, 5, 2]
    advantage = SimpleNamespace(estimator=name, gamma=1.0, lambd=1.0, no_std_norm=False)
    algorithm = SimpleNamespace(advantage=advantage)
    reward = SimpleNamespace(clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None)
    arguments = SimpleNamespace(algo=algorithm, rollout=SimpleNamespace(n_samples_per_prompt=3), reward=reward)
    stub = SimpleNamespace(strategy=SimpleNamespace(args=arguments), advantage_estimator=name, kl_ctl=SimpleNamespace(value=0.0))
    stub.get_cumulative_returns = lambda *given: maker.get_cumulative_returns(stub, *given)
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    batch = SimpleNamespace(index=list(range(6)), rewards=torch.tensor(rewards), action_mask=mask, kl=torch.zeros(6, 5), info={})
    (done,) = maker.compute_advantages_and_returns(stub, [batch])
    groups = [group(rewards[:3], lengths[:3]), group(rewards[3:], lengths[3:])]
    found = [part for one in groups for part in estimator(one)]
    if whiten:
        found = whitened(found, [np.ones(len(part), bool) for part in found])
    assert [float(part[0]) for part in found] == pytest.approx(done.advantages[:, 0].tolist(), rel=1e-5, abs=1e-6)
