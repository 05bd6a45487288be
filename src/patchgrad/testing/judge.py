"""What every judge must hold, as one function that its author runs."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import asdict

from patchgrad.contracts import Judge
from patchgrad.testing.examples import TASK, example_attempts
from patchgrad.values import Ending, Judgement, Trajectory, Verdict


async def check_judge(judge: Judge, attempts: Sequence[tuple[Trajectory, Verdict]] = ()) -> None:
    """Raises `AssertionError` for the first rule that a judge breaks; it is asked of examples of every kind, or of these `attempts`.

    A judgement has the judge's one name, a finite score, finite parts by name, and the seconds that it took; it can be stored and sent;
    several are asked for at a time, and asking changes no attempt.
    """
    given = list(attempts) or [(one.trajectory, one.verdict) for one in example_attempts()]
    before = [_told(trajectory, verdict) for trajectory, verdict in given]
    found = await asyncio.gather(*(judge(TASK, trajectory, verdict) for trajectory, verdict in given))
    assert [_told(trajectory, verdict) for trajectory, verdict in given] == before, "a judge changes no attempt"
    for one in found:
        assert isinstance(one, Judgement), f"a judge gives a judgement, not {one!r}"
        assert one.judge, "a judgement names its judge"
        assert math.isfinite(one.score), "the score of a judgement is finite"
        assert all(name and math.isfinite(part) for name, part in one.parts.items()), "parts of a judgement have names and are finite"
        assert 0 <= one.seconds < math.inf, "a judgement says how many seconds it took"
        assert json.loads(json.dumps(asdict(one))) == asdict(one), "a judgement can be stored as JSON and read back"
        assert pickle.loads(pickle.dumps(one)) == one, "a judgement can be sent to another process"
        ending = Ending("root", "submitted", "", given[0][1], 1.0, (one,))
        assert ending.address == Ending("root", "submitted", "", given[0][1], 2.0, (one,)).address, "an attempt can end with it"
    assert len({one.judge for one in found}) == 1, "all judgements of a judge have one name"


def _told(trajectory: Trajectory, verdict: Verdict) -> str:
    return repr((trajectory, verdict))
