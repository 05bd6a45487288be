"""A task's archive as bytes, if it is what the task says."""

from __future__ import annotations

import hashlib
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.values import Task


def archive(task: Task) -> bytes:
    """The content of the file; `TaskError` where it cannot be read or has another SHA-256."""
    repository = task.repository
    try:
        content = Path(repository.location).read_bytes()
    except OSError as error:
        raise TaskError(f"task {task.id!r}: the archive {repository.location} cannot be read: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != repository.digest:
        raise TaskError(f"task {task.id!r}: the archive {repository.location} has SHA-256 {found}, not {repository.digest}")
    return content
