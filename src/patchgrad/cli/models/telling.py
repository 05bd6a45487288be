"""What is said of a folder that was just written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchgrad.networks.decoder import DecoderConfig


def tell(out: Path, shape: DecoderConfig, as_json: bool) -> None:
    """The folder, the network in it, and what may come next."""
    if as_json:
        print(json.dumps({"folder": str(out), "family": shape.family, "parameters": shape.parameters, "positions": shape.reach}))
        return
    print(f"{out}: {shape.family}, {shape.parameters / 1e6:,.0f} million parameters, {shape.reach:,} positions")
    print(f"Is it read as transformers reads it?  patchgrad models check {out}")
