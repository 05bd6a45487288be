"""The report as the first view of the page: the sections of `report.html`, as elements that the page makes of text alone.

`["h1", {"class": "x"}, "61.3 % of ", ["b", {}, "200"], " tasks solved"]`: a name, attributes, and what is in it. So a browser never reads
as HTML what a run says, and there is one report.
"""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from patchgrad.errors import PatchgradError, Refused
from patchgrad.store import Run
from patchgrad.viewer import episodes, page
from patchgrad.viewer.comparison import gather, sections

Element = list[Any]
TAGS = {
    *("br", "line", "circle", "polyline", "polygon"),
    *("p", "h1", "h2", "h3", "ul", "li", "b", "i", "u", "span", "div", "figure", "details", "summary", "pre"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "text", "title"),
}
NAMES = {
    *("class", "style", "title", "role", "aria-label", "viewbox", "points", "text-anchor"),
    *("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r"),
}


def of_run(run: Run) -> dict[str, Any]:
    """A run's report, with the names of its attempts to read in place of their texts; a damaged part is told and left out."""
    refused = Refused()
    told, chosen = page.summary(run, refused), episodes.choose(run, refused)
    read = [{"heading": heading, **{key: row[key] for key in ("attempt", "task", "turns", "stop")}} for heading, row in chosen]
    about = {"heading": episodes.HEADINGS[len(read)], "read": read, "setting": elements(page.setting(run))}
    return {"elements": elements("".join(told)), "refused": _once(refused), **about}


def of_runs(runs: Sequence[Run]) -> dict[str, Any]:
    """What the page of several runs compares. One that cannot be read is told and left out, and one alone is compared with nothing."""
    refused = Refused()
    try:
        arms = gather([str(run.folder) for run in runs], refused)
        told = sections(arms) if sum(len(arm.runs) for arm in arms) > 1 else []
    except PatchgradError as error:
        refused(error)
        told = []
    return {"elements": elements("".join(told)), "refused": _once(refused), "heading": "", "read": [], "setting": []}


def _once(refused: Refused) -> list[str]:
    return list(dict.fromkeys(refused.sentences))


def elements(text: str) -> list[Element | str]:
    """What a part of the report is made of; `ValueError` for a tag or an attribute that no report has."""
    found = _Elements()
    found.feed(text)
    found.close()
    return found.top


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.top: list[Element | str] = []
        self._open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        strange = [tag] if tag not in TAGS else [name for name, _ in attrs if name not in NAMES]
        if strange:
            raise ValueError(f"{strange[0]} is in no report")
        made: Element = [tag, {"viewBox" if name == "viewbox" else name: value or "" for name, value in attrs}]
        self._put(made)
        self._open.append(made)
        if tag == "br":
            self._open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._put(data)

    def _put(self, made: Element | str) -> None:
        (self._open[-1] if self._open else self.top).append(made)
