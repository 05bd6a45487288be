"""The files of a Harbor task made from one of ours: its container, its verifier, its solution."""

from __future__ import annotations

import json
import re
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.packages.sites import merged
from patchgrad.tasks.formats.swebench import named
from patchgrad.tasks.sets import Member
from patchgrad.values import Task

PYTHON = "python:3.11-slim"
_VERIFIER = Path(__file__).with_name("harbor_verifier.py")
_COMMIT = "git -c user.name=patchgrad -c user.email=patchgrad@localhost commit -qm start --allow-empty"

_TEST = """#!/bin/bash
# Runs the hidden tests and writes the reward: 1 if all of them hold, else 0.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
reward="${1:-/logs/verifier/reward.txt}"
mkdir -p "$(dirname "$reward")"
echo 0 > "$reward"
[ -f /opt/miniconda3/bin/activate ] && source /opt/miniconda3/bin/activate testbed
python "$here/patchgrad_verify.py" "${2:-/testbed}" "$reward"
"""
_SOLVE = """#!/bin/bash
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "${1:-/testbed}" && git apply --whitespace=nowarn "$here/solution.patch"
"""


def generated(member: Member) -> dict[str, bytes]:
    """Every file but the archive: `{"task.toml": ..., "instruction.md": ..., "environment/Dockerfile": ..., "tests/test.sh": ..., ...}`."""
    task, checks = member.task, member.task.checks
    if checks.parser != "report" or checks.command[:1] != ("pytest",):
        raise TaskError(
            f"Task {task.id} is judged by the log reader {checks.parser!r}, which Harbor has not: export it as rows, --format swebench."
        )
    judged = {
        "fail_to_pass": checks.fail_to_pass,
        "pass_to_pass": checks.pass_to_pass,
        "files": {file.path: file.content for file in checks.files},
        "protected": checks.protected,
        "patch": checks.patch,
        "strict": checks.strict,
        "arguments": checks.command[1:],
        "seconds": task.limits.test_seconds,
    }
    files = {
        "task.toml": _config(task),
        "instruction.md": task.instruction,
        "environment/Dockerfile": _dockerfile(task),
        "tests/test.sh": _TEST,
        "tests/patchgrad_verify.py": _VERIFIER.read_text(),
        "tests/checks.json": json.dumps(judged, indent=1, ensure_ascii=False) + "\n",
        "solution/solve.sh": _SOLVE,
        "solution/solution.patch": member.repair,
    }
    if task.repository.patch:
        files["environment/repository.patch"] = task.repository.patch
    return {path: text.encode() for path, text in files.items()}


def _config(task: Task) -> str:
    """`task.toml` in schema 1.1."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", task.id).strip("-_") or "task"
    keywords = [word for word in (task.tags.get("package"), task.tags.get("kind")) if word]
    title = task.instruction.strip().partition("\n")[0][:200]
    about = {name: task.tags[name] for name in ("source", "package", "version", "licence") if name in task.tags}
    return "\n".join(
        (
            'schema_version = "1.1"',
            "",
            "[task]",
            f"name = {_quoted(f'patchgrad/{slug}')}",
            f"description = {_quoted(title)}",
            f"keywords = [{', '.join(map(_quoted, keywords))}]",
            "",
            "[metadata]",
            f"id = {_quoted(task.id)}",
            *(f"{name} = {_quoted(value)}" for name, value in about.items()),
            "",
            "[verifier]",
            f"timeout_sec = {2 * task.limits.test_seconds + 120:.1f}",
            "",
            "[agent]",
            "timeout_sec = 3600.0",
            "",
            "[environment]",
            "build_timeout_sec = 1800.0",
            "cpus = 1",
            f"memory_mb = {max(2048, task.limits.memory >> 20)}",
            f"storage_mb = {max(10240, task.limits.disk >> 20)}",
            'network_mode = "no-network"',
            "allow_internet = false",  # the same for readers of schema 1.1, which know no other word
            "",
        )
    )


def _dockerfile(task: Task) -> str:
    """An image with the repository at `/testbed`, its bug planted and its history one commit, as our own sandboxes have it."""
    repository = task.repository
    lines = [f"FROM {named(repository) if repository.kind == 'image' else PYTHON}"]
    if repository.kind != "image":
        tools = "apt-get install -y --no-install-recommends git patch && rm -rf /var/lib/apt/lists/*"
        lines += [f"RUN apt-get update && {tools}", _run(f"pip install --no-cache-dir --no-deps {' '.join(merged(task.packages))}")]
    lines.append("WORKDIR /testbed")
    if repository.kind == "archive":
        lines.append("ADD repository.tar /testbed/")
    if repository.kind == "git":
        lines.append(_run(f"git clone {json.dumps(repository.location)} . && git checkout -q {json.dumps(repository.digest)}"))
    if repository.patch:
        lines += ["COPY repository.patch /tmp/repository.patch", _run("git apply --whitespace=nowarn /tmp/repository.patch")]
        lines.append(_run("rm /tmp/repository.patch"))
    lines += [_run(command) for command in task.setup]
    lines.append(_run(f"rm -rf .git && git init -q && git add -A -f && {_COMMIT}"))
    return "\n".join(lines) + "\n"


def _run(command: str) -> str:
    return f"RUN {json.dumps(['bash', '-c', command], ensure_ascii=False)}"


def _quoted(text: str) -> str:
    """A TOML string: JSON's, with the one control character more that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
