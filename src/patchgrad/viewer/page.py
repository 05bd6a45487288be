"""`report.html`: one self-contained page about a run; light or dark as the reader's system is, and no request to anywhere."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files as resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from patchgrad.config import flat
from patchgrad.errors import Refuse, stop
from patchgrad.evaluation import kinds_of
from patchgrad.store import Run
from patchgrad.store.files import put
from patchgrad.values import Estimate, Report, Task
from patchgrad.viewer import episodes, tasks
from patchgrad.viewer.charts import Phase, Series, bar, legend, lines
from patchgrad.viewer.words import counted

Record = dict[str, Any]
PHASES = {"warmup": "warm-up", "rft": "RFT", "stage1": "stage 1", "stage2": "stage 2"}
SECONDS = ("sampling", "tools", "tests", "training", "idle")
STOPS = ("submitted", "turn limit", "context limit", "time limit", "format errors", "repeats", "abstained", "sandbox lost", "failed")

CHARTS: tuple[tuple[str, bool, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Solved, training groups",
        True,
        (("Pass@1", "pass_at_1", "pass_at_1_se"), ("Pass@k", "pass_at_k", "pass_at_k_se")),
    ),
    (
        "Solved, held-out tasks",
        True,
        (("Pass@1", "held_out_pass_at_1", "held_out_pass_at_1_se"), ("Pass@k", "held_out_pass_at_k", "held_out_pass_at_k_se")),
    ),
    (
        "Ended with a submission",
        True,
        (
            ("training", "submitted", "submitted_se"),
            ("held out", "held_out_submitted", "held_out_submitted_se"),
        ),
    ),
    ("Turns a trajectory", False, (("training", "turns", "turns_se"), ("held out", "held_out_turns", "held_out_turns_se"))),
    ("Groups whose outcomes differ: only these teach", True, (("with contrast", "contrast", ""),)),
    ("Entropy, nats a token", False, (("entropy", "entropy", ""),)),
    ("Tokens outside the clip range", True, (("below", "clip_low", ""), ("above", "clip_high", ""))),
    ("Difference of log-probabilities between sampler and trainer", False, (("difference", "logprob_diff", ""),)),
    ("Effective sample size, a share of the tokens", True, (("effective", "ess", ""),)),
    ("Publications ago that tokens were drawn", False, (("mean", "staleness", ""), ("most", "staleness_max", ""))),
    (
        "Groups of earlier iterations",
        False,
        (
            ("trained again", "replayed", ""),
            ("no longer near", "replay_far", ""),
            ("too old", "replay_aged", ""),
            ("left", "replay_kept", ""),
        ),
    ),
)


def report(run_folder: str | Path, refuse: Refuse = stop, out: Path | None = None) -> Path:
    """Write the page from what the folder holds so far, as its `report.html` or to `out`: of a run that is finished or goes on, or of an
    evaluation.

    A damaged line or table goes to `refuse`; where that goes on, the page is made of the others.
    """
    run = Run.open(run_folder)
    path = out or run.folder / "report.html"
    put(path, page(run, refuse).encode(errors="replace"))
    return path


def page(run: Run, refuse: Refuse = stop) -> str:
    """The page's text."""
    sections, chosen = summary(run, refuse), episodes.choose(run, refuse)
    told = "".join(episodes.render(heading, row) for heading, row in chosen)
    sections += [section(episodes.HEADINGS[len(chosen)], told), setting(run)]
    return whole(f"{run.folder.resolve().name} · patchgrad", sections)


def summary(run: Run, refuse: Refuse = stop) -> list[str]:
    """The sections about the run as a whole: its table, its curves, and what became of attempts and time."""
    metrics, reports = run.results.metrics(refuse), run.results.reports()
    return [
        _head(run, reports),
        section("Results", _results(reports)),
        section("Learning", _learning(metrics)),
        section("How attempts ended", _stops(reports)),
        section("Where the time went", _time(metrics, _elsewhere(run))),
        section("Tasks", tasks.of_run(run, refuse)),
    ]


