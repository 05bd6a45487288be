"""What a person would report: the symptom in words, from the failing tests, without a language model.

The best report is a call that shows the wrong behaviour alone; it was tried out on both the broken and the unbroken code. Else the
failing assertion and its message stand in. Never told: the repair, the family of the bug, the names of tests.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence

from patchgrad.tasks.running import Failure
from patchgrad.tasks.statements.leaks import Secrets, leaks

LEVELS = ("report", "located", "brief")
SHORT = 60  # characters of a piece of code in the brief statement
SOMETIMES = "fails in some case"  # of a function that was called in a test: not with all arguments
_SUMMED = 4
_NAMES_THE_BUG = ("NameError", "UnboundLocalError", "NotImplementedError")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+| id='\d+'")  # of an object, or of a mock
_WHERE = re.compile(r"\s*\+\s+(where|and) ")  # what pytest tells of parts of an assertion
_LAST = "Find the cause and repair it. Tests that you do not see will check it."


def statements(
    package: str,
    places: Sequence[tuple[str, str, int]],
    others: Collection[str],
    paths: Sequence[str],
    told: Sequence[Failure],
    secrets: Secrets,
    implement: bool = False,
) -> dict[str, str] | str:
    """The statement at each of `LEVELS`, or the reason why there is none in a few words.

    `report` is the symptom, one for each failure of `told`. `located` adds the file and function of each of `places`, and a command that
    reproduces it; `brief` is each symptom in one line and the command that shows its faulty line, for policies that find their way in one
    small window. There the file goes by as much of its path as no path of `others` ends with. `paths` is where the package is imported
    from. With `implement` the fault is a missing body.
    """
    symptom = symptoms(told, implement)
    if not symptom:
        return "says nothing"
    first = f"In {package} this is not implemented:" if implement else f"In {package} this goes wrong:"
    where = " ".join(f"{'The' if number == 0 else 'Another'} fault is in `{f}()` in `{p}`." for number, (p, f, _) in enumerate(places))
    commands = [command for failure in told if (command := _command(failure, paths))]
    shown = [f"To reproduce it:\n\n{_block(chr(10).join(commands))}"] if commands else []
    found = {
        "report": "\n\n".join([first, symptom, _LAST]) + "\n",
        "located": "\n\n".join([first, symptom, where, *shown, _LAST]) + "\n",
        "brief": "".join(f"{_in_a_line(f)}\nopen {_tail(path, others)} {line}\n" for f, (path, _, line) in zip(told, places, strict=True)),
    }
    return "leaks" if any(leaks(text, secrets) for text in found.values()) else found


def symptoms(told: Sequence[Failure], implement: bool = False) -> str:
    """What goes wrong, as blocks of code and messages, one for each failure; nothing where one of them says nothing."""
    found = [_symptom(failure, implement) for failure in told]
    return "\n\nand this too:\n\n".join(found) if all(found) else ""


def summary(tests: Sequence[str], failures: Mapping[str, Failure]) -> str:
    """How the first few of these tests fail, as pytest's last lines tell it."""
    failed = [(test, failures[test]) for test in tests if test in failures]
    lines = [f"FAILED {test} - {failure.kind}: {_in_words(failure.message)[:200]}" for test, failure in failed[:_SUMMED]]
    more = len(tests) - len(lines)
    return "\n".join([*lines, *([f"... and {more} more"] if more > 0 else [])]) + "\n"


def _in_words(message: str) -> str:
    """On one line, without addresses, which differ in every run."""
    return _ADDRESS.sub("", " ".join(message.split()))


def names_the_bug(failures: Collection[Failure]) -> bool:
    """Does Python itself say what is wrong, as a `NameError` does?"""
    return any(failure.kind in _NAMES_THE_BUG for failure in failures)


def _tail(path: str, others: Collection[str]) -> str:
    """`version.py` for `src/semver/version.py`, or `semver/version.py` where there is a `docs/version.py` too."""
    parts = path.split("/")
    tails = ("/".join(parts[-count:]) for count in range(1, len(parts)))
    return next((tail for tail in tails if not any(f"/{other}".endswith(f"/{tail}") for other in others if other != path)), path)


def rank(failure: Failure) -> tuple[bool, bool, bool, bool, int, str]:
    """Best to tell first: one with a call, a script, the name of a function, with a message, and then the shortest."""
    text = told_by(failure)
    return not failure.shown, not failure.script, not text, not _message(failure), len(text), text


def told_by(failure: Failure) -> str:
    """The code that a failure is told with, where there is some."""
    return failure.shown.get("code", "") or failure.script or failure.statement


def _symptom(failure: Failure, implement: bool) -> str:
    if failure.shown:
        shown = failure.shown
        lines = [*(f">>> {line}" for line in shown["imports"].split("; ")), f">>> {shown['code']}"]
        verb, _, value = shown["actual"].partition(" ")
        text = _block("\n".join([*lines, value if verb == "returns" else f"Traceback (most recent call last):\n{value}"]))
        expected = shown["expected"]
        words = expected in ("an exception", "a true value", "a false value")
        return text + (f"\n\nExpected: {expected if words else f'`{expected}`'}" if expected else "\n\nNo exception is expected.")
    message, code = _message(failure), failure.script or failure.statement
    if not code or not (message or failure.kind != "AssertionError" or implement):
        return ""
    how = "fails" if failure.script or implement else SOMETIMES
    return f"{_block(code)}\n\n{how} with\n\n{_block(f'{failure.kind}: {message}'.removesuffix(': '))}"


def _in_a_line(failure: Failure) -> str:
    if not failure.shown:
        return f"{_cut(told_by(failure).splitlines()[-1])} {'fails' if failure.script else SOMETIMES}."
    code, expected = _cut(failure.shown["code"]), failure.shown["expected"]
    verb, _, value = failure.shown["actual"].partition(" ")
    symptom = f"{code} {'gives' if verb == 'returns' else 'raises'} {_cut(value)}"
    return f"{symptom} instead of {_cut(expected)}." if expected else f"{symptom}."


def _cut(text: str) -> str:
    """On one line, and with dots where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 3].rstrip()}..."


def _message(failure: Failure) -> str:
    lines = [line.rstrip() for line in failure.message.splitlines()]
    kept = [line for line in lines if line and "Use -v" not in line and not _WHERE.match(line) and not _ADDRESS.search(line)]
    return "\n".join(kept[:8])[:600]


def _block(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _command(failure: Failure, paths: Sequence[str]) -> str:
    if not failure.shown:
        return ""
    code = f"{failure.shown['imports']}; print(repr({failure.shown['code']}))"
    before = f"PYTHONPATH={':'.join(paths)} " if paths else ""
    plain = not re.search(r'["$`\\!]', code)
    return f"{before}python -c " + (f'"{code}"' if plain else shlex.quote(code))
