"""Three steps of TRL's GRPO on an environment of ours: `python with_trl.py FOLDER` in an environment that has TRL; its last line is JSON.

The model is small and random. It is taught the two calls that solve the task, so that tools and rewards are met, and then GRPO goes on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tests.guests.shop import REPAIR, shop
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.chat_template_utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from patchgrad.guests.trl import RepairEnvironment, Repairs
from patchgrad.recipes.recipe import SandboxChoice

NAMES = ("create", "edit", "open", "replace", "search_file", "shell", "submit")
TAUGHT = 250
Fast: Any = PreTrainedTokenizerFast  # its types are not told


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}


def conversation(prompt: list[dict[str, Any]], answer: str) -> list[dict[str, Any]]:
    said = {"role": "tool", "name": "shell", "content": answer}
    return [*prompt, call("shell", command=REPAIR), said, call("submit"), {"role": "tool", "name": "submit", "content": "Submitted."}]


def tokenizer(text: str) -> Any:
    """Byte pairs of this text, and Qwen's template."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=1500, show_progress=False, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator([text], trainer)
    spelt = Fast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    spelt.chat_template = qwen3_chat_template
    return spelt


def taught(model: Qwen3ForCausalLM, spelt: Any, whole: str, steps: int) -> None:
    """Imitates what the assistant says in a conversation."""
    ids = torch.tensor([spelt(whole, add_special_tokens=False)["input_ids"]])
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        loss = model(input_ids=ids, labels=ids).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def main(folder: Path) -> None:
    torch.manual_seed(0)
    repairs = Repairs(lambda split, count, seed: [shop(folder)], sandbox=SandboxChoice(concurrency=4))
    (row,) = repairs.rows()
    tools = [get_json_schema(getattr(RepairEnvironment, name)) for name in NAMES]
    seen = repairs()
    seen.reset(task=row["task"])
    answer = seen.shell(REPAIR)
    repairs._made = 0
    plain = Fast(tokenizer_object=Tokenizer(models.BPE()))
    plain.chat_template = qwen3_chat_template
    whole: str = plain.apply_chat_template(conversation(row["prompt"], answer), tools=tools, tokenize=False)
    spelt = tokenizer(whole)
    size: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    shape = Qwen3Config(vocab_size=len(spelt), intermediate_size=128, max_position_embeddings=4096, tie_word_embeddings=True, **size)
    model = Qwen3ForCausalLM(shape)
    taught(model, spelt, whole, TAUGHT)
    before = model.model.embed_tokens.weight.detach().clone()
    settings = GRPOConfig(
        output_dir=str(folder / "trl"),
        max_steps=3,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=256,
        learning_rate=1e-4,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model,
        args=settings,
        processing_class=spelt,
        train_dataset=Dataset.from_list(repairs.rows() * 4),
        environment_factory={repairs.name: repairs},
    )
    trainer.train()
    log = [one for one in trainer.state.log_history if "reward" in one]
    found = {
        "steps": trainer.state.global_step,
        "rewards": [one["reward"] for one in log],
        "calls": sum(one.get("tools/call_frequency", 0.0) for one in log),
        "failures": [one.get("tools/failure_frequency") for one in log],
        "lengths": [one.get("completions/mean_length") for one in log],
        "names": sorted(name for name in log[0] if name.startswith("rewards/")),
        "changed": not torch.equal(before, model.model.embed_tokens.weight.detach().cpu()),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
