"""A model's folder, or a checkpoint that has adapters alone, as a folder of its own that transformers opens."""

from __future__ import annotations

from pathlib import Path

from patchgrad.models.new_folder import new_folder, refuse
from patchgrad.networks import folder
from patchgrad.policies.tokenizers.chat import ChatTokenizer


def whole(source: Path, out: Path, card: str = "") -> None:
    """Writes `out`, adapters merged, with its `card` as `README.md` where there is one.

    Raises `ConfigError` for a folder that is there already, and for what is no model.
    """
    refuse(out)
    network, tokenizer = folder.load(source), ChatTokenizer.load(source)
    with new_folder(out) as work:
        folder.save(work, network.config, dict(network.named_parameters()))
        tokenizer.save(work)
        if card:
            (work / "README.md").write_text(card, encoding="utf-8")