def setting(run: Run) -> str:
    """What can be run again: not what others made."""
    if run.about.imported:
        return ""
    name = "evaluation" if run.evaluates else "recipe"
    return f'<details class="recipe"><summary>The {name}, as it can be run again</summary><pre>{escape(run.recipe)}</pre></details>'


def tasks_page(name: str, found: Sequence[Task], facts: Mapping[str, Any]) -> str:
    """A page about a set of tasks: what is in it and where it comes from."""
    items = "".join(f"<li><b>{escape(key)}</b>{escape(str(value))}</li>" for key, value in facts.items())
    head = f'<p class="kicker">patchgrad · {escape(name)}</p><h1>{counted(len(found), "task")}</h1><ul class="facts">{items}</ul>'
    return whole(f"{name} · patchgrad", [head, section("What is in it", tasks.section(found, {}))])


def whole(title: str, sections: Sequence[str]) -> str:
    """A page that needs nothing from anywhere."""
    css = (resources("patchgrad.viewer") / "page.css").read_text()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{css}</style></head>'
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def section(heading: str, body: str) -> str:
    """Nothing where there is nothing to say."""
    return f"<h2>{heading}</h2>{body}" if body else ""


# --- head and table ------------------------------------------------------------------------------


def _head(run: Run, reports: Sequence[Report]) -> str:
    name = escape(run.folder.resolve().name)
    if reports:
        first, last = reports[0], reports[-1]
        measured = counted(last.tasks, "task" if run.evaluates else "held-out task")
        line = f"{percent(last.pass_at_1.mean)} of {measured} solved"
        mean = f"Pass@1 is the mean over {counted(last.attempts, 'attempt')} a task."
        lead = f"The base policy solved {percent(first.pass_at_1.mean)}; {mean}" if len(reports) > 1 else mean
    else:
        line, lead = (
            f"{'An evaluation' if run.evaluates else 'A run'} that is still on its way",
            "The table appears when the evaluation has ended; what was measured so far is below.",
        )
    items = "".join(f"<li><b>{escape(key)}</b>{escape(str(value))}</li>" for key, value in _facts(run).items())
    return f'<p class="kicker">patchgrad · {name}</p><h1>{line}</h1><p class="lead">{lead}</p><ul class="facts">{items}</ul>'


def _recipe(run: Run) -> dict[str, Any]:
    try:
        return tomllib.loads(run.recipe)
    except tomllib.TOMLDecodeError:
        return {}


def _elsewhere(run: Run) -> bool:
    """Is some of the work done where the cores' seconds do not tell of it: on a GPU, or in a server's process?"""
    recipe = flat(_recipe(run))
    return bool(recipe.get("machine.gpus") or recipe.get("policy.vllm") or recipe.get("gpus"))


def _facts(run: Run) -> dict[str, Any]:
    """The recipe's plain top-level fields, when it began, and in which sandboxes."""
    plain = {key: value for key, value in _recipe(run).items() if isinstance(value, str | int | float) and value != ""}
    about = run.about.read()
    return {
        **dict(list(plain.items())[:6]),
        "began": str(about.get("created", ""))[:16].replace("T", " "),
        "patchgrad": about.get("version"),
        **({"sandbox": _sandbox(about["sandbox"])} if "sandbox" in about else {}),
    }


def _sandbox(told: Mapping[str, Any]) -> str:
    return f"{told['backend']}, which does not enforce {', '.join(told['lacks'])}" if told["lacks"] else str(told["backend"])


def percent(share: float) -> str:
    """`0.397` -> `39.7 %`; a dash for what is not known."""
    return f"{100 * share:.1f} %" if math.isfinite(share) else "-"


