"""The tables of a run as `patchgrad query` shows them, with what each column is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """What a row is, and its columns by name. Where a name ends in `*` it stands for all columns that begin so."""

    about: str
    columns: Mapping[str, str]

    def meaning(self, column: str) -> str:
        """What a column is; nothing where nobody said.

        >>> Table("", {"seconds_*": "on the clock"}).meaning("seconds_wall")
        'on the clock'
        """
        if column in self.columns:
            return self.columns[column]
        return next((about for name, about in self.columns.items() if name.endswith("*") and column.startswith(name[:-1])), "")


_WHERE = {
    "run": "name of the run's folder",
    "phase": "demonstrations, rft, stage1, stage2, and evaluate-1 for the base policy",
    "iteration": "within the phase, from 0",
    "task": "id of the task",
    "attempt": "PHASE/ITERATION/POSITION/NUMBER; a fork after turn T has +T.K behind it",
}

ATTEMPTS = Table(
    "one row an attempt",
    {
        **_WHERE,
        "policy_version": "version of the weights at the last action; null without a turn",
        "solved": "submitted, and every hidden test holds",
        "reward": "the number that is learned from",
        "stop": "how it ended: submitted, turn limit, context limit, time limit, format errors, abstained, sandbox lost, failed",
        "fault": "what broke in grading, or null; such an attempt has no verdict",
        "turns": "number of turns",
        "malformed": "turns that named no valid call",
        "context_tokens": "tokens that were read",
        "action_tokens": "tokens that were sampled",
        "seconds": "from the first prompt to the end, waiting included",
        "instruction": "the text of the issue",
        "submission": "the patch, empty if nothing changed",
        "trajectory": "JSON: addresses of its turns, how many it replayed, and of which attempt",
        "verdict": "JSON: each test before and after, stages reached, tamper evidence",
        "reward_parts": "JSON: the parts of the reward by name",
        "judgements": "JSON: what judges found",
    },
)
TURNS = Table(
    "one row a turn",
    {
        **_WHERE,
        "turn": "number of the turn, from 1",
        "text": "what the policy said",
        "tool": "the tool that was called, null where the text named none",
        "arguments": "what it was called with",
        "malformed": "why the text named no call",
        "observation": "the answer",
        "exit_code": "of the command",
        "failure": "how the call failed, such as timeout or bad arguments; infrastructure where it was not the agent",
        "directory": "the agent's directory after the turn",
        "tokens": "number of sampled tokens",
        "logprob": "mean of their log-probabilities, nats",
        "version": "of the weights that sampled it",
        "seconds": "duration of the call",
    },
)
METRICS = Table(
    "one row an iteration",
    {
        "run": _WHERE["run"],
        "phase": "rft, stage1, stage2",
        "iteration": _WHERE["iteration"],
        "pass_at_1": "share of attempts that solved, as a mean over tasks",
        "pass_at_1_se": "its standard error over tasks",
        "pass_at_k": "share of tasks of which one of k attempts solved",
        "pass_at_k_se": "its standard error over tasks",
        "k": "attempts at a task",
        "submitted": "share of attempts that submitted",
        "submitted_se": "its standard error over tasks",
        "turns": "turns of an attempt, mean",
        "turns_se": "its standard error over tasks",
        "contrast": "share of groups with both outcomes",
        "limited": "share of attempts that ended at a limit",
        "looping": "share of attempts with a call that was made before in the same state",
        "failures_*": "share of attempts with this kind of failure",
        "broken": "share of attempts that infrastructure broke",
        "broken_by_*": "standard errors by which one kind of call, or these weights, broke more often",
        "forked": "share of attempts that began in another one",
        "reward": "mean reward",
        "episodes": "attempts that were not broken",
        "sampled": "tokens that were sampled",
        "read": "tokens that were read for it",
        "updates": "optimiser steps",
        "tokens": "tokens that the updates ran over",
        "trained": "tokens that were trained",
        "staleness*": "publications ago that tokens were drawn, mean and most",
        "replay*": "groups of earlier iterations: trained again, too far, left by age, kept",
        "spot*": "what attempts tell that were read again: actions, difference, test of sampling, the worst turn",
        "seconds_wall": "seconds on the clock",
        "seconds_learning": "seconds on the clock after the attempts",
        "seconds_besides": "seconds on the clock for probe, rows and tables",
        "seconds_*": "seconds of cores: sampling, tools, tests, training, idle",
        "cores_busy": "share of the cores that was busy",
        "loss": "of the objective",
        "entropy": "of the policy, nats a token",
        "grad_norm": "norm of the gradient before clipping",
        "clip_*": "share of tokens that this bound clips",
        "truncated": "share of tokens that the correction truncates",
        "masked": "share of tokens that the correction leaves out",
        "kl_penalty": "the penalty",
        "logprob_diff": "mean absolute difference of log-probabilities between policy and sampler",
        "ratio*": "policy / old: mean and largest",
        "ess": "effective sample size of the ratios, as a share of the tokens",
        "kl*": "two estimators of the divergence of the policy from the old one",
        "sampler_*": "the same of old / sampler",
        "sampling_z": "standard errors by which drawn tokens are likelier than draws from the softmax",
        "probe_*": "what the probe before the iteration found",
        "held_out_*": "what an evaluation on held-out tasks found in between",
        "objective_*": "what an objective of the user's measures",
    },
)
TRAINED = Table(
    "one row a turn that an optimiser step trained; lists have an entry a sampled token, null where it was not trained",
    {
        "run": _WHERE["run"],
        "phase": "rft, stage1, stage2",
        "iteration": "the iteration that trained it",
        "attempt": _WHERE["attempt"],
        "turn": "number of the turn, from 1",
        "update": "number of the step within the iteration, from 0",
        "version": "of the weights that the step made",
        "advantages": "what the cost of each token was multiplied with",
        "weights": "how much more than in a mean over the step's trained tokens each cost counted",
        "old": "log-probabilities that ratios were taken to, nats",
        "logprobs": "log-probabilities under the weights before the step, nats",
        "entropies": "entropies there, nats",
    },
)
POLICIES = Table(
    "one row a policy of the table",
    {
        "run": _WHERE["run"],
        "policy": "base, + RFT, + stage 1 RL",
        "tasks": "held-out tasks",
        "attempts": "attempts at each",
        "pass_at_1": "share of attempts that solved, as a mean over tasks",
        "pass_at_1_se": "its standard error over tasks",
        "pass_at_k": "share of tasks of which one attempt solved",
        "submitted": "share of attempts that submitted",
        "turns": "turns of an attempt, mean",
        "action_tokens": "tokens that an attempt sampled, mean",
        "seconds": "seconds on the clock, of all attempts",
    },
)
OUTCOMES = Table(
    "one row an attempt of an evaluation, for paired comparisons",
    {
        "run": _WHERE["run"],
        "policy": POLICIES.columns["policy"],
        "task": _WHERE["task"],
        "number": "of the attempt at its task, from 1: the same number has the same seed for each policy",
        "solved": ATTEMPTS.columns["solved"],
    },
)
TABLES = {"attempts": ATTEMPTS, "turns": TURNS, "trained": TRAINED, "metrics": METRICS, "policies": POLICIES, "outcomes": OUTCOMES}
