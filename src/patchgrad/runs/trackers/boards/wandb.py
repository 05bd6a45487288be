"""A run of Weights & Biases. Without a key it is kept below the run, and `wandb sync` sends it later."""

from __future__ import annotations

import html
import netrc
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import wandb

from patchgrad.runs.trackers.boards.board import Subject


class WandbBoard:
    """All figures over `iteration`: W&B drops what comes with an earlier step of its own."""

    def __init__(self, run: Any) -> None:
        self._run = run
        run.define_metric("iteration")
        run.define_metric("*", step_metric="iteration")

    def figures(self, step: int, figures: Mapping[str, float]) -> None:
        self._run.log({**figures, "iteration": step})

    def text(self, step: int, name: str, text: str) -> None:
        self._run.log({name: wandb.Html(f"<pre>{html.escape(text)}</pre>", inject=False), "iteration": step})

    def close(self) -> None:
        self._run.finish()


def opened(subject: Subject, project: str = "patchgrad", mode: str = "", **options: Any) -> WandbBoard:
    """`options` are those of `wandb.init`. Without a `mode` it is offline where there is no key."""
    place = subject.folder / "trackers"
    where = mode or os.environ.get("WANDB_MODE") or ("online" if _key(wandb.setup().settings.base_url) else "offline")
    settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
    made: dict[str, Any] = {"project": project, "name": subject.name, "id": subject.id, "dir": str(place), "mode": where}
    made |= {"config": subject.settings(), **options}
    return WandbBoard(wandb.init(resume="allow", settings=settings, **made))


def _key(server: str) -> bool:
    """Is there a key for this server, where W&B looks for one?"""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(urlsplit(server).netloc) is not None
    except (OSError, netrc.NetrcParseError):
        return False
