"""What every implementation of a contract must hold, a function each; builders of small tasks, a double of the sandbox, a scripted server.

    check_sandbox(backend, task)               check_tool(tool, backend, task, calls)   check_agent(agent)
    check_tokenizer(make, folder)              check_policy(make)                       check_trainable_policy(make, weights)
    check_trainer(make, vocabulary, folder)    check_weight_channel(make)               check_objective(objective)
    check_judge(judge)                         check_reward(reward)                     check_scorer(scorer, task, trajectories)
    check_estimator(estimator)                 check_curriculum(make)                   check_executor(make)
    check_journal(make)                        check_tracker(make)                      check_task_source(source)
    check_staged_curriculum(make)              check_program(program, calls, odd)          check_attempt_access(access, messages)

Each raises `AssertionError` with a sentence for the first rule that is broken. None needs more than its implementation does. Those of what
is asynchronous are coroutines: `asyncio.run(check_journal(MemoryJournal))`. `make` gives a fresh one each time, equal to the last.

    a_task("shop", "x is wrong", a_repository(folder, {"shop.py": "x = 1"}))
"""

from __future__ import annotations

from patchgrad.testing.agent import check_agent
from patchgrad.testing.attempt_access import check_attempt_access
from patchgrad.testing.curriculum import check_curriculum
from patchgrad.testing.endpoint import ScriptedEndpoint
from patchgrad.testing.estimator import check_estimator
from patchgrad.testing.executor import check_executor
from patchgrad.testing.journal import check_journal
from patchgrad.testing.judge import check_judge
from patchgrad.testing.objective import check_objective
from patchgrad.testing.policy import check_policy
from patchgrad.testing.program import check_program
from patchgrad.testing.reward import check_reward
from patchgrad.testing.sandbox import check_sandbox
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.scorer import check_scorer
from patchgrad.testing.staged_curriculum import check_staged_curriculum
from patchgrad.testing.task_source import check_task_source
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.testing.tokenizer import check_tokenizer
from patchgrad.testing.tool import check_tool
from patchgrad.testing.tracker import check_tracker
from patchgrad.testing.trainable_policy import check_trainable_policy
from patchgrad.testing.trainer import check_trainer
from patchgrad.testing.weight_channel import check_weight_channel

__all__ = [
    "LocalSandboxes",
    "ScriptedEndpoint",
    "a_repository",
    "a_task",
    "check_agent",
    "check_attempt_access",
    "check_curriculum",
    "check_estimator",
    "check_executor",
    "check_journal",
    "check_judge",
    "check_objective",
    "check_policy",
    "check_program",
    "check_reward",
    "check_sandbox",
    "check_scorer",
    "check_staged_curriculum",
    "check_task_source",
    "check_tokenizer",
    "check_tool",
    "check_tracker",
    "check_trainable_policy",
    "check_trainer",
    "check_weight_channel",
]
