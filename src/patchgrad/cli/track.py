"""fill a board of TensorBoard, Weights & Biases or Trackio from a run's folder

What the board was told is kept beside the run, so that a second time tells what is new. A run that names the board in `trackers` fills it
itself while it goes on:

  patchgrad track runs/laptop --to tensorboard
  patchgrad track runs/laptop --to wandb --with project=agents --with mode=online
  patchgrad track runs/laptop --to mine:Tracker
  patchgrad train laptop --trackers terminal,tensorboard
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, finished or not")
    parser.add_argument("--to", required=True, metavar="BOARD", help="tensorboard, wandb, trackio, or a tracker of your own")
    parser.add_argument("--with", dest="options", action="append", default=[], metavar="NAME=VALUE", help="an option of the board")
    parser.add_argument("--again", action="store_true", help="all of it, on a new board")


def run(arguments: argparse.Namespace) -> int:
    """Tell what is new, and how much that was."""
    from patchgrad.runs.trackers.boards.board import BOARDS
    from patchgrad.runs.trackers.following import following
    from patchgrad.runs.trackers.replaying import replayed

    given = dict(map(_option, arguments.options))
    if arguments.to not in BOARDS:
        told = replayed(Path(arguments.run), arguments.to, given)
    else:
        with following(Path(arguments.run), arguments.to, given, again=arguments.again) as follower:
            told = follower.catch_up()
    print(f"{arguments.to} was told {told} points of {arguments.run}")
    return 0


def _option(word: str) -> tuple[str, Any]:
    """`project=agents` is text, `resume=true` and `tags=["a"]` are what they are in JSON."""
    name, equals, value = word.partition("=")
    if not (name and equals):
        raise ConfigError(f"--with {word}: write NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
