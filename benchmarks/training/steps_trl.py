"""TRL's side of `benchmarks/training/steps.py`; runs in an environment of its own, which that script makes.

    python steps_trl.py FOLDER SETTING NAME

The folder holds a model as transformers opens it and `batch.npz`; the setting is JSON (`Setting`). `trainer.train()` runs, so that every
line between two steps is TRL's and transformers' own, the clipping and the fused AdamW among them: only what would sample answers the
batch instead. A callback waits on stdin before each step and tells its CPU seconds on stdout. Imports and the collation of samples are
in no time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

LOW, HIGH, RATE = 0.2, 0.3, 1e-6
LENT = ("compact", "trimmed", "tiles", "trained")


@dataclass(frozen=True, slots=True)
class Setting:
    """What of TRL's settings differs from the plainest, and what is `lent` to it: what TRL 1.16 does not do on a CPU, or nowhere.

    `rows` of a micro-batch; samples `packed` into rows of so many tokens, or `grouped` by length; layers computed again; `torch_compile`;
    another attention; a `heap` that keeps what is freed, which the script that starts this sees to; products `rounded` to bfloat16.

    compact: the head sees the labelled positions alone, as it does where there is Triton.
    trimmed: attempts sorted by length, and a micro-batch as wide as its own longest.
    tiles: logits in tiles of 256 tokens by 4,096 words, which a cache holds.
    trained: with `compact`, only tokens that the mask trains are labelled.
    """

    rows: int = 1
    packed: int = 0
    grouped: bool = False
    gradient_checkpointing: bool = False
    compiled: bool = False
    attention: str = "sdpa"
    heap: bool = False
    rounded: bool = False
    lent: tuple[str, ...] = ()


class Line:
    """How a side and the script that compares talk: a line each way, whatever libraries print meanwhile."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def tell(self, **facts: float) -> None:
        """One answer; what this process holds, and the most that it held, stand in each."""
        held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self._out.write(json.dumps({**facts, "held": held, "most": most}) + "\n")
        self._out.flush()

    def asked(self) -> bool:
        """Whether another step is wanted."""
        return sys.stdin.readline().strip() == "step"


# --- trainers ------------------------------------------------------------------------------------


