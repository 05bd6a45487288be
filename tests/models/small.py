"""Small models of each family as folders, with the tokenizers that people use, made from a little text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, trainers

from patchgrad.models.gguf.vocabulary import CUTS
from patchgrad.networks import folder
from patchgrad.networks.decoder import BIASES, Decoder, DecoderConfig, Family
from patchgrad.policies.tokenizers.chat import CHATML, END, START, STOP, ChatTokenizer

TEXT = "def total(items):\n    return sum(item.price for item in items)  # it's 12 or 3,456\n\n\nclass Cart:\n\tpass\n" * 3
SAYS = [
    "Fix it.\nopen a.py 3",
    "  leading and trailing \n\n",
    "if x:\n\n\n    return x<|im_end|>",
    "1234567890 3.14",
    "\ttabs\t\n",
    "Ünïcödé é e\u0301 → ✓ \U0001f642",
    "don't DON'T I'll x  =  1",
    "",
]


def tokenizer(way: str = "smollm", size: int = 320) -> ChatTokenizer:
    """Byte-pair merges of a little code, cut in one of the ways of GGUF, with a token that is no special one."""
    made = Tokenizer(models.BPE(ignore_merges=way == "llama-bpe"))
    if way in ("qwen2", "deepseek-r1-qwen"):
        from tokenizers import normalizers

        made.normalizer = normalizers.NFC()
    made.pre_tokenizer, made.decoder = CUTS[way](), decoders.ByteLevel()
    from tokenizers import pre_tokenizers

    trainer = trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=[END, START, STOP], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator([TEXT], trainer)
    made.add_tokens([AddedToken("<tool_call>", normalized=False, special=False)])
    return ChatTokenizer(made, CHATML, variables={"bos_token": START, "eos_token": STOP, "pad_token": END, "unk_token": END})


def shape(family: Family, vocabulary: int, **changes: Any) -> DecoderConfig:
    """Two layers with shared keys, of sizes that a block of eight bits fits in."""
    told: dict[str, Any] = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_size": 16, "intermediate": 96, "context": 256}
    biases = {"biases": BIASES["qwen2"][0]} if family == "qwen2" else {}
    return DecoderConfig(vocabulary, **{**told, "family": family, "theta": 50_000.0, "tied": False, "eos": (2,), **biases, **changes})


def written(path: Path, family: Family = "llama", way: str = "smollm", extra: int = 0, **changes: Any) -> Decoder:
    """A folder with such a model, its vectors away from neutral; `extra` rows of the embedding have no token."""
    spelt = tokenizer(way)
    network = Decoder(shape(family, spelt.vocabulary + extra, **changes), seed=3)
    generator = torch.Generator().manual_seed(4)
    for parameter in network.parameters():
        if parameter.dim() == 1:
            torch.nn.init.uniform_(parameter.data, 0.5, 1.5, generator=generator)
    folder.save(path, network.config, network.state_dict())
    spelt.save(path)
    return network
