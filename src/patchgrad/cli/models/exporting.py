"""write a model as a GGUF file, or as a folder that transformers opens

In a GGUF file matrices have one type of numbers, F16 unless said. The model may be a run, of which the last policy is taken, or one of its
checkpoints; adapters are merged. The folder of a run's policy has a card as the hub reads it, README.md, of what the run says of itself:

  patchgrad models export models/mine --out mine.gguf
  patchgrad models export runs/smol --out policy.gguf --numbers Q8_0
  patchgrad models export runs/smol/checkpoints/rft-0 --out models/after-rft
  patchgrad models export runs/smol --out models/mine --base-model Qwen/Qwen3-0.6B --licence apache-2.0
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from patchgrad.errors import ConfigError, PatchgradError
from patchgrad.store import Run
from patchgrad.store.checkpoints import POLICY

NUMBERS = ("F32", "F16", "BF16", "Q8_0")


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("model", metavar="DIR", help="a model's folder, a run's, or a checkpoint's")
    parser.add_argument("--out", metavar="FILE.gguf|DIR", required=True, help="the file, or the folder, to write")
    parser.add_argument("--numbers", choices=NUMBERS, help="the type of a GGUF file's matrices (default: F16)")
    parser.add_argument("--licence", metavar="ID", help="the licence in the card (default: the base model's, where known)")
    parser.add_argument("--base-model", metavar="HUB-ID", help="the base model in the card (default: the recipe's, where the hub has it)")
    parser.add_argument("--no-audit", action="store_true", help="a card without the audit, which reads every turn of the run")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    named, out = Path(arguments.model), Path(arguments.out)
    source = Run.open(named).checkpoints.find() if (named / "run.json").is_file() else named
    if out.suffix == ".gguf":
        from patchgrad.models.gguf.exporting import file_of

        file_of(source, out, arguments.numbers or "F16")
        size, kind = out.stat().st_size, "file"
    else:
        from patchgrad.models.new_folder import refuse
        from patchgrad.models.whole import whole

        if arguments.numbers:
            raise ConfigError("--numbers is of a GGUF file: name one, as in --out mine.gguf.")
        refuse(out)
        whole(source, out, _card(source, out, arguments))
        size, kind = sum(path.stat().st_size for path in out.iterdir()), "folder"
    print(json.dumps({kind: str(out), "bytes": size}) if arguments.json else f"{out}: {size / 1e6:,.0f} MB")
    return 0


def _card(source: Path, out: Path, arguments: argparse.Namespace) -> str:
    """The card of a run's policy; none of a model that lies in no run."""
    from patchgrad.runs.exports.card import Base, Carded, base_of, card, run_of
    from patchgrad.runs.reading import recipe_of

    run = run_of(source)
    if run is None:
        return ""
    checkpoint = str(run.state().get("checkpoint")) if source.name == POLICY else source.name
    try:
        known = base_of(recipe_of(run).policy.model)
        base = Base(arguments.base_model or known.hub_id, arguments.licence or known.licence)
        return card(Carded(run, checkpoint, base, not arguments.no_audit), out.name)
    except PatchgradError as error:  # weights can be written of a run that says no more than these
        print(f"patchgrad: {out} has no card: {error}", file=sys.stderr)
        return ""
