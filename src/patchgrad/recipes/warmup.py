"""How a policy learns its first words."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import inf
from typing import Literal

from patchgrad.config import require, within


@dataclass(frozen=True, slots=True)
class DemonstratorOptions:
    """Probabilities of the demonstrator's choices, each taken anew at every turn where it arises."""

    reproduces: float = 0.0  # before it looks
    quotes: float = 0.0  # the line that it edits, with its number
    skill: float = 0.4
    slips: float = 0.08  # in the name of the file to open
    resigns: float = 0.7  # after the first look, without an edit
    tests: float = 1.0
    retries_when_red: float = 0.8
    persistent: float = 0.4  # of a whole episode that retries until it is green
    repeats: float = 0.08  # an edit that was refused
    stops_when_told: float = 0.7  # that a call was made before
    misquotes: float = 0.08
    malformed: float = 0.03
    test: str = "pytest"  # the command that tries an edit

    def __post_init__(self) -> None:
        within(0, 1, "warmup.demonstrator.", self, *(one.name for one in fields(self) if one.type == "float"))
        require(bool(self.test.strip()), "warmup.demonstrator.test is empty: name the command that runs the tests, as in pytest -q")


@dataclass(frozen=True, slots=True)
class Warmup:
    """Makes the base policy: a scripted policy's demonstrations, then one language-model pass over them.

    A network from scratch is always warmed up, a model of the user's where it says so: `pretrained`.

    A drill is an episode of a look and eleven edits, without tests; a look is the first turn alone, which opens the file that an issue of
    gibberish names. Both are cheap, and dense in what is hardest to learn: to copy without a mistake. All are made on the first `tasks` of
    a kind, so that most of them begin in a sandbox that another one has opened.

    `all` episodes are imitated, as a network from scratch has everything to learn; or those alone that were `solved`, and of these no edit
    that was taken back: it is context, from which the next one is learned.

    It ends once the policy solves a share `until` of the validation tasks by more than a standard error, which is measured after each of
    at most so many `passes`: the first over all episodes, later ones over a quarter of them at a third of the rate.
    """

    pretrained: bool = False
    imitates: Literal["all", "solved"] = "all"
    demonstrations: int = 1100
    edit_drills: int = 500
    first_turns: int = 2000
    tasks: int = 800
    epochs: int = 1
    until: float = 0.0
    passes: int = 1
    batch: int = 8
    lr: float = 3e-3
    observation_weight: float = 0.1
    turns: int = 16
    demonstrator: DemonstratorOptions = field(default_factory=DemonstratorOptions)

    def __post_init__(self) -> None:
        within(1, inf, "warmup.", self, "demonstrations", "tasks", "epochs", "passes", "batch", "turns")
        within(0, 1, "warmup.", self, "until")
        within(0, inf, "warmup.", self, "edit_drills", "first_turns", "observation_weight")
        require(
            self.imitates == "all" or not (self.edit_drills or self.first_turns),
            "warmup.imitates is solved, and drills and looks are not graded: set warmup.edit_drills and warmup.first_turns to 0",
        )
        require(self.lr > 0, f"warmup.lr is {self.lr}; a learning rate must be above 0")
