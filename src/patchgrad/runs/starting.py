"""A run that begins from a checkpoint of another one, by a recipe of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from patchgrad.config import dumps
from patchgrad.errors import ConfigError, StoreError
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.phase_id import phase_ids
from patchgrad.runs.reading import recipe_of
from patchgrad.store import Run, files, status
from patchgrad.values import Report


def start_from(origin: str | Path, folder: str | Path, recipe: Recipe, *, only: Collection[str] | None = None) -> Run:
    """A new run in `folder` that begins with the last checkpoint of the run in `origin`, and does the later phases of `recipe`.

        with start_from("runs/laptop", "runs/longer", recipe) as run:
            train(recipe, run, tracker)

    `patchgrad train --run runs/longer --resume` does the same. Phases that both recipes begin with are not done again: their turns, tables,
    figures, reports and the curriculum are copied as they were committed, and the origin stays as it is. An evaluation that the new recipe
    has later is left out: three rounds of fine-tuning go on to five as if there had been five from the beginning. Where `only` names
    tasks, the curriculum draws from these alone from here on.

    A folder that is there already, a damaged origin, or a recipe whose phases are others up to the checkpoint are refused.
    """
    source, path = Path(origin), Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StoreError(f"{path} is there already; name another folder for the new run.")
    before = Run.open(source)
    state = before.state()
    if not state.get("position"):
        raise ConfigError(f"No phase is done yet in {source}, so no run can begin from it.")
    first = recipe_of(before)
    whole = [str(id) for id in phase_ids(first)]
    done = whole[: state["position"]]
    common = _common(done, recipe, str(state["checkpoint"]))
    later = sum(name.startswith("evaluate") for name in done[common:])
    told = later if first.evaluation.after == "phases" or done == whole else 0  # those of them that were measured
    begun = {**_settled(state), "position": common, "step": done[common - 1], "kept": state["kept"][: len(state["kept"]) - later]}
    if only is not None:
        begun["pool"] = narrowed(begun["pool"], only)

    def fill(partial: Path) -> None:
        shutil.copytree(source, partial, ignore=_besides(source, {str(state["checkpoint"]), *begun["kept"]}), dirs_exist_ok=True)
        try:
            copied = Run.resume(partial)  # which finds damage, and cuts what was not committed
        except StoreError as error:
            raise StoreError(str(error).replace(str(partial), str(source))) from None
        with copied as run:
            _commit(run, recipe, begun, run.results.reports()[: len(before.results.reports()) - told])
            _describe(run, source)

    if not files.new_folder(path, fill):
        raise StoreError(f"{path} is there already; name another folder for the new run.")
    return Run.resume(path)


def _settled(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without what was under way or kept to be trained again: it belongs to iterations that the new run makes itself."""
    return {name: value for name, value in state.items() if name not in ("ahead", "buffer")}


def narrowed(pool: Mapping[str, Any], only: Collection[str]) -> dict[str, Any]:
    """The state of a curriculum that draws from these tasks alone."""
    found = {**pool, **{name: [task for task in pool[name] if task in only] for name in ("tasks", "queue")}}
    if not found["tasks"]:
        raise ConfigError("None of the tasks that the new run is to draw from is one that the other run draws from.")
    return found


def _common(done: Sequence[str], recipe: Recipe, checkpoint: str) -> int:
    """How many of the phases that are done the recipe begins with; `ConfigError` where that does not reach the checkpoint."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(done, [str(id) for id in phase_ids(recipe)], strict=False)))
    if checkpoint not in done[:common]:
        raise ConfigError(
            f"The checkpoint {checkpoint} comes after {', '.join(done[: done.index(checkpoint)])}, and this recipe has other phases up to "
            "there: give it as many rounds and iterations."
        )
    return common


def _besides(source: Path, checkpoints: Collection[str]) -> Any:
    """What is not copied: checkpoints that are not needed, what is half written or made of the rest, and what a process says of itself."""

    def ignored(place: str, names: list[str]) -> set[str]:
        left = {name for name in names if name.startswith(".")}
        if Path(place) == source:
            return left | {"report.html", "predictions.jsonl", status.NAME}
        return left | (set(names) - set(checkpoints) if Path(place) == source / "checkpoints" else set())

    return ignored


def _commit(run: Run, recipe: Recipe, state: Mapping[str, Any], reports: Sequence[Report]) -> None:
    """The copy is a run of this recipe in this state, and all that is left in it belongs to a phase that is done."""
    (run.folder / "recipe.toml").write_text(dumps(recipe))  # in place: the writer's lock is on this file
    reports = reports[: len(state["kept"])]
    if reports or run.results.reports():
        run.results.write_reports(reports)
    told = {f"{row['phase']}-{row['iteration']:05d}" for row in run.results.metrics()}
    told |= {"demonstrations-00000", *(f"evaluate-{number}-00000" for number in range(1, len(reports) + 1))}
    for table in (*run.rollouts.files(), *run.trained.files()):
        if table.stem not in told:
            table.unlink()
    run.save_state(state)


def _describe(run: Run, origin: Path) -> None:
    """`run.json` says when the new run began and from what."""
    about = {name: value for name, value in run.about.read().items() if name != "sandbox"}
    about |= {"created": datetime.now(UTC).isoformat(), "origin": {"run": str(origin), "checkpoint": run.state()["checkpoint"]}}
    files.put(run.folder / "run.json", (json.dumps(about, indent=2) + "\n").encode())
