"""Several runs on one page: repetitions from other seeds are one arm, and arms stand side by side, with errors and paired differences."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from patchgrad.config import flat, renamed
from patchgrad.errors import ConfigError, Refuse, Refused, one_of_many, stop
from patchgrad.evaluation import Comparison, limits, over_seeds, pooled
from patchgrad.recipes.moved import MOVED
from patchgrad.store import Run, read_reports
from patchgrad.store.files import put
from patchgrad.values import Estimate, Report
from patchgrad.viewer import seeds
from patchgrad.viewer.charts import Series, legend, lines
from patchgrad.viewer.page import CHARTS, Record, number, percent, phases, section, whole

DRAWN = 7
"""Arms whose curves are told apart; the table has all."""

Runs = Mapping[int, "Told"]


@dataclass(frozen=True, slots=True)
class Told:
    """What a run says: its reports by the policy's name, in order, the record of each iteration, and its recipe's fields.

    `source` is the folder or the file.
    """

    seed: int
    reports: Mapping[str, Report]
    metrics: Sequence[Record]
    recipe: Mapping[str, object]
    source: str


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs that differ in nothing but their seed."""

    name: str
    runs: Runs

    @property
    def policies(self) -> list[str]:
        """The names that every run has measured, in order."""
        first, *rest = self.runs.values()
        return [name for name in first.reports if all(name in run.reports for run in rest)]

    def reports(self, policy: str) -> dict[int, Report]:
        """One a seed."""
        return {seed: run.reports[policy] for seed, run in sorted(self.runs.items())}


def comparison(sources: Sequence[str], out: Path, refuse: Refuse = stop) -> Path:
    """Writes the page about these run folders, or files that hold `reports` and `metrics` of an `arm` and `seed`; the first is what others
    are compared with. One that cannot be read goes to `refuse`. Raises `ConfigError` where two runs of one arm have the same seed.
    """
    refused = Refused()
    arms = gather(sources, refused)
    refused.unless(len(sources) - len(refused.errors) > 1)  # one alone is compared with nothing
    for error in refused.errors:
        refuse(error)
    put(out, page(arms).encode(errors="replace"))
    return out


def gather(sources: Sequence[str], refuse: Refuse = stop) -> list[Arm]:
    """Arms in the order of their first run."""
    found: dict[str, dict[int, Told]] = {}
    labels: dict[str, str] = {}
    for source in sources:
        with one_of_many(refuse):
            label, key, told = _read(Path(source))
            label = labels.setdefault(key, label if label not in labels.values() else f"{label} ({source})")
            runs = found.setdefault(label, {})
            if told.seed in runs:
                raise ConfigError(f"{source} repeats {label} with the seed {told.seed}: name each run once.")
            runs[told.seed] = told
    return [Arm(name, runs) for name, runs in found.items()]


def _read(path: Path) -> tuple[str, str, Told]:
    """The arm's name, what makes two runs the same arm, and the run."""
    if path.is_file():
        reports = {report.name: report for report in read_reports(path)}
        about = json.loads(path.read_bytes())
        about = about if isinstance(about, dict) else {}
        arm = str(about.get("arm", path.stem))
        told = Told(int(about.get("seed", 0)), reports, about.get("metrics", []), about.get("recipe", {}), str(path))
        return arm, json.dumps([arm if "arm" in about else str(path), told.recipe], sort_keys=True), told
    run = Run.open(path)
    recipe = {renamed(key, MOVED) or key: item for key, item in flat(tomllib.loads(run.recipe)).items()}  # of an older version too
    seed, name = recipe.pop("seed", 0), str(recipe.pop("name", "") or path.name)
    key = json.dumps([name, recipe], sort_keys=True)
    reports = {report.name: report for report in run.results.reports()}
    return name, key, Told(int(str(seed)), reports, run.results.metrics(), recipe, str(path))


# --- the page ------------------------------------------------------------------------------------


def page(arms: Sequence[Arm]) -> str:
    """The page's text."""
    return whole(f"{_heading(arms)} · patchgrad", sections(arms))


def _heading(arms: Sequence[Arm]) -> str:
    runs = sum(len(arm.runs) for arm in arms)
    return f"{len(arms)} recipes, {runs} runs" if len(arms) > 1 else f"{arms[0].name}, {runs} runs"


def sections(arms: Sequence[Arm]) -> list[str]:
    """What is compared: the table, the curves, and what differs between the recipes."""
    every = sorted({seed for arm in arms for seed in arm.runs})
    lead = f"Seeds {', '.join(map(str, every))}. Means over seeds; ± is one standard error over them."
    return [
        f'<p class="kicker">patchgrad</p><h1>{escape(_heading(arms))}</h1><p class="lead">{lead}</p>',
        section("Results", _table(arms)),
        section("Learning", _curves(arms)),
        section("What differs between the recipes", _differences(arms)),
    ]


def _limits(arms: Sequence[Arm]) -> list[str]:
    """What attempts had, a sentence for each kind of limits; where there are several, with the policies that had them."""
    found: dict[str, list[str]] = {}
    for arm in arms:
        for policy in arm.policies:
            for report in arm.reports(policy).values():
                found.setdefault(limits(report), []).append(policy if len(arms) == 1 else f"{arm.name}, {policy}")
    who = {told: "" if len(found) == 1 else f" ({escape('; '.join(dict.fromkeys(names)))})" for told, names in found.items()}
    return [f"Limits of an attempt{who[told]}: {told or 'not told'}." for told in found]


