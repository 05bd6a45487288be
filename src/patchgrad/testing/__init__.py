"""What every implementation of a contract must hold, a function each; builders of small tasks, a double of the sandbox, a scripted server.

    check_sandbox(backend, task)      check_policy(make)           check_trainer(make, vocabulary, folder)
    check_executor(make)              check_curriculum(make)
    a_task("shop", "x is wrong", a_repository(folder, {"shop.py": "x = 1"}))

Each check raises `AssertionError` with a sentence for the first rule that is broken. None needs more than its implementation does.
"""

from __future__ import annotations

from patchgrad.testing.curriculum import check_curriculum
from patchgrad.testing.endpoint import ScriptedEndpoint
from patchgrad.testing.executor import check_executor
from patchgrad.testing.policy import check_policy
from patchgrad.testing.sandbox import check_sandbox
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.testing.trainer import check_trainer

__all__ = [
    "LocalSandboxes",
    "ScriptedEndpoint",
    "a_repository",
    "a_task",
    "check_curriculum",
    "check_executor",
    "check_policy",
    "check_sandbox",
    "check_trainer",
]
