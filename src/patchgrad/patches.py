"""Patches as text: which paths they name, and how they are undone. Format: https://git-scm.com/docs/diff-format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchgrad.errors import TaskError

_HUNK = re.compile(r"@@ -(\d+(?:,(\d+))?) \+(\d+(?:,(\d+))?) @@(.*)", re.DOTALL)
_NAMED = re.compile(r"(?:---|\+\+\+) (.*)|(?:rename|copy) (?:from|to) (.*)|diff --git (.*)", re.DOTALL)
_SWAPPED = (
    ("new file mode ", "deleted file mode "),
    ("old mode ", "new mode "),
    ("rename from ", "rename to "),
    ("--- ", "+++ "),
)


def outside(patch: str) -> str | None:
    """The first path in a patch's headers that is not below the repository, or is inside `.git`; `None` if there is none.

    `outside("--- a/x\\n+++ b/../y\\n@@ -1 +1 @@\\n-a\\n+b\\n") == "b/../y"`. Lines of a hunk are no headers, whatever they look like.
    """
    for line, body in _lines(patch):
        found = None if body else _NAMED.fullmatch(line.rstrip("\n"))
        names: list[str] = [name for name in found.groups() if name] if found else []
        for name in names:
            parts = re.split(r"[/\\ \t\"]", name)
            if ".." in parts or ".git" in parts or (name.startswith(("/", '"/')) and name.split("\t")[0] != "/dev/null"):
                return name
    return None


def reverse(patch: str) -> str:
    """The patch that undoes this one: `- old` / `+ new` becomes `- new` / `+ old`, files that were added are deleted.

    Twice gives what was there, for patches as git writes them. `TaskError` for what cannot be undone from its text alone: binary
    files, copies, and hunks that end early.
    """
    out: list[str] = []
    head: list[str] = []
    body: list[str] = []
    for line, inside in _lines(patch, strict=True):
        if inside:
            body.append(line)
            continue
        out += _undone(body)
        body = []
        if line.startswith(("GIT binary patch", "Binary files ", "copy from ")):
            raise TaskError(f"The patch has {line.strip()!r}, which cannot be undone from its text.")
        if line.startswith(("diff --git ", "@@ ")):
            out += _head(head)
            head = []
        if line.startswith("@@ "):
            found = _HUNK.fullmatch(line)
            out.append(f"@@ -{found.group(3)} +{found.group(1)} @@{found.group(5)}" if found else line)
        else:
            head.append(line)
    return "".join((*out, *_undone(body), *_head(head)))


def _lines(patch: str, strict: bool = False) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is in the body of a hunk, by the counts that the hunk's head promises.

    Where a hunk breaks off, what follows is taken for headers, or, if `strict`, refused.
    """
    old = new = 0
    ended = False  # a hunk has just ended: a word about the end of the file may follow
    for line in re.findall(r"[^\n]*\n|[^\n]+", patch):
        if line.startswith("\\") and (old or new or ended):
            yield line, True
            continue
        ended = False
        if old > 0 or new > 0:
            old -= line[0] in " -\n"
            new -= line[0] in " +\n"
            if line[0] in " +-\n" and old >= 0 and new >= 0:
                ended = not old and not new
                yield line, True
                continue
            if strict:
                raise TaskError(f"The patch has {line.strip()!r} where its hunk promises other lines.")
            old = new = 0
        if found := _HUNK.fullmatch(line):
            old, new = (int(found.group(at) or 1) for at in (2, 4))
        yield line, False
    if strict and (old > 0 or new > 0):
        raise TaskError("The patch ends in the middle of a hunk.")


def _head(lines: list[str]) -> list[str]:
    """Headers with old and new swapped, in git's order."""
    found = {line.split(" ", 1)[0] if line[:3] in ("---", "+++") else " ".join(line.split(" ")[:2]): line for line in lines}
    swapped: list[str] = []
    for line in lines:
        if line.startswith("diff --git ") and (names := re.fullmatch(r"diff --git a/(.*) b/(.*)\n?", line)):
            line = f"diff --git a/{names[2]} b/{names[1]}\n"
        elif index := re.fullmatch(r"index (\w+)\.\.(\w+)(.*)", line, re.DOTALL):
            line = f"index {index[2]}..{index[1]}{index[3]}"
        else:
            line = _swapped(line, found)
        swapped.append(line)
    return swapped


def _swapped(line: str, found: dict[str, str]) -> str:
    for ours, theirs in _SWAPPED:
        for mine, other in ((ours, theirs), (theirs, ours)):
            if not line.startswith(mine):
                continue
            if mine.startswith(("new file", "deleted file")):
                return other + line[len(mine) :]
            partner = found.get(other.strip())
            value = partner[len(other) :] if partner else line[len(mine) :]
            if mine in ("--- ", "+++ "):
                value = re.sub(r"^[ab]/", "a/" if mine == "--- " else "b/", value)
            return mine + value
    return line


def _undone(body: list[str]) -> list[str]:
    """A hunk's lines the other way: deletions stay before additions, each with what is said about its end."""
    out: list[str] = []
    plus: list[str] = []
    minus: list[str] = []
    into = out
    for line in body:
        if line.startswith("\\"):
            into.append(line)
        elif line.startswith("-"):
            into = plus
            plus.append(f"+{line[1:]}")
        elif line.startswith("+"):
            into = minus
            minus.append(f"-{line[1:]}")
        else:
            out += [*minus, *plus, line]
            plus, minus, into = [], [], out
    return [*out, *minus, *plus]
