"""How a benchmark is asked and how it answers: its docstring is its help, and the last line that it prints is JSON."""

from __future__ import annotations

import argparse
import json
from typing import Any


def parser(about: str | None) -> argparse.ArgumentParser:
    """A parser whose help is a script's docstring as it stands."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def tell(result: Any) -> None:
    """The result on one line, which is the last."""
    print(json.dumps(result), flush=True)


def told(printed: str) -> Any:
    """The result of another script, from all that it printed."""
    return json.loads(printed.strip().splitlines()[-1])
