"""write a model's folder as a GGUF file

Matrices are written in one type of numbers, F16 unless said. The folder may be a checkpoint of a run:

  patchgrad models export models/mine --out mine.gguf
  patchgrad models export runs/mine/checkpoints/stage2-5 --out policy.gguf --numbers Q8_0
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

NUMBERS = ("F32", "F16", "BF16", "Q8_0")


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("model", metavar="DIR", help="the model's folder")
    parser.add_argument("--out", metavar="FILE.gguf", required=True, help="the file to write")
    parser.add_argument("--numbers", choices=NUMBERS, default="F16", help="the type of matrices (default: F16)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    from patchgrad.models.gguf.exporting import file_of

    out = Path(arguments.out)
    file_of(Path(arguments.model), out, arguments.numbers)
    size = out.stat().st_size
    print(json.dumps({"file": str(out), "bytes": size}) if arguments.json else f"{out}: {size / 1e6:,.0f} MB")
    return 0
