"""Attempts as a run has recorded them, in place of assumed ones: tokens of prompts, actions and observations, seconds of tools."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from patchgrad.errors import ConfigError
from patchgrad.runs.planning.cluster.world import Script, Taken
from patchgrad.store import Run
from patchgrad.values import Rollout


@dataclass(frozen=True, slots=True)
class Recorded:
    """One of the attempts of a run by chance, and the share of them that was trained."""

    scripts: tuple[Script, ...]
    taught: float

    def __call__(self, random: Random) -> Script:
        return random.choice(self.scripts)


def recorded(run: Run) -> Recorded:
    """The attempts of a run's last stage of RL. Raises `ConfigError` where it has none."""
    rows = [row for row in run.results.metrics() if str(row["phase"]).startswith("stage")]
    if not rows:
        raise ConfigError(f"{run.folder} has no iteration of RL yet, so nothing tells what its attempts are like.")
    phase = rows[-1]["phase"]
    scripts = [script_of(one) for one in run.rollouts.read(phase) if one.trajectory.turns and not one.broken]
    if not scripts:
        raise ConfigError(f"No attempt of {phase} in {run.folder} is whole.")
    contrast = [row["contrast"] for row in rows if row["phase"] == phase and row.get("contrast") is not None]
    return Recorded(tuple(scripts), sum(contrast) / len(contrast) if contrast else 1.0)


def script_of(rollout: Rollout) -> Script:
    """What an attempt took; what a turn's context adds was observed in the turn before."""
    turns = rollout.trajectory.turns
    observed = [len(turn.context) for turn in turns[1:]] + [0]
    taken = [Taken(len(turn.action.token_ids), seen, turn.observation.seconds) for turn, seen in zip(turns, observed, strict=True)]
    return Script(len(turns[0].context), tuple(taken), rollout.verdict.seconds)
