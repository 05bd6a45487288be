"""Running a project's tests while tasks are made: many times, on changed trees, each run in a process of its own."""

from __future__ import annotations

from patchgrad.tasks.running.runner import Asked, Failure, LocalRunner, Run, Runner

__all__ = ["Asked", "Failure", "LocalRunner", "Run", "Runner"]
