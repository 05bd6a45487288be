"""What every implementation of a contract must hold, a function each; a double of the sandbox, and a server that says given texts.

    check_sandbox(backend, task)      check_policy(make)           check_trainer(make, vocabulary, folder)
    check_executor(make)              check_curriculum(make)       check_staged_curriculum(make)
    check_task_source(source)

Each raises `AssertionError` with a sentence for the first rule that is broken. None needs more than its implementation does.
"""

from __future__ import annotations

from patchgrad.testing.curriculum import check_curriculum
from patchgrad.testing.endpoint import ScriptedEndpoint
from patchgrad.testing.executor import check_executor
from patchgrad.testing.policy import check_policy
from patchgrad.testing.sandbox import check_sandbox
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.staged_curriculum import check_staged_curriculum
from patchgrad.testing.task_source import check_task_source
from patchgrad.testing.trainer import check_trainer

__all__ = [
    "LocalSandboxes",
    "ScriptedEndpoint",
    "check_curriculum",
    "check_executor",
    "check_policy",
    "check_sandbox",
    "check_staged_curriculum",
    "check_task_source",
    "check_trainer",
]
