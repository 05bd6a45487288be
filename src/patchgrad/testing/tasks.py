"""Builders of small tasks: a repository of a few files in a folder, and a task around it, or one with nothing behind it.

shop = a_task("shop", "x is wrong", a_repository(tmp_path, {"shop.py": "x = 1\\n"}), fail_to_pass=("test_shop.py::test_x",))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchgrad.tasks.archive import pack, store
from patchgrad.values import Checks, Repository, Task

NOWHERE = Repository("archive", "", "")


def a_repository(folder: Path, files: Mapping[str, str | bytes]) -> Repository:
    """These files as an archive in `folder`, named by its content."""
    return store(folder, pack({name: text.encode() if isinstance(text, str) else text for name, text in files.items()}))


def a_task(
    id: str = "t",
    instruction: str = "",
    repository: Repository = NOWHERE,
    checks: Checks | None = None,
    *,
    fail_to_pass: tuple[str, ...] = (),
    pass_to_pass: tuple[str, ...] = (),
    **fields: Any,
) -> Task:
    """A task with what is told of it; its checks whole or as the names of tests, and `limits`, `tags` and the rest as `Task` takes them."""
    return Task(id, instruction, repository, checks or Checks(fail_to_pass, pass_to_pass), **fields)
