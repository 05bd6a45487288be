"""The card of a policy that a run has trained: `README.md`, as the hub reads it, of what the run's folder says and nothing else."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgrad.config import differing
from patchgrad.errors import PatchgradError
from patchgrad.evaluation import details, markdown
from patchgrad.recipes import Recipe
from patchgrad.recipes.component import BUILT_IN
from patchgrad.runs.inspection.audit import Audited, audit
from patchgrad.runs.printing import nearest
from patchgrad.runs.reading import recipe_of
from patchgrad.store import Run
from patchgrad.store.checkpoints import POLICY

TAGS = ("patchgrad", "software-engineering", "reinforcement-learning", "code")
_PLACE = re.compile(r'"/(?:[^"\n]*/)?([^"/\n]+)/?"')
"""A path of the machine, and the last name of it."""
_LICENCE = re.compile(r"^license: *[\"']?([\w.+-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Base:
    """The model that a run began with: its id on the hub and its licence, each empty where it is not known."""

    hub_id: str = ""
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Carded:
    """What a card is about: this checkpoint of a run, which begins with that model; its tokens are `audited` again, unless not asked."""

    run: Run
    checkpoint: str
    base: Base
    audited: bool = True


def run_of(folder: Path) -> Run | None:
    """The run that a folder lies in: its own, that of one of its checkpoints or of its `policy`; none where there is none."""
    near = folder.absolute()
    within = near.parent.parent if near.parent.name == "checkpoints" else near.parent if near.name == POLICY else near
    return Run.open(within) if (within / "run.json").is_file() else None


def base_of(model: str) -> Base:
    """What is known here of the model that a recipe names. An id of the hub is one that was downloaded here."""
    if not model:
        return Base()
    folder, hub_id = Path(model), ""
    if not folder.is_dir():
        cached = _cached(model)
        if cached is None:
            return Base()
        folder, hub_id = cached, model
    front = re.match(r"---\n(.*?)\n---", _text(folder / "README.md"), re.DOTALL)
    licence = _LICENCE.search(front.group(1)) if front else None
    known = licence.group(1) if licence else ""
    return Base(hub_id, "" if known == "unknown" else known)


def _cached(model: str) -> Path | None:
    """The folder of a hub's model on this machine."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(model, "config.json")
    except ValueError:  # it is no id
        return None
    return Path(found).parent if isinstance(found, str) else None


def card(told: Carded, title: str) -> str:
    """The card as Markdown below its front matter. What the run does not say is not in it."""
    recipe = recipe_of(told.run)
    sections = (_about(told, recipe, title), _recipe(recipe), _data(told.run, recipe), _figures(told.run), _audited(told))
    return "\n".join([*_front(told.base), "", *(line for section in sections for line in section)]).rstrip("\n") + "\n"


def _front(base: Base) -> list[str]:
    """The front matter; its values are quoted as JSON, which is YAML too."""
    told = {"license": base.licence, "base_model": base.hub_id, "library_name": "transformers", "pipeline_tag": "text-generation"}
    lines = [f"{key}: {json.dumps(value)}" for key, value in told.items() if value]
    return ["---", *lines, "tags:", *(f"- {tag}" for tag in TAGS), "---"]


def _about(told: Carded, recipe: Recipe, title: str) -> list[str]:
    about, last = told.run.about.read(), told.run.state().get("checkpoint")
    which = f"It is the checkpoint `{told.checkpoint}` of the run"
    which += "." if told.checkpoint == last else f", whose last one is `{last}`."
    begins = _begins(told.base, recipe)
    made = f"A policy for agents that repair software, trained by patchgrad {about.get('version', '')}".rstrip()
    lines = [f"# {title}", "", f"{made} with the recipe `{recipe.name}` and the seed {recipe.seed}. {which} {begins}", ""]
    lines += ["It was trained to answer as patchgrad's agent asks, within these limits, and is measured so on other tasks:"]
    return [*lines, "", "```bash", _command(recipe, title), "```", ""]


def _command(recipe: Recipe, title: str) -> str:
    """The command that measures the policy as this recipe does."""
    agent, limits = recipe.agent, recipe.evaluation.limits
    told = {
        "agent.prompts": agent.prompts,
        "agent.window": agent.window,
        "agent.observation": agent.longest,
        "agent.action_tokens": agent.action_tokens,
        "evaluation.limits.turns": limits.turns,
        "evaluation.limits.context": limits.context,
    }
    return f"patchgrad evaluate --policy ./{title} --tasks generated " + " ".join(f"--{key} {value}" for key, value in told.items())


