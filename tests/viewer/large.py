"""Folders that are as large as they get: a hundred thousand attempts, and an attempt that fills a context of 131,072 tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.viewer.synthetic import RECIPE, episode

from patchgrad.store import Run
from patchgrad.values import Observation, Rollout, Segment, Turn, floats, ids

TABLE = 1000
"""Attempts of a table: of an iteration."""


def many(folder: Path, count: int) -> Run:
    """A run of so many attempts in tables of a thousand; all have the turns of the first one's."""
    import pyarrow
    import pyarrow.parquet

    with Run.create(folder, RECIPE) as run:
        run.rollouts.write("stage1", 0, [episode(f"stage1/0/{place}/0", place % 3 == 0, turns=1 + place % 6) for place in range(TABLE)])
        first = run.rollouts.files()[0]
        table = pyarrow.parquet.read_table(first)
        for number in range(1, count // TABLE):
            names = pyarrow.array([f"stage1/{number}/{place}/0" for place in range(TABLE)])
            other = table.set_column(table.column_names.index("attempt"), "attempt", names)
            other = other.set_column(table.column_names.index("iteration"), "iteration", pyarrow.array([number] * TABLE, pyarrow.int64()))
            pyarrow.parquet.write_table(other, first.with_name(f"stage1-{number:05d}.parquet"), compression="zstd")
    return run


def long(name: str, tokens: int = 131_072, turns: int = 64, observation: int = 10_000_000, line: int = 4_000_000) -> Rollout:
    """An attempt of so many sampled tokens; its second turn was answered with so many letters, the first of whose lines is so long."""
    plain = episode(name, True)
    rng, each, parent, made = np.random.default_rng(0), tokens // turns, name, list[Turn]()
    answer = "x" * line + "\n" + "a line of sixty letters, of which there are very many of these\n" * ((observation - line) // 63)
    for number in range(turns):
        turn = plain.trajectory.turns[number % len(plain.trajectory.turns)]
        drawn = ids(rng.integers(0, 500, each))
        action = replace(turn.action, token_ids=drawn, logprobs=floats(-rng.exponential(0.5, each)), text="word " * each)
        seen = Observation(answer if number == 1 else "It was done.", turn.observation.tool_state, 0)
        made.append(replace(turn, action=action, observation=seen, parent=parent))
        parent = made[-1].address
    return replace(plain, trajectory=replace(plain.trajectory, segments=(Segment(tuple(made)),)))