def _results(reports: Sequence[Report]) -> str:
    if not reports:
        return ""
    kinds = kinds_of(reports)
    rows = "".join(_row(report, kinds) for report in reports)
    k = {int(report.budget.get("k", report.attempts)) for report in reports}
    heading = f"Pass@{k.pop()}" if len(k) == 1 else "Pass@k"
    budget = ", ".join(f"{escape(key)} {value:g}" for key, value in reports[-1].budget.items())
    faults = sum(report.faults for report in reports)
    note = "± is one standard error over tasks, the thin line in a bar the 95 % interval. " + (
        f"Budget of the last row: {budget}. " if budget else ""
    )
    note += f"Attempts that the infrastructure broke, which count nowhere: {faults}." if faults else ""
    titles = ("Pass@1", *map(escape, kinds), heading, "submitted", "turns", "tokens", "minutes")
    head = '<th>policy</th><th class="track"></th>' + "".join(f"<th>{title}</th>" for title in titles)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<p class="note">{note}</p><div class="wide">{table}</div>'


def _row(report: Report, kinds: Sequence[str]) -> str:
    mean, (low, high) = report.pass_at_1.mean, (report.pass_at_1.low, report.pass_at_1.high)
    track = ""
    if math.isfinite(mean):
        left, width = (100 * low, 100 * (high - low)) if math.isfinite(low) else (100 * mean, 0.0)  # reports of older runs have none
        track = f'<div><i style="width:{100 * mean:.2f}%"></i><u style="left:{left:.2f}%;width:{width:.2f}%"></u></div>'
    parts = [_estimate(report.parts[kind]) if kind in report.parts else "-" for kind in kinds]
    cells = [_estimate(report.pass_at_1), *parts, percent(report.pass_at_k.mean), percent(report.submitted.mean)]
    cells += [f"{report.turns:.1f}", f"{report.action_tokens:.0f}", f"{report.seconds / 60:.1f}"]
    tail = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><td>{escape(report.name)}</td><td class="track">{track}</td>{tail}</tr>'


def _estimate(estimate: Estimate) -> str:
    error = f' <span class="muted">± {100 * estimate.error:.1f}</span>' if math.isfinite(estimate.error) else ""
    return percent(estimate.mean) + error


# --- curves and bars -----------------------------------------------------------------------------


def _learning(metrics: Sequence[Record]) -> str:
    figures = []
    for title, percent, wanted in CHARTS:
        keys = [key for _, key, _ in wanted]
        used = [record for record in metrics if any(number(record.get(key)) is not None for key in keys)]
        if not used:
            continue
        series = [
            Series(name, [number(r.get(key)) for r in used], [number(r.get(error)) for r in used], key.startswith("held_out"))
            for name, key, error in wanted
            if any(number(r.get(key)) is not None for r in used)
        ]
        named = legend([one.name for one in series]) if len(series) > 1 else ""
        figures.append(f"<figure><div class='title'><h3>{title}</h3>{named}</div>{lines(series, phases(used), percent)}</figure>")
    if not figures:
        return ""
    note = "One point an iteration, on the tasks that were trained on unless it says otherwise; bands are one standard error over tasks."
    return f'<p class="note">{note}</p><div class="grid2">{"".join(figures)}</div>'