def grpo(folder: Path, setting: Setting, batch: dict[str, Any]) -> Any:
    """A GRPOTrainer whose generation answers the batch: then it shuffles, splits and trains as it always does."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    attempts = len(batch["starts"]) - 1
    told = common(folder, setting, attempts // setting.rows)
    told |= {"loss_type": "dapo", "epsilon": LOW, "epsilon_high": HIGH, "beta": 0.0, "num_generations": attempts}
    data = Dataset.from_dict({"prompt": ["x"]})
    trainer = GRPOTrainer(opened(folder, setting), lambda **_: [0.0], GRPOConfig(**told), data, processing_class=tokenizer())
    made = rollouts(batch)
    trainer._generate_and_score_completions = lambda _: dict(made)
    if "trimmed" in setting.lent:
        parts = trimmed(made, setting.rows)
        trainer._prepare_inputs = lambda _: dict(parts[trainer._step % len(parts)])
    if "trained" in setting.lent:
        label_trained(trainer)
    return trainer


def sft(folder: Path, setting: Setting, batch: dict[str, Any]) -> Any:
    """An SFTTrainer on tokenised samples with a mask of what the assistant said."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer
    from trl.data_utils import pack_dataset

    spans = [slice(*span) for span in pairwise(batch["starts"].tolist())]
    rows = {
        "input_ids": [batch["tokens"][span].tolist() for span in spans],
        "assistant_masks": [batch["mask"][span].astype(int).tolist() for span in spans],
    }
    data = Dataset.from_dict(rows)
    count = len(pack_dataset(data, setting.packed, "bfd")) if setting.packed else len(spans)
    told = common(folder, setting, -(-count // setting.rows))
    told |= {"max_length": setting.packed or None, "packing": bool(setting.packed)}
    if setting.grouped:
        told["train_sampling_strategy"] = "group_by_length"
    return SFTTrainer(opened(folder, setting), SFTConfig(**told), train_dataset=data, processing_class=tokenizer())


def common(folder: Path, setting: Setting, parts: int) -> dict[str, Any]:
    """What both trainers are told: our AdamW's numbers, so many micro-batches a step, nothing written, nothing logged."""
    return {
        "output_dir": str(folder / "trl"),
        "per_device_train_batch_size": setting.rows,
        "gradient_accumulation_steps": parts,
        "gradient_checkpointing": setting.gradient_checkpointing,
        "torch_compile": setting.compiled,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "adam_beta2": 0.95,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "max_steps": 100_000,
        "logging_steps": 100_000,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "bf16": setting.rounded,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def opened(folder: Path, setting: Setting) -> Any:
    """The model in float32, with peft's adapters where the folder holds some."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32, attn_implementation=setting.attention)
    if not (folder / "adapters").exists():
        return model
    from peft import PeftModel

    return PeftModel.from_pretrained(model, folder / "adapters", is_trainable=True)


def tokenizer() -> Any:
    """It says which tokens pad and end; no text is read with it."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2}, unk_token="<unk>"))
    made: Any = PreTrainedTokenizerFast
    return made(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def rollouts(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch as `_generate_and_score_completions` gives it: the prompts, and what came after them padded on the right."""
    import torch
    from trl.trainer.utils import pad

    prompt, spans = int(batch["prompt"]), list(pairwise(batch["starts"].tolist()))

    def column(values: Any, padding: float = 0) -> Any:
        return pad([torch.from_numpy(values[first + prompt : last]) for first, last in spans], padding, "right")

    tokens, mask = batch["tokens"].astype("int64"), batch["mask"].astype("int64")
    prompts = torch.stack([torch.from_numpy(tokens[first : first + prompt]) for first, _ in spans])
    there, tool = column(mask * 0 + 1), column(mask, 1)
    return {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": column(tokens),
        "completion_mask": there,
        "tool_mask": tool,
        "old_per_token_logps": column(batch["old"]),
        "advantages": torch.from_numpy(batch["advantages"]),
        "num_items_in_batch": (there * tool).sum(),
    }


# --- what is lent --------------------------------------------------------------------------------


def lend(setting: Setting) -> None:
    """Changes TRL's modules as the setting asks."""
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    if "compact" in setting.lent:
        utils._use_triton = lambda _: True  # by this name the head's forward asks; its arithmetic asks by another
    if "tiles" in setting.lent:
        chunked_logprob.TOKEN_CHUNK_SIZE, utils._CHUNKED_LOGPROB_CHUNK_SIZE = 256, 4096


def trimmed(made: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    """Micro-batches of attempts of like length, each as wide as its longest."""
    lengths = made["completion_mask"].sum(1)
    parts = []
    for chosen in lengths.argsort(descending=True).split(rows):
        part = {name: value[chosen] if value.dim() else value for name, value in made.items()}
        for name in ("completion_ids", "completion_mask", "tool_mask", "old_per_token_logps"):
            part[name] = part[name][:, : int(lengths[chosen].max())]
        parts.append(part)
    return parts


def label_trained(trainer: Any) -> None:
    """From now on tokens that the mask does not train have no label."""
    forward, prepare, masks = trainer.model.forward, trainer._prepare_inputs, {}

    def prepared(inputs: Any) -> Any:
        part = prepare(inputs)
        masks["tool"] = part["tool_mask"]
        return part

    def masked(*words: Any, labels: Any, **more: Any) -> Any:
        after = labels[:, -masks["tool"].shape[1] :]
        after[masks["tool"] == 0] = -100
        return forward(*words, labels=labels, **more)

    trainer._prepare_inputs, trainer.model.forward = prepared, masked


def plain(name: str) -> str:
    """A parameter's name without what torch's compiler and peft put around it."""
    return name.removeprefix("_orig_mod.").removeprefix("base_model.model.").replace(".default.weight", "")


# --- steps ---------------------------------------------------------------------------------------


def on_demand(trainer: Any, line: Line, kept: Path) -> None:
    """Steps are made when they are asked for. The gradients of the first are written down before they are clipped."""
    import torch
    from safetensors.torch import save_file
    from transformers import TrainerCallback

    losses: list[Any] = []
    part, clip = trainer.training_step, trainer._clip_grad_norm

    def noted(*words: Any, **more: Any) -> Any:
        losses.append(part(*words, **more))
        return losses[-1]

    def written(model: Any) -> Any:
        trainer._clip_grad_norm = clip
        named = {plain(name): parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
        save_file({name: gradient.contiguous() for name, gradient in named.items()}, kept)
        return clip(model)

    class Asked(TrainerCallback):
        began = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            if not self.began:
                line.tell()
            if not line.asked():
                os._exit(0)
            losses.clear()
            self.began = time.process_time()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            line.tell(seconds=time.process_time() - self.began, loss=float(torch.stack(losses).sum()))

    trainer.training_step, trainer._clip_grad_norm = noted, written
    trainer.add_callback(Asked())


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("setting", type=json.loads)
    asked.add_argument("name")
    given = asked.parse_args()
    line, folder, name, setting = Line(), given.folder, given.name, Setting(**given.setting)

    import numpy as np
    import torch

    torch.set_num_threads(1)
    batch = dict(np.load(folder / "batch.npz"))
    lend(setting)
    trainer = (grpo if "advantages" in batch else sft)(folder, setting, batch)
    on_demand(trainer, line, folder / f"{name}.safetensors")
    trainer.train()


if __name__ == "__main__":
    main()
