"""the parts that a recipe can name: rewards, judges, agents, tools, estimators, objectives, curricula and more

What is built in, and what installed packages register as plugins. A part of your own is named by where it stands, package.module:attribute
(docs/guide/extend.md):

  patchgrad components
  patchgrad components --json
  patchgrad train smoke --reward mine:small
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from itertools import groupby

from patchgrad.cli.options import told
from patchgrad.errors import Refused


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--json", action="store_true", help="one JSON object: a list of names by kind")


def run(arguments: argparse.Namespace) -> int:
    """List them; 1 where an installed package cannot be read."""
    from patchgrad.runs.components.listing import KEYS, listed

    refused = Refused()
    found = list(listed(refused))
    if arguments.json:
        print(json.dumps({kind: [asdict(one) for one in found if one.kind == kind] for kind in KEYS}))
        return told(refused.sentences)
    by_kind = {kind: list(members) for kind, members in groupby(found, key=lambda one: one.kind)}
    for kind, key in KEYS.items():
        print(f"{kind}, named by {key}")
        for one in by_kind.get(kind, ()):
            print(f"  {one.name:<18} {one.about}{f'  ({one.package})' if one.package else ''}")
        if kind not in by_kind:
            print("  none is built in; name one of your own as package.module:attribute")
    return told(refused.sentences)