def number(value: Any) -> float | None:
    """A finite number, or nothing."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def phases(records: Sequence[Record]) -> list[Phase]:
    """Where each phase begins among the records of iterations."""
    names = [str(record.get("phase")) for record in records]
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(names), 1) if a != b)]
    return [Phase(PHASES.get(names[start], names[start]), start) for start in starts]


def _stops(reports: Sequence[Report]) -> str:
    kinds = [stop for stop in STOPS if any(report.stops.get(stop) for report in reports)]
    if not kinds:
        return ""
    rows = "".join(
        f"<span>{escape(report.name)}</span>{bar(report.stops, kinds)}<span>{counted(sum(report.stops.values()), 'attempt')}</span>"
        for report in reports
    )
    return f'{legend(kinds)}<div class="rows">{rows}</div>{_failures(reports)}'


def _failures(reports: Sequence[Report]) -> str:
    """Turns that failed, a line a policy: in percent of all of its turns."""
    lines = []
    for report in reports:
        turns = sum(report.stops.values()) * report.turns
        shares = ", ".join(f"{escape(kind)} {percent(count / turns)}" for kind, count in report.failures.items())
        lines += [f"<li>{escape(report.name)}: {shares}</li>"] if shares else []
    return f'<p class="note">Turns that failed, of all turns:</p><ul class="note">{"".join(lines)}</ul>' if lines else ""


def _time(metrics: Sequence[Record], elsewhere: bool) -> str:
    spent: dict[str, dict[str, float]] = {}
    busy: dict[str, list[tuple[float, float]]] = {}
    for record in metrics:
        seconds = record.get("seconds")
        if not isinstance(seconds, Mapping):
            continue
        phase = str(record.get("phase"))
        total = spent.setdefault(phase, dict.fromkeys((*SECONDS, "wall", "learning"), 0.0))
        for kind in total:
            total[kind] += number(seconds.get(kind)) or 0.0
        if (share := number(record.get("cores_busy"))) is not None:
            busy.setdefault(phase, []).append((share, number(seconds.get("wall")) or 1.0))
    if not spent:
        return ""
    sums = {phase: sum(total[kind] for kind in SECONDS) for phase, total in spent.items()}
    longest = max(sums.values()) or 1.0
    kinds = [kind for kind in SECONDS if any(total[kind] for total in spent.values())]
    rows = "".join(
        f"<span>{escape(PHASES.get(phase, phase))}</span>"
        f"{bar({kind: total[kind] for kind in kinds}, kinds, sums[phase] / longest)}<span>{_minutes(total, busy.get(phase, []))}</span>"
        for phase, total in spent.items()
    )
    note = "Sampling, tools, tests and training overlap, so their sum can pass the minutes on the clock, which stand at the right."
    told = "" if elsewhere else _bottleneck(spent)
    if elsewhere and all("learning" in record["seconds"] for record in metrics if isinstance(record.get("seconds"), Mapping)):
        told = _by_the_clock(spent)  # older runs do not tell
    return f'<p class="note">{told} {note}</p>{legend(kinds)}<div class="rows">{rows}</div>'


def _by_the_clock(spent: Mapping[str, Mapping[str, float]]) -> str:
    """What is seen from here where a GPU or a server works too: whether sampling or learning would have to become faster."""
    wall, learning = (sum(phase[kind] for phase in spent.values()) for kind in ("wall", "learning"))
    share = learning / (wall or 1.0)
    cores = "The bars are of the cores alone: a GPU's work is in none of them, and a server's counts as tools and tests."
    return f"On the clock attempts took {percent(1 - share)} and learning {percent(share)}. {cores}"


def _bottleneck(spent: Mapping[str, Mapping[str, float]]) -> str:
    """What would have to become faster first: the work that took the cores longest, or that they mostly had none."""
    total = {kind: sum(phase[kind] for phase in spent.values()) for kind in SECONDS}
    worked = sum(seconds for kind, seconds in total.items() if kind != "idle") or 1.0
    most, seconds = max(((kind, one) for kind, one in total.items() if kind != "idle"), key=lambda one: one[1])
    idle = total["idle"] / (worked + total["idle"])
    if idle > 0.5:
        return f"The cores were idle for {percent(idle)}: attempts waited, for answers or for each other; more of them at once would help."
    return f"Most of the cores' work was {most}: {percent(seconds / worked)} of it."


def _minutes(total: Mapping[str, float], busy: Sequence[tuple[float, float]]) -> str:
    clock = f"{total['wall'] / 60:.1f} min"
    weight = sum(wall for _, wall in busy)
    return clock + (f" · cores {100 * sum(share * wall for share, wall in busy) / weight:.0f} % busy" if weight else "")
