"""what is in a model: shape, template, special tokens, and what a policy will not read

patchgrad models show models/smollm2-135m-instruct
patchgrad models show Qwen/Qwen3-0.6B --json
"""

from __future__ import annotations

import argparse
import json


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("model", metavar="MODEL", help="a folder, or a hub id")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    from patchgrad.models.showing import about

    told = about(arguments.model)
    if arguments.json:
        print(json.dumps(told))
        return 0
    for title, group in told.items():
        print(title)
        for key, value in group.items():
            first, *more = _lines(value) or [""]
            print(f"  {key:<18}{first}")
            for line in more:
                print(f"  {'':<18}{line}")
    return 0


def _lines(value: object) -> list[str]:
    """One line, the lines of a text, or of a group those that are in each state: `<s>, </s>: frames messages`."""
    if isinstance(value, dict):
        return [f"{', '.join(name for name in value if value[name] == state)}: {state}" for state in dict.fromkeys(value.values())]
    return str(f"{value:,}" if isinstance(value, int) else value).splitlines()
