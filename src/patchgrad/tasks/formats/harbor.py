"""Folders of Harbor tasks, read and written.

The layout, from https://www.harborframework.com/docs/tasks and the models of its 1.1 schema: `task.toml`, `instruction.md`, `environment/`
(a Dockerfile and what it copies), `tests/test.sh`, which writes a number to `/logs/verifier/reward.txt`, and `solution/solve.sh`. The
agent is given `instruction.md` and the container; `tests/` is put in at `/tests` when it has finished, nothing else ever is.

A folder made by others keeps every file: tests as hidden files, the rest as tags `file.PATH`. One made here has `patchgrad.json` at
its top, where no container sees it, with all that Harbor has no place for, and comes back as the same task.
"""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from patchgrad.errors import Refuse, TaskError, one_of_many, stop
from patchgrad.tasks.evaluation_sets import is_evaluation
from patchgrad.tasks.formats import fields, harbor_running
from patchgrad.tasks.formats.files import beneath
from patchgrad.tasks.formats.harbor_files import generated
from patchgrad.tasks.sets import Member
from patchgrad.values import Checks, Repository, Task

ARCHIVE = "environment/repository.tar"
PARSER = "harbor"
REWARD = "reward"
_OWN = "patchgrad.json"
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class HarborTask:
    """The files of a task's folder by path, without the archive of its repository, which lies at `archive`; `runnable` are executable."""

    name: str
    files: Mapping[str, bytes]
    archive: Path | None = None
    runnable: frozenset[str] = frozenset()


def is_harbor(folder: Path) -> bool:
    """Is this the folder of a Harbor task, or a folder of such folders?"""
    return folder.is_dir() and (_is_task(folder) or any(_is_task(path) for path in folder.iterdir()))


def load(folder: Path, refuse: Refuse = stop) -> list[HarborTask]:
    """The tasks in a folder, or the one that it is, by name; one with links, or of more than 64 MiB, goes to `refuse`."""
    found = []
    for path in [folder] if _is_task(folder) else sorted(folder.iterdir()):
        with one_of_many(refuse):
            if _is_task(path):
                found.append(_load(path))
    return found


def to_member(task: HarborTask, split: str = "") -> Member:
    """The task that a folder describes; every file of it is kept. `TaskError`, with the folder's name, where it is none."""
    files = {path: content for path, content in task.files.items() if path != _OWN}
    own = _own(task)
    if not own:
        return _plainly(task, files, split)
    if own.keys() >= fields.of(_EMPTY).keys() - {"instruction"}:
        member = fields.made({**own, "instruction": _text(task, "instruction.md")}, task.name)
    else:
        told = {name: json.dumps(value) for name, value in own.items()}
        member = fields.changed(_plainly(task, files, split), told, task.name)
    if member.task.repository.kind == "archive" and task.archive is None:
        raise TaskError(f"{task.name}: {ARCHIVE} is missing: export the task again.")
    made = to_folder(member).files
    added = {path: content for path, content in files.items() if made.get(path) != content}
    return fields.with_tags(member, **_kept(added)) if added else member


def to_folder(member: Member) -> HarborTask:
    """The folder of a task: that which was imported, or one that Harbor can build and judge.

    `TaskError` for a task that is judged by a reader of logs, which no folder can hold.
    """
    tags = member.task.tags
    kept = {path: content for path, content in map(_from_tag, tags.items()) if path}
    runnable = frozenset(json.loads(tags.get("harbor.runnable", "[]")))
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", member.task.id).strip(".-") or "task"
    if "harbor.folder" in tags:
        shown = harbor_running.HIDDEN
        hidden = {f.path.removeprefix(shown): f.content.encode() for f in member.task.checks.files if f.path.startswith(shown)}
        files = {"instruction.md": member.task.instruction.encode(), **hidden, **kept}
        name = tags["harbor.folder"]
        task = HarborTask(name, files, runnable=runnable)
        said, found = fields.of(member), fields.of(_plainly(task, files, ""))
        own = {field: value for field, value in said.items() if not fields.same(found[field], value)}
    else:
        files = generated(member) | kept
        own = {field: value for field, value in fields.of(member).items() if field != "instruction"}
        own["tags"] = {tag: value for tag, value in own["tags"].items() if not _is_file(tag)}
        runnable |= {"tests/test.sh", "solution/solve.sh"}
    for path in (name, *files):
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or (path == name and path != Path(path).name):
            raise TaskError(f"Task {member.task.id} has a file {path!r} outside of its folder: it is refused.")
    if own:
        files[_OWN] = (json.dumps(own, indent=1, sort_keys=True) + "\n").encode()
    archive = Path(member.task.repository.location) if member.task.repository.kind == "archive" else None
    return HarborTask(name, files, archive, runnable)


