"""A run of Trackio, in its database on this machine (`trackio show`) or wherever its options say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trackio

from patchgrad.runs.trackers.boards.board import Subject


class TrackioBoard:
    """All figures over iterations, and attempts as text."""

    def figures(self, step: int, figures: Mapping[str, float]) -> None:
        trackio.log(dict(figures), step=step)

    def text(self, step: int, name: str, text: str) -> None:
        trackio.log({name: trackio.Markdown(f"```\n{text}\n```")}, step=step)

    def close(self) -> None:
        trackio.finish()


def opened(subject: Subject, project: str = "patchgrad", **options: Any) -> TrackioBoard:
    """`options` are those of `trackio.init`."""
    own = {"name": f"{subject.name}-{subject.id}", "config": subject.settings(), "auto_log_cpu": False, "auto_log_gpu": False}
    trackio.init(project, resume="allow", **{**own, **options})
    return TrackioBoard()
