"""Reports in words: a row each in the shape of the paper's Table 1, and below it everything that a number needs to be believed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from patchgrad.values import Estimate, Report

HEADINGS = ("policy", "Pass@1", "95 %", "Pass@k", "submitted", "turns", "minutes")
_LIMITS = (
    ("turns", "turns"),
    ("context", "tokens of context"),
    ("action_tokens", "tokens an action"),
    ("seconds", "seconds an attempt"),
)


def row(report: Report) -> tuple[str, ...]:
    """One line, in percent: `("+ RFT", "20.5 ± 0.4", "19.7 to 21.3", "43.0 (k=10)", "61 %", "7.4", "12.0")`.

    The error and the interval are over tasks.
    """
    k = int(report.budget.get("k", report.attempts))
    return (
        report.name,
        _with_error(report.pass_at_1),
        _interval(report.pass_at_1) or "-",
        f"{_percent(report.pass_at_k.mean)} (k={k})",
        f"{100 * report.submitted.mean:.0f} %" if math.isfinite(report.submitted.mean) else "-",
        f"{report.turns:.1f}" if math.isfinite(report.turns) else "-",
        f"{report.seconds / 60:.1f}",
    )


def limits(report: Report) -> str:
    """What an attempt may have used, `"20 turns, 2,048 tokens of context"`; empty where it was not told."""
    return ", ".join(f"{report.budget[key]:,.0f} {words}" for key, words in _LIMITS if key in report.budget)


def details(report: Report) -> list[str]:
    """Sentences: the errors both ways, the best of n, the limits and what was used of them, the sampling, what failed, and what broke."""
    size = f"{report.tasks} tasks x {report.attempts} run{'s' if report.attempts != 1 else ''}"
    told = [f"{size}. Pass@1 is {_with_error(report.pass_at_1)} % with its standard error over tasks."]
    if not report.tasks:
        told = ["Nothing was measured: no task has an attempt that came to its end."]
    if "choice" in report.about:
        told.append(report.about["choice"])
    if math.isfinite(report.over_runs.error):
        interval = f", 95 % interval {_interval(report.over_runs)}"
        told.append(f"On these tasks alone it is {_with_error(report.over_runs, 2)} % with its standard error over runs{interval}.")
    if math.isfinite(report.best_at_n.mean):
        n, how = int(report.budget.get("k", report.attempts)), report.about.get("best_of", "its scorer")
        told.append(f"Best@{n} by {how}: {_with_error(report.best_at_n)} %, 95 % interval {_interval(report.best_at_n)}.")
    used = [(report.turns, "turns", 1), (report.context_tokens, "tokens of context", 0), (report.action_tokens, "tokens sampled", 0)]
    means = ", ".join(f"{value:,.{digits}f} {words}" for value, words, digits in used if math.isfinite(value))
    if limits(report) or means:
        told.append(
            f"Limits: {limits(report) or 'not told'}. Used on average: {means or 'not told'}; {report.seconds / 60:.1f} minutes in all."
        )
    if report.sampling:
        told.append("Sampling: " + ", ".join(f"{name} {value:g}" for name, value in report.sampling.items()) + ".")
    if report.failures:
        turns = sum(report.stops.values()) * report.turns
        shares = ", ".join(f"{kind} {100 * count / turns:.1f} %" for kind, count in report.failures.items())
        told.append(f"Of {turns:,.0f} turns failed: {shares}.")
    if report.instead:
        held = ", ".join(f"{kind} {count:,}" for kind, count in report.instead.items())
        told.append(f"Answers of the server that held something else than text, which alone is read: {held}.")
    if report.faults:
        told.append(f"Broken attempts, which count nowhere: {report.faults}. {_bounds(report)}".strip())
    return told


def lines(reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """Headings and a row a policy. Where tasks are of several kinds, a column for each holds the Pass@1 of it."""
    kinds = kinds_of(reports)
    parts = ((_with_error(report.parts[kind]) if kind in report.parts else "-" for kind in kinds) for report in reports)
    return [(*HEADINGS, *kinds), *((*row(report), *part) for report, part in zip(reports, parts, strict=True))]


def kinds_of(reports: Sequence[Report]) -> list[str]:
    """The kinds of tasks that the reports tell apart, in the order in which they appear."""
    return list(dict.fromkeys(kind for report in reports for kind in report.parts))


def aligned(reports: Sequence[Report]) -> str:
    """The table as lines of text whose columns stand below one another, for a terminal or a log."""
    rows = lines(reports)
    widths = [max(len(line[i]) for line in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join((line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:]))) for line in rows)


def markdown(reports: Sequence[Report]) -> str:
    """The table as Markdown, a line a policy in the order given."""
    headings, *rows = lines(reports)
    told = [headings, ("---", *["--:"] * (len(headings) - 1)), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in told) + "\n"


def _bounds(report: Report) -> str:
    if not math.isfinite(report.worst):
        return ""
    return f"Pass@1 would be {_percent(report.worst)} % if all of them had failed, and {_percent(report.best)} % if all had been solved."


def _with_error(estimate: Estimate, digits: int = 1) -> str:
    if not math.isfinite(estimate.error):
        return _percent(estimate.mean)
    return f"{100 * estimate.mean:.1f} ± {100 * estimate.error:.{digits}f}"


def _interval(estimate: Estimate) -> str:
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}" if math.isfinite(estimate.low) else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if math.isfinite(share) else "-"