_EMPTY = Member(Task("", "", Repository("image", "", ""), Checks((), ())), {}, "")


def _is_task(folder: Path) -> bool:
    return (folder / "task.toml").is_file() and (folder / "instruction.md").is_file()


def _load(folder: Path) -> HarborTask:
    files: dict[str, bytes] = {}
    runnable = set()
    size = 0
    own = (folder / _OWN).is_file()
    for path in beneath(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise TaskError(f"{folder}: {name} is a link: put the file itself there.")
        if not path.is_file() or (own and name == ARCHIVE):
            continue
        size += path.stat().st_size
        if size > _LARGEST:
            raise TaskError(f"{folder} holds more than {_LARGEST >> 20} MiB: put what is large into its image.")
        files[name] = path.read_bytes()
        if path.stat().st_mode & 0o100:
            runnable.add(name)
    archive = folder / ARCHIVE if own and (folder / ARCHIVE).is_file() else None
    return HarborTask(folder.resolve().name, files, archive, frozenset(runnable))


def _plainly(task: HarborTask, files: Mapping[str, bytes], split: str) -> Member:
    """A folder as Harbor sees it: one hidden test, which is the reward, judged by `tests/test.sh`."""
    try:
        config = tomllib.loads(_text(task, "task.toml"))
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{task.name}: task.toml is not valid TOML ({error}).") from error
    if "tests/test.sh" not in files:
        raise TaskError(f"{task.name}: there is no tests/test.sh, which says whether the task is solved.")
    environment, about = _table(task, config, "environment"), _table(task, config, "task")
    name = str(about.get("name") or task.name)
    location, _, digest = str(environment.get("docker_image") or name).partition("@")
    for table in ("verifier", "agent"):
        _table(task, config, table)
    tests = harbor_running.hidden(files)
    checks = Checks((REWARD,), (), files=tests, command=harbor_running.command(name, config), parser=PARSER)
    shown = {"instruction.md", *(test.path.removeprefix(harbor_running.HIDDEN) for test in tests)}
    reason = harbor_running.hindrance(name, config, files)
    evaluation = is_evaluation(name) or is_evaluation(task.name)
    tags = {
        "source": "harbor",
        "level": "report",
        "split": "evaluation" if evaluation else split or "train",
        "harbor.folder": task.name,
        **({} if environment.get("docker_image") else {"harbor.built": "environment/Dockerfile"}),
        **({"harbor.hindrance": reason} if reason else {}),
        **({"harbor.runnable": json.dumps(sorted(task.runnable))} if task.runnable else {}),
        **_kept({path: content for path, content in files.items() if path not in shown}),
    }
    patches = [text for path in sorted(files) if re.fullmatch(r"solution/[^/]*\.(patch|diff)", path) and (text := _utf8(files[path]))]
    instruction = _text(task, "instruction.md")
    repository, setup = Repository("image", location, digest), harbor_running.setup(name, config, files)
    made = Task(name, instruction, repository, checks, setup=setup, limits=harbor_running.limits(name, config), tags=tags)
    return Member(made, {"report": instruction}, patches[0] if len(patches) == 1 else "")


def _own(task: HarborTask) -> dict[str, Any]:
    if _OWN not in task.files:
        return {}
    try:
        own = json.loads(task.files[_OWN])
    except ValueError as error:
        raise TaskError(f"{task.name}: {_OWN} is broken ({error}): export the task again.") from error
    if not isinstance(own, dict):
        raise TaskError(f"{task.name}: {_OWN} holds no fields of a task: export the task again.")
    return own


def _table(task: HarborTask, config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = config.get(name, {})
    if not isinstance(table, dict):
        raise TaskError(f"{task.name}: {name} in task.toml is no table.")
    return table


def _text(task: HarborTask, path: str) -> str:
    text = _utf8(task.files.get(path, b"\xff"))
    if text is None:
        raise TaskError(f"{task.name}: {path} is missing, or is no text in UTF-8.")
    return text


def _utf8(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _kept(files: Mapping[str, bytes]) -> dict[str, str]:
    told = {}
    for path, content in files.items():
        text = _utf8(content)
        told[f"file.{path}" if text is not None else f"file64.{path}"] = base64.b64encode(content).decode() if text is None else text
    return told


def _is_file(tag: str) -> bool:
    return tag.startswith(("file.", "file64."))


def _from_tag(tag: tuple[str, str]) -> tuple[str, bytes]:
    kind, _, path = tag[0].partition(".")
    content = tag[1].encode(errors="surrogateescape") if kind == "file" else b""
    return (path if _is_file(tag[0]) else "", base64.b64decode(tag[1]) if kind == "file64" else content)
