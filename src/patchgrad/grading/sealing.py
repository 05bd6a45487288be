"""What decides a grading is out of reach while the code under test runs: the sandbox seals it."""

from __future__ import annotations

from patchgrad.contracts import Sandbox
from patchgrad.errors import SandboxFault
from patchgrad.grading.guard import Guard
from patchgrad.rollouts.deadline import within
from patchgrad.values import Task

_FIND = r"""
shopt -s globstar dotglob nullglob
for place; do
    for path in "$place" "$place"/**; do
        [[ -f $path && ! -L $path && /$path/ != */.git/* ]] && printf '%s\0' "$path"
    done
done >&3
:"""
_SECONDS = 60.0


async def seal(sandbox: Sandbox, task: Task) -> None:
    """Seals the deciding files that are there: tests, what stands beside them, pytest's settings above them (`Guard.places`).

    A link is none of them. Raises `SandboxFault`.
    """
    guard = Guard(task)
    async with within(_SECONDS, "bash"):
        found = await sandbox.exec(("bash", "-c", _FIND, "bash", *(f"./{place}" for place in guard.places())), _SECONDS)
    if found.exit_code != 0:
        raise SandboxFault(f"the deciding files cannot be sealed: looking for them ended with {found.output[:200]!r}")
    names = {name.removeprefix("./") for name in found.report.decode("utf-8", "surrogateescape").split("\0")[:-1]}
    try:
        await sandbox.seal(sorted(name for name in names if guard.seals(name)))
    except OSError as error:
        raise SandboxFault(f"the deciding files cannot be sealed: {error}") from error
