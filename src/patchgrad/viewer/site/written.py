"""The page as a folder: the same scripts, and the data beside them as scripts too, so that a double click opens it as well as a server.

A browser lets a page that lies in a folder read no files, but run scripts that lie beside it. So each piece of data is a script that hands
it over: `given("0/list/0", {...})`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError
from patchgrad.store import Run
from patchgrad.store.codec import finite
from patchgrad.viewer.site import curves, forks, listed, paired, shown, summary
from patchgrad.viewer.site.now import Now
from patchgrad.viewer.site.recent import Recent

APP, STYLE = Path(__file__).parent / "app", Path(__file__).parents[1] / "page.css"
PACK = 1_000_000
"""Letters of attempts that lie in one script, at least."""

POLICY = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src data:; base-uri 'none'; form-action 'none'"


def write(folders: Sequence[Path], out: Path) -> int:
    """Writes the page of these runs to a folder that is not there yet; how many attempts it shows."""
    if out.exists():
        raise ConfigError(f"{out} is there already: name another folder for the page.")
    runs = [Run.open(folder) for folder in folders]
    shutil.copytree(APP, out)
    page = (APP / "index.html").read_text()
    head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<title>'
    page = page.replace("<title>", head).replace('<script src="source.js">', '<script src="beside.js">')
    (out / "index.html").write_text(page)
    (out / "source.js").unlink()
    shutil.copy(STYLE, out / "report.css")
    about, count = listed.overview(runs), 0
    for number, run in enumerate(runs):
        tables = [path for chunk in listed.chunks(run) for path in chunk]
        told = listed.listed(tables)
        starts, attempts = _packed(run, out / "data" / str(number), tables, told["columns"]["attempt"])
        _given(out, f"{number}/list/0", told)
        _given(out, f"{number}/report", summary.of_run(run))
        _given(out, f"{number}/curves", curves.curves(run))
        _given(out, f"{number}/families", forks.families(run))
        _given(out, f"{number}/outcomes", paired.outcomes(run))
        about["runs"][number] |= {"chunks": ["all"], "packs": starts, "now": Now(Recent(run)).told()}
        count += attempts
    _given(out, "overview", about)
    _given(out, "seeds", curves.over_seeds(runs))
    _given(out, "comparison", summary.of_runs(runs))
    _given(out, "compared", paired.every(runs))
    return count


def _packed(run: Run, folder: Path, tables: Sequence[Path], names: Sequence[str]) -> tuple[list[int], int]:
    """Writes the attempts in the order of the list; of each script the place in the list at which it begins, and how many there are."""
    starts, kept, size, count = list[int](), dict[str, Any](), 0, 0
    places = {name: place for place, name in enumerate(names)}

    def put() -> None:
        starts.append(min(places[name] for name in kept))
        _given(folder.parent.parent, f"{folder.name}/attempts/{len(starts) - 1}", kept)

    for attempt in _attempts(run, tables):
        kept[attempt["id"]] = attempt
        size += len(json.dumps(attempt))
        count += 1
        if size > PACK:
            put()
            kept, size = {}, 0
    if kept:
        put()
    return starts, count


def _attempts(run: Run, tables: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in tables:
        phase, _, number = path.stem.rpartition("-")
        yield from shown.whole(run, phase, int(number))


def _given(out: Path, name: str, value: Any) -> None:
    path = out / "data" / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"given({json.dumps(name)}, {json.dumps(finite(value))});\n")
