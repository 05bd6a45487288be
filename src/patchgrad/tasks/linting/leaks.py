"""Can the answer be read? In the statement, in the tree, among the packages, in the history, or in any other file of the sandbox."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from patchgrad.contracts import Sandbox
from patchgrad.tasks.sets import Member
from patchgrad.tasks.statements.leaks import leaks, secrets_of
from patchgrad.tasks.trees import blocks, copies, patched, python

AS_WRITTEN = "as_written"  # what somebody wrote is a level of its own because it may tell, and the others are checked
_NO_PYTHON = 127  # what a shell says of a program that is not there, as in an image of another language
_BUILT = {"__pycache__", "build", "dist", "site-packages", ".git", ".hg", ".eggs", ".tox", "node_modules"}
_ENDINGS = (".pyc", ".pyo", ".orig", ".rej", ".patch", ".diff", ".whl", ".egg")

# In the sandbox: what git holds beyond one commit, modules of the repository's names elsewhere, code anywhere with a line of the solution,
# whatever its file is called, in wheels as well.
_LOOK = r"""
import importlib.machinery, json, os, subprocess, sys, zipfile
asked = json.load(sys.stdin)
def holds(content):
    text = " ".join(content.decode(errors="replace").split())
    return any(block in text for block in asked["blocks"])
def copy(path):
    try:
        if path.endswith(".py"):
            return holds(open(path, "rb").read())
        with zipfile.ZipFile(path) as packed:
            return any(holds(packed.read(name)) for name in packed.namelist() if name.endswith(".py"))
    except (OSError, zipfile.BadZipFile):
        return False
def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True).stdout.split("\n")[:-1]
found = {"commits": len(git("rev-list", "--all", "--reflog"))}
found["unreachable"] = len(git("fsck", "--unreachable", "--no-reflogs", "--no-progress"))
found["refs"] = len(git("for-each-ref")) + len(git("stash", "list"))
elsewhere = [path for path in sys.path if path and not path.startswith("/testbed")]
found["modules"] = [m for m in asked["modules"] if importlib.machinery.PathFinder.find_spec(m, elsewhere)]
found["copies"] = []
for top, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(top, f) not in ("/proc", "/sys", "/dev", "/testbed")]
    paths = [os.path.join(top, name) for name in files if name.endswith((".py", ".whl", ".egg", ".zip", ".pyz"))]
    found["copies"] += [path for path in paths if os.path.isfile(path) and copy(path)]
print(json.dumps(found))
"""


def readable(member: Member, files: Mapping[str, bytes], sources: Sequence[str]) -> list[str]:
    """What of the answer stands in the statements and in `files`, the agent's tree; `sources` are the files that the solution changes."""
    checks = member.task.checks
    secrets = secrets_of(member.repair, checks.fail_to_pass, checks.patch, member.task.tags.get("family", "").split("+"))
    own = {level: text for level, text in member.levels.items() if level != AS_WRITTEN}
    told = {f"the statement {level!r} tells {leak}" for level, text in own.items() for leak in leaks(text, secrets)}
    built = [name for name in files if _BUILT & set(PurePosixPath(name).parts[:-1]) or name.endswith(_ENDINGS)]
    found = [*sorted(told), *(f"the tree has {name}, which was built or left over" for name in built)]
    after = patched(files, member.repair)
    found += [f"{name} has the repaired code as well" for name in copies(member.repair, after, files, sources)]
    return found + _visible(member, files)


def _visible(member: Member, files: Mapping[str, bytes]) -> list[str]:
    """Tests that are meant to be hidden, and stand in the tree as the grader has them."""
    checks = member.task.checks
    if not checks.patch and not checks.files:
        return []
    whole = {**patched(files, checks.patch), **{file.path: file.content.encode() for file in checks.files}}
    found = []
    for path in sorted({test.split("::")[0] for test in checks.fail_to_pass}):
        before, after = _tests(files.get(path, b"")), _tests(whole.get(path, b""))
        names = {test.split("::")[-1].split("[")[0] for test in checks.fail_to_pass if test.split("::")[0] == path}
        if names and all(name in before and before[name] == after.get(name) for name in names) and files.get(path) == whole.get(path):
            found.append(f"the tests that decide stand in {path}")
    return found


def _tests(content: bytes) -> dict[str, str]:
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return {}
    return {node.name: ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


async def look(sandbox: Sandbox, member: Member, files: Mapping[str, bytes], sources: Sequence[str]) -> list[str]:
    """What of the answer is in reach of an agent in its sandbox outside of its tree's files."""
    modules = {_top(name) for name in python(sources)} - {""}
    asked = {
        "modules": sorted(modules),
        "blocks": blocks(member.repair, patched(files, member.repair)),
    }
    done = await sandbox.exec(["python", "-c", _LOOK], 60.0, stdin=json.dumps(asked).encode())
    try:
        told: dict[str, Any] = json.loads(done.output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return [] if done.exit_code == _NO_PYTHON else [f"the sandbox could not be searched: {done.output.strip()[-200:] or done.state}"]
    found = [f"the packages of the sandbox have a module {name}" for name in told["modules"]]
    if told["commits"] > 1 or told["unreachable"] or told["refs"] > 1:
        found.append(f"git holds more than one commit ({told['commits']} commits, {told['unreachable']} unreachable objects)")
    return found + [f"{path} has the repaired code" for path in told["copies"]]


def _top(path: str) -> str:
    """The module that a file is imported as: `src/box/core.py` -> `box`."""
    parts = [part for part in PurePosixPath(path).parts if part not in ("src", "lib", "python", "source")]
    return parts[0].removesuffix(".py") if parts else ""
