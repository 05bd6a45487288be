"""The experiment of `docs/studies/resume.md` on TRL's GRPO: killed at random moments, resumed from its last checkpoint, what was repeated?

    python benchmarks/journal/resume_trl.py [--kills 5] [--seed 0]

TRL 1.16 and torch are installed in an environment of their own, below the cache. A tiny Qwen3 at random initialisation, thirty-two prompts,
groups of four, eight prompts a generation that is used for four optimiser steps of an iteration, which is how TRL is meant to be used
(`steps_per_generation`), a checkpoint after every step. Every completion that is made is written down by the reward function. Against the
run that was not killed: completions made again, completions that the whole run had and the killed one has not, prompts that were trained
on more or less often, and the weights at the end. Prints a table, and JSON last.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.peers import QUIET, TRL

STEPS = 64
DRIVER = f"""
import hashlib, json, sys
from pathlib import Path
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, set_seed
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer

folder = Path(sys.argv[1])
torch.set_num_threads(1)
set_seed(0)
words = {{word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", *(f"w{{n}}" for n in range(61))])}}
plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
plain.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
model = Qwen3ForCausalLM(Qwen3Config(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, eos_token_id=1, pad_token_id=0))
log = (folder / "made.jsonl").open("a")

def worth(prompts, completions, trainer_state, **_):
    for prompt, said in zip(prompts, completions):
        log.write(json.dumps([trainer_state.global_step, prompt, said]) + "\\n")
    log.flush()
    return [int(hashlib.sha256(said.encode()).hexdigest()[:4], 16) / 0xFFFF for said in completions]

setting = GRPOConfig(output_dir=str(folder / "out"), max_steps={STEPS}, per_device_train_batch_size=8, steps_per_generation=4,
    num_generations=4, max_completion_length=24, learning_rate=1e-3, save_steps=1, save_total_limit=2, report_to=[],
    use_cpu=True, bf16=False, logging_steps=1,
    seed=0, disable_tqdm=True, dataloader_pin_memory=False)
data = Dataset.from_dict({{"prompt": [f"w{{n}} w{{n + 1}} w{{n + 2}}" for n in range(32)]}})
trainer = GRPOTrainer(model=model, reward_funcs=worth, args=setting, train_dataset=data, processing_class=tokenizer)
last = get_last_checkpoint(setting.output_dir) if (folder / "out").is_dir() else None
print("ready", flush=True)
trainer.train(resume_from_checkpoint=last)
weights = b"".join(value.detach().numpy().tobytes() for value in trainer.model.state_dict().values())
(folder / "done").write_text(hashlib.sha256(weights).hexdigest())
"""


def started(folder: Path) -> subprocess.Popen[str]:
    """The trainer, from its last checkpoint where there is one; it has said that it is ready."""
    folder.mkdir(exist_ok=True)
    words = [TRL.python, "-c", DRIVER, str(folder)]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | QUIET)
    assert process.stdout
    if "ready" not in (process.stdout.readline() or ""):
        sys.exit(f"TRL did not start: {(folder / 'log').read_text()[-800:]}")
    return process


def made(folder: Path) -> list[tuple[int, str, str]]:
    """Every completion: at which step, for which prompt, which."""
    found = []
    for line in (folder / "made.jsonl").read_text().splitlines() if (folder / "made.jsonl").exists() else []:
        step, prompt, said = json.loads(line)
        found.append((step, prompt, said))
    return found


def killed(folder: Path, kills: int, chance: random.Random) -> tuple[int, int]:
    """A run that is killed so many times, each after it has made some progress: how often it was.

    Also how many checkpoints it left that it could not read itself, so that somebody had to remove them before it went on.
    """
    done = removed = 0
    while not (folder / "done").exists():
        process, before = started(folder), len(made(folder))
        wanted = before + chance.randrange(1, 3) * 32 if done < kills else -1
        while process.poll() is None and (wanted < 0 or len(made(folder)) < wanted):
            time.sleep(0.02)
        if process.poll() is None:
            time.sleep(chance.random() * 1.5)  # somewhere in the steps that the generation is for
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
        elif process.returncode:
            last = max((folder / "out").glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
            if (last / "trainer_state.json").exists():
                sys.exit(f"TRL ended otherwise than by a kill: {(folder / 'log').read_text()[-800:]}")
            shutil.rmtree(last)
            removed += 1
    return done, removed


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("--kills", type=int, default=6)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in ("whole", "again", "killed")}
        for name in ("whole", "again"):
            started(folders[name]).wait()
        count, removed = killed(folders["killed"], given.kills, random.Random(given.seed))
        whole, broken = made(folders["whole"]), made(folders["killed"])
        first, other = Counter(prompt for _, prompt, _ in whole), Counter(prompt for _, prompt, _ in broken)
        same = Counter(whole) & Counter(broken)
        ends = {name: (folder / "done").read_text() for name, folder in folders.items()}
    told: dict[str, Any] = {
        "kills": count,
        "half_written_checkpoints_it_stumbled_over": removed,
        "made": len(whole),
        "made_when_killed": len(broken),
        "of_the_whole_run_not_there": len(whole) - same.total(),
        "prompts_more_or_less_often": sum(1 for prompt in first | other if first[prompt] != other[prompt]),
        "whole_run_is_reproducible": ends["whole"] == ends["again"],
        "weights_are_those_of_the_whole_run": ends["whole"] == ends["killed"],
    }
    for name, value in told.items():
        print(f"{name.replace('_', ' '):40} {value}")
    tell(told)


if __name__ == "__main__":
    main()
