"""Who failed, where a sandbox broke: what happens again and again under an attempt, and not without it, is what the attempt does.

    the attempt breaks it, three times  ->  does a sandbox work in which nobody did anything?  ->  no: infrastructure broke
                                                                                               ->  yes: the attempt once more
    and it breaks again                 ->  the agent failed

A machine that fails by chance fails the bystander too, or not this attempt four times in a row. So no policy takes its failures out of
the count by breaking what it runs in.
"""

from __future__ import annotations

from patchgrad.errors import SandboxFault, SandboxLost, TaskError
from patchgrad.rollouts.deadline import within
from patchgrad.rollouts.harness import Workbench
from patchgrad.values import Task, Verdict, digest

REOPENED = 2  # times that an attempt goes on, or is judged again, after its sandbox or its policy broke
_HARMLESS = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+\n".format(".patchgrad-bystander")


async def works(bench: Workbench, task: Task) -> bool:
    """Does a sandbox of the task work in which no agent did anything?"""
    try:
        async with await bench.sandboxes.open(task) as fresh, within(task.limits.command_seconds, "a command in a fresh sandbox"):
            ended = await fresh.run("true")
            await fresh.snapshot()
    except (SandboxFault, SandboxLost):
        return False
    return ended.state == "ok"


async def judged(bench: Workbench, task: Task, submission: str) -> Verdict:
    """What the grader finds of a submission; a sandbox that breaks while it judges is no judgement, and another one is asked.

    Where it breaks each time, and under a change that does nothing it does not, the submission breaks it: the verdict then has that as
    evidence of tampering, and no fault.
    """
    verdict = await _tried(bench, task, submission, 1 + REOPENED)
    if verdict.fault is None or not submission.strip() or not await _judges(bench, task):
        return verdict
    verdict = await _tried(bench, task, submission, 1)
    if verdict.fault is None:
        return verdict
    told = f"broke the grader's sandbox {2 + REOPENED} times, and a harmless change did not: {verdict.fault}"
    return await _unpaid(bench, task, submission, told)


async def _judges(bench: Workbench, task: Task) -> bool:
    try:
        return (await _tried(bench, task, _HARMLESS, 1)).fault is None
    except TaskError:
        return False


async def _tried(bench: Workbench, task: Task, submission: str, times: int) -> Verdict:
    for number in range(times):
        try:
            verdict = await bench.grade(task, submission)
        except SandboxLost as lost:
            return await _unpaid(bench, task, submission, str(lost))
        if verdict.fault is None or number == times - 1:
            break
    return verdict


async def _unpaid(bench: Workbench, task: Task, submission: str, evidence: str) -> Verdict:
    """The verdict on what cannot be judged by its own doing: no test has run."""
    nothing = await bench.grade(task, "")
    return Verdict(task.id, digest(submission), (), nothing.tests, (evidence,))