def _begins(base: Base, recipe: Recipe) -> str:
    if base.hub_id:
        return f"It begins with [{base.hub_id}](https://huggingface.co/{base.hub_id})."
    if recipe.policy.model:
        return f"It begins with the model `{_named(recipe.policy.model)}`."
    return "It begins with a network that was made from scratch."


def _recipe(recipe: Recipe) -> list[str]:
    """What the recipe has otherwise than its preset; of a path on the machine that trained, the last name alone."""
    origin = nearest(recipe)
    changes = _PLACE.sub(r'"\1"', differing(recipe, origin.recipe).strip("\n"))
    said = f"The nearest preset is `{origin.words}`: `patchgrad train {origin.words} --print full` prints every key of it."
    if not changes:
        return ["## Recipe", "", f"{said} Nothing differs from it.", ""]
    return ["## Recipe", "", f"{said} This differs:", "", "```toml", changes, "```", ""]


def _data(run: Run, recipe: Recipe) -> list[str]:
    """Where tasks came from, and how many of them were attempted in each phase: of held-out ones none was trained on."""
    rows = run.rollouts.rows(columns=["phase", "task", "solved"])
    if not rows:
        return []
    source = recipe.tasks.source.name
    what = f", {BUILT_IN['task_sources'][source]}" if source in BUILT_IN["task_sources"] else ""
    where = f" (`{_named(recipe.tasks.folder)}`)" if source == "set" else ""
    tasks: dict[str, set[str]] = {}
    attempts, solved = Counter[str](), Counter[str]()
    for row in rows:
        tasks.setdefault(row["phase"], set()).add(row["task"])
        attempts[row["phase"]] += 1
        solved[row["phase"]] += bool(row["solved"])
    held = set().union(*(names for phase, names in tasks.items() if phase.startswith("evaluate")))
    trained = set().union(*(names for phase, names in tasks.items() if not phase.startswith("evaluate")))
    counts = f"{len(trained):,} tasks were attempted in training, {len(held):,} held-out ones in evaluations"
    both = f"; {len(trained & held):,} are in both." if held & trained else ", and none is in both."
    table = ["| phase | tasks | attempts | solved |", "| --- | --: | --: | --: |"]
    table += [f"| {phase} | {len(names):,} | {attempts[phase]:,} | {solved[phase]:,} |" for phase, names in tasks.items()]
    return ["## Data", "", f"Tasks come from the source `{source}`{where}{what}. {counts}{both}", "", *table, ""]


def _figures(run: Run) -> list[str]:
    """The table of the run, with the errors and intervals of each phase, and what the last row needs to be believed."""
    reports = run.results.reports()
    if not reports:
        return []
    lacks = (run.about.read().get("sandbox") or {}).get("lacks") or []
    said = "On held-out tasks, in percent: a row for the policy after each phase. Errors and 95 % intervals are over tasks."
    more = [f"- {sentence}" for sentence in details(reports[-1])]
    more += [f"- The sandbox of this run did not enforce: {', '.join(lacks)}."] if lacks else []
    return ["## Figures", "", said, "", markdown(reports), f"Of the last row, `{reports[-1].name}`:", "", *more, ""]


def _audited(told: Carded) -> list[str]:
    """What `patchgrad audit` finds in the folder; nothing where it has no attempts to train on, or is damaged."""
    try:
        found = audit(told.run) if told.audited else []
    except PatchgradError:
        return []
    return ["## Audit", "", *_summary(found), ""] if found else []


def _summary(found: Sequence[Audited]) -> Iterator[str]:
    chains, flaws = sum(one.attempts for one in found), sum(len(one.flaws) for one in found)
    yield "`patchgrad audit` computed every chain of turns anew from the run's folder, and counted every token:"
    yield ""
    yield f"- {chains - flaws:,} of {chains:,} chains verify."
    sampled, trained = sum(one.sampled for one in found), sum(one.trained for one in found)
    yield f"- {sampled:,} action tokens were sampled for training, {trained:,} of them trained."
    unsound = [f"{one.phase}, iteration {one.iteration + 1}" for one in found if not one.sound]
    yield (
        f"- It does not hold for {'; '.join(unsound)}."
        if unsound
        else "- All were sampled by a version of the policy that the recipe allows."
    )


def _named(path: str) -> str:
    """A path of this machine by its last name; anything else as it is."""
    return Path(path).name if Path(path).is_absolute() else path


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
