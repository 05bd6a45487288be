"""A failure may be told with a call or a script that shows it; on the repaired code these must do what the telling says they should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from patchgrad.tasks.running import Asked, Failure, Runner
from patchgrad.tasks.statements.symptom import rank

TRIED = 5


async def honest(
    run: Runner, good: Mapping[str, bytes], bad: Mapping[str, bytes], places: Sequence[str], failures: Mapping[str, Failure]
) -> dict[str, Failure]:
    """The failures, showing only calls and scripts that the `good` files answer as expected, and the `bad` ones do not.

    A value in one may come from the bug, and it may have failed only after what the test had done before.
    """
    tries: dict[str, Mapping[str, str]] = {}
    for failure in sorted(failures.values(), key=rank):
        if (code := _code(failure)) and len(tries) < TRIED:
            tries.setdefault(code, failure.shown or {"script": code})
    kept: set[str] = set()
    if tries:
        right, wrong = [await run(files, (), places=places, asked=Asked(tries=list(tries.values())), seconds=10.0) for files in (good, bad)]
        kept = {code for code, yes, no in zip(tries, right.tried, wrong.tried, strict=False) if yes and not no}
    return {t: f if _code(f) in kept else replace(f, shown={}, script="") for t, f in failures.items()}


def _code(failure: Failure) -> str:
    return failure.shown.get("code", "") or failure.script
