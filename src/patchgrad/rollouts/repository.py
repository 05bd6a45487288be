"""A task's repository in a sandbox: the commit that an attempt begins at, and what the attempt made of it, as a patch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from patchgrad.contracts import Result, Sandbox
from patchgrad.errors import SandboxFault
from patchgrad.rollouts.deadline import within

_BRANCH, _COMMIT = re.compile(rb"ref: refs/heads/(\w+)\n"), re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\n")
_ALL_BINARY = "/tmp/.all-binary"
_SCRIPT = """
rm -f .git/index.lock
sources=(. ':(exclude,glob)**/__pycache__/**' ':(exclude,glob)**/*.pyc' ':(exclude,glob)**/.pytest_cache/**')
git="git -c core.fileMode=false -c core.hooksPath=/dev/null -c core.autocrlf=false -c core.attributesFile=$2"
find . -path ./.git -prune -o -name .git -prune -print0 | while IFS= read -r -d '' inner; do
    folder=${inner%/.git}
    [[ $($git ls-tree "$1" -- "$folder") == 160000* ]] && continue
    rm -rf "$inner"
    $git rm -r -q -f --cached --ignore-unmatch -- ":(literal)$folder"
done
$git add -A --ignore-errors -- "${sources[@]}"
[ $? -le 1 ] || exit 1
format="--binary --unified=3 --src-prefix=a/ --dst-prefix=b/ --no-color --no-ext-diff --no-textconv --no-renames"
$git diff --cached $format "$1" -- "${sources[@]}" >&3
"""


async def commit(sandbox: Sandbox) -> str:
    """The commit that the working tree started from; asked before the agent can move it with commits of its own."""
    name = await _at_the_tip(sandbox)
    if not name:
        result = await _exec(sandbox, ("git", "rev-parse", "HEAD"), 60.0)
        name = result.output.strip() if result.exit_code == 0 else ""
    if len(name) not in (40, 64):
        raise SandboxFault(f"The task's repository has no commit: {name[:200]!r}.")
    return name


async def _at_the_tip(sandbox: Sandbox) -> str:
    """What git's own files say of it, for which git does not have to start; nothing where they say it in another way than usual."""
    try:
        async with within(60.0, "what git's files say"):
            head = _BRANCH.fullmatch(await sandbox.read(".git/HEAD"))
            tip = _COMMIT.fullmatch(await sandbox.read(f".git/refs/heads/{head[1].decode()}")) if head else None
    except OSError:
        return ""
    return tip[1].decode() if tip else ""


async def difference(sandbox: Sandbox, base: str, seconds: float = 60.0) -> str:
    """The whole difference of the working tree from `base` as one patch: new, staged, deleted and binary files included.

    A repository that was made inside of it counts as the files in it; one that `base` itself holds (a submodule) is left as it is. A file
    that cannot be read keeps its earlier content, and takes no other along. What git ignores is left out unless it was added by force,
    and so is what Python caches. The patch leaves through descriptor 3, which no output limit cuts. Where it would not be UTF-8, all files
    go as binary ones. A repository that git refuses after what the agent did to it gives "", as a full disk does.
    """
    for attributes in ("/dev/null", _ALL_BINARY):
        if attributes == _ALL_BINARY and not await _written(sandbox, attributes, b"* -diff\n"):
            return ""
        result = await _exec(sandbox, ("bash", "-c", _SCRIPT, "submission", base, attributes), seconds)
        if result.state != "ok" or result.exit_code != 0:
            return ""
        try:
            return result.report.decode()
        except UnicodeDecodeError:
            continue
    return ""


async def _written(sandbox: Sandbox, path: str, content: bytes) -> bool:
    try:
        async with within(60.0, "a file to write"):
            await sandbox.write(path, content)
    except OSError:  # the agent filled the disk, or put something else in its place
        return False
    return True


async def _exec(sandbox: Sandbox, argv: Sequence[str], seconds: float) -> Result:
    async with within(seconds, argv[0]):
        return await sandbox.exec(argv, seconds)