def _table(arms: Sequence[Arm]) -> str:
    rows = [_row(arm, policy, *_against(arms, arm, policy)) for arm in arms for policy in arm.policies]
    if not rows:
        return ""
    titles = ("Pass@1", "Pass@k", "submitted", "turns", "difference", "p")
    head = '<th>policy</th><th class="track"></th>' + "".join(f"<th>{title}</th>" for title in titles)
    note = (
        "Below Pass@1 is each seed's; the thin line is Student's 95 % interval over seeds. A difference is in points, of the seeds that "
        "both have, paired by task and seed: its 95 % interval and p (a sign-flip test) say whether these runs differ, and not what "
        "another seed would do. "
    )
    note += " ".join(_limits(arms))
    return f'<p class="note">{note}</p>{_arms_table(head, "".join(rows))}'


def _arms_table(head: str, body: str) -> str:
    return f'<div class="wide"><table class="arms"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _against(arms: Sequence[Arm], arm: Arm, policy: str) -> tuple[str, Comparison | None]:
    """What a row is compared with: in the first arm the policy before it; in others the first arm's of that name, or its last one where an
    arm has one policy alone.
    """
    other, label, place = arms[0], arms[0].name, arm.policies.index(policy)
    name = other.policies[-1] if len(arm.policies) == 1 and other.policies else policy
    if arm is other:
        name = label = arm.policies[place - 1] if place else ""
    if name not in other.policies:
        return "", None
    first, second = other.reports(name), arm.reports(policy)
    both = sorted(first.keys() & second.keys())
    with suppress(ConfigError):  # measured on other tasks
        return label, pooled({seed: first[seed] for seed in both}, {seed: second[seed] for seed in both})
    return "", None


def _row(arm: Arm, policy: str, against: str, found: Comparison | None) -> str:
    reports = list(arm.reports(policy).values())
    mean = over_seeds([report.pass_at_1.mean for report in reports])
    alone = len(arm.policies) == 1
    name = escape(arm.name) if alone else escape(policy) + _below(escape(arm.name))
    each = " ".join(f"{100 * report.pass_at_1.mean:.1f}" for report in reports)
    cells = [
        f'{percent(mean.mean)} <span class="muted">{_error(mean)}</span>{_below(each)}',
        percent(fmean(report.pass_at_k.mean for report in reports)),
        percent(fmean(report.submitted.mean for report in reports)),
        f"{fmean(report.turns for report in reports):.1f}",
    ]
    if found is None:
        cells += ["", ""]
    else:
        apart = found.difference
        told = f'{100 * apart.mean:+.1f} <span class="muted">{100 * apart.low:.1f} to {100 * apart.high:.1f}</span>'
        cells += [told + _below(f"from {escape(against)}"), f"{found.p_value:.2g}"]
    return f'<tr><td>{name}</td><td class="track">{_track(mean)}</td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _below(text: str) -> str:
    return f'<br><span class="muted small">{text}</span>'


def _error(mean: Estimate) -> str:
    return f"± {100 * mean.error:.1f}" if math.isfinite(mean.error) else ""


def _track(mean: Estimate) -> str:
    if not math.isfinite(mean.mean):
        return ""
    low, high = (max(0.0, mean.low), min(1.0, mean.high)) if math.isfinite(mean.low) else (mean.mean, mean.mean)
    return f'<div><i style="width:{100 * mean.mean:.2f}%"></i><u style="left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%"></u></div>'


def _curves(arms: Sequence[Arm]) -> str:
    measured = [arm for arm in arms if any(run.metrics for run in arm.runs.values())]
    drawn = measured[:DRAWN]
    order = seeds.steps([run.metrics for arm in drawn for run in arm.runs.values()])
    names = phases([{"phase": phase} for phase, _ in order]) if order else []
    figures = []
    for title, share, wanted in CHARTS:
        for name, key, _ in wanted:
            curves = [_over_runs(arm, key, order) for arm in drawn]
            if any(number(value) is not None for curve in curves for value in curve.values):
                heading = title if len(wanted) == 1 else f"{title}: {name}"
                drawing = lines(curves, names, share)
                figures.append(f"<figure><div class='title'><h3>{heading}</h3></div>{drawing}</figure>")
    if not figures:
        return ""
    note = "One point an iteration, on the tasks trained on unless it says otherwise: the mean over seeds, in a band of its error."
    note += f" The first {DRAWN} recipes are drawn." if len(drawn) < len(measured) else ""
    return f'<p class="note">{note}</p>{legend([arm.name for arm in drawn])}<div class="grid2">{"".join(figures)}</div>'


def _over_runs(arm: Arm, key: str, order: Sequence[seeds.Step]) -> Series:
    found = seeds.means([run.metrics for run in arm.runs.values()], lambda record: number(record.get(key)), order)
    return Series(arm.name, [number(one.mean) for one in found], [number(one.error) for one in found], joined=key.startswith("held_out"))


def _differences(arms: Sequence[Arm]) -> str:
    recipes = {arm.name: next(iter(arm.runs.values())).recipe for arm in arms}
    keys = sorted({key for one, other in pairwise(recipes.values()) for key in one.keys() | other.keys() if one.get(key) != other.get(key)})
    if not keys or not all(recipes.values()):
        return ""
    head = "<th>field</th>" + "".join(f"<th>{escape(name)}</th>" for name in recipes)
    cells = {key: [escape(str(recipe.get(key, "-"))) for recipe in recipes.values()] for key in keys}
    rows = (f"<tr><td>{escape(key)}</td>{''.join(f'<td>{cell}</td>' for cell in found)}</tr>" for key, found in cells.items())
    return _arms_table(head, "".join(rows))
