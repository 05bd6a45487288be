"""How large a patch is, for rewards that prefer small ones."""

from __future__ import annotations

import time

from patchgrad.values import Judgement, Task, Trajectory, Verdict


class PatchSize:
    """Lines that a submission adds and removes, and files that it touches; the score is the number of lines.

    A patch that replaces one line of one file is `Judgement("patch-size", 2.0, {"added": 1.0, "removed": 1.0, "files": 1.0})`.
    """

    async def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict) -> Judgement:
        began, lines = time.monotonic(), trajectory.submission.splitlines()
        files = [line for line in lines if line.startswith("diff --git ")]
        added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
        removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
        parts = {"added": float(added), "removed": float(removed), "files": float(len(files))}
        return Judgement("patch-size", float(added + removed), parts, time.monotonic() - began)
