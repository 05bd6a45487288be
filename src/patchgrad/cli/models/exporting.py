"""write a model as a GGUF file, or as a folder that transformers opens

In a GGUF file matrices have one type of numbers, F16 unless said. The model may be a run, of which the last policy is taken, or one of its
checkpoints; adapters are merged:

  patchgrad models export models/mine --out mine.gguf
  patchgrad models export runs/smol --out policy.gguf --numbers Q8_0
  patchgrad models export runs/smol/checkpoints/rft-0 --out models/after-rft
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from patchgrad.errors import ConfigError
from patchgrad.store import Run

NUMBERS = ("F32", "F16", "BF16", "Q8_0")


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("model", metavar="DIR", help="a model's folder, a run's, or a checkpoint's")
    parser.add_argument("--out", metavar="FILE.gguf|DIR", required=True, help="the file, or the folder, to write")
    parser.add_argument("--numbers", choices=NUMBERS, help="the type of a GGUF file's matrices (default: F16)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    source, out = Path(arguments.model), Path(arguments.out)
    if (source / "run.json").is_file():
        source = Run.open(source).checkpoints.find()
    if out.suffix == ".gguf":
        from patchgrad.models.gguf.exporting import file_of

        file_of(source, out, arguments.numbers or "F16")
        size, kind = out.stat().st_size, "file"
    else:
        from patchgrad.models.whole import whole

        if arguments.numbers:
            raise ConfigError("--numbers is of a GGUF file: name one, as in --out mine.gguf.")
        whole(source, out)
        size, kind = sum(path.stat().st_size for path in out.iterdir()), "folder"
    print(json.dumps({kind: str(out), "bytes": size}) if arguments.json else f"{out}: {size / 1e6:,.0f} MB")
    return 0
