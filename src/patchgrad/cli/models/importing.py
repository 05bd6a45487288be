"""make a folder of a GGUF file

Architectures llama, qwen2 and qwen3, of any type that the package gguf turns into numbers; every other one is refused by name. Of a file in
several parts name the first:

  patchgrad models import SmolLM2-135M-Instruct.Q4_1.gguf --out models/smollm2
"""

from __future__ import annotations

import argparse
from pathlib import Path

from patchgrad.cli.models.telling import tell


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("file", metavar="FILE.gguf", help="the file of llama.cpp")
    parser.add_argument("--out", metavar="DIR", required=True, help="the folder to write")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Read it and write the folder."""
    from patchgrad.models.gguf.importing import folder_of

    out = Path(arguments.out)
    tell(out, folder_of(Path(arguments.file), out), arguments.json)
    return 0
