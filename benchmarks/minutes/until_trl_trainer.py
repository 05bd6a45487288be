"""The parts of TRL that `until_trl.py` puts together: its tokenizer, the step that is lent to it, its settings and its trainer."""

from __future__ import annotations

import fnmatch
import json
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import torch
from benchmarks.minutes.until_trl_attempts import Bench, environment
from datasets import Dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from patchgrad.networks import folder as folders
from patchgrad.recipes import Recipe
from patchgrad.runs.demonstrations.induction import planted
from patchgrad.runs.planning.shapes import an_optimiser

TEMPLATE = (  # the laptop's, in which an observation is said by the user; TRL wants to see calls where nothing else is said
    "{% for message in messages %}{% set said = message['content'] or message.get('tool_calls') | tojson %}"
    "{{ '<|im_end|>' if said.startswith('<cut>') else '' }}{{ '' if loop.first else '\\n' }}"
    "{{ '<|im_start|>' + ('user' if message['role'] == 'tool' else message['role']) + '\\n' + said.removeprefix('<cut>') + '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif %}"
)


class Spoken(PreTrainedTokenizerFast):
    """Reads every turn as one call of the only tool: what a turn asks for is for the agent to find."""

    response_schema: ClassVar = {"type": "object"}  # TRL asks for one before it asks `parse_response`

    def parse_response(self, response: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """The turn as TRL hands it to the tool."""
        text = self.decode(response, skip_special_tokens=True)
        arguments = {"text": text, "cut": response[-1] != self.eos_token_id}
        call = {"type": "function", "function": {"name": "say", "arguments": arguments}}
        return {"role": "assistant", "content": text, "tool_calls": [call]}


class Lent(torch.optim.Optimizer):
    """Our trainer's step on TRL's gradients: what is planted is held, the norm is clipped, the optimiser is the recipe's, and its rate."""

    def __init__(self, model: Any, base: Path, recipe: Recipe, steps: int) -> None:
        network, stage = folders.load(base), recipe.stages[0]
        for name, parameter in network.named_parameters():
            parameter.data = model.get_parameter(name).data  # one storage
        frozen = {name for pattern in recipe.optimiser.frozen for name in fnmatch.filter(dict(model.named_parameters()), pattern)}
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in frozen)
        self._trained = {name: parameter for name, parameter in model.named_parameters() if name not in frozen}
        super().__init__(list(self._trained.values()), {"lr": stage.lr})
        self._held, self._clip = planted(network), recipe.optimiser.clip
        self._own = an_optimiser(recipe.optimiser)({name: network.get_parameter(name) for name in self._trained})
        self._rates = [stage.lr * (1 - stage.decay * number / stage.iterations) for number in range(stage.iterations)]
        self._steps, self._taken = steps, 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step, by the gradients that are there."""
        gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in self._trained.items()}
        if self._held:
            self._held.still(gradients)
        norm = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one) for one in gradients.values()])))
        for gradient in gradients.values():
            gradient.mul_(min(1.0, self._clip / (norm + 1e-6)))
        rate = self._rates[min(self._taken // self._steps, len(self._rates) - 1)]
        self._own.step(gradients, rate)
        if self._held:
            self._held.restore()
        self._taken += 1


class Kept(TrainerCallback):
    """Writes the model after each generation, and ends the training when the time is over."""

    def __init__(self, bench: Bench, base: Path, out: Path, steps: int, seconds: float) -> None:
        self.bench, self.base, self.out, self.steps, self.seconds = bench, base, out, steps, seconds
        self.writing = 0.0
        self.started = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.started = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **about: Any) -> None:
        if state.global_step % self.steps:
            return
        now = time.monotonic()
        spent, done = now - self.started - self.writing, self.bench.done
        folder = self.out / str(state.global_step)
        about["model"].save_pretrained(folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.base / name, folder / name)
        told = {"step": state.global_step, "seconds": spent, "attempts": self.bench.begun}
        told |= {"solved": sum(one.solved for one in done) / len(done), "stops": Counter(one.trajectory.stop for one in done)}
        with (self.out / "steps.jsonl").open("a") as file:
            file.write(json.dumps(told) + "\n")
        done.clear()
        self.writing += time.monotonic() - now
        control.should_training_stop = spent >= self.seconds


def config(recipe: Recipe, out: Path, rows: int = 4) -> GRPOConfig:
    """The stage as TRL says it: a generation is an iteration's attempts, of which each step takes a minibatch, `rows` at a time."""
    stage = recipe.stages[0]
    return GRPOConfig(
        output_dir=str(out / "trl"),
        seed=recipe.seed,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=stage.minibatch // rows,
        steps_per_generation=stage.tasks * stage.attempts // rows,
        gradient_checkpointing=False,
        num_generations=stage.attempts,
        max_completion_length=stage.context,
        generation_kwargs={"max_new_tokens": recipe.agent.action_tokens},
        learning_rate=stage.lr,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,  # `Lent` clips
        beta=0.0,
        loss_type="dapo",
        epsilon=stage.clip_low,
        epsilon_high=stage.clip_high,
        max_steps=100_000,
        logging_steps=100_000,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


def trained(bench: Bench, base: Path, seconds: float, out: Path) -> None:
    """Trains until so many seconds are over."""
    recipe, stage = bench.recipe, bench.stage
    steps = stage.tasks * stage.attempts // stage.minibatch
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    rows = [{"prompt": [{"role": "user", "content": bench.first(number)}], "number": number} for number in range(len(bench.tasks))]
    trainer = GRPOTrainer(
        model,
        args=config(recipe, out),
        train_dataset=Dataset.from_list(rows),
        processing_class=Spoken.from_pretrained(base, chat_template=TEMPLATE),
        environment_factory=environment(bench),
        optimizers=(Lent(model, base, recipe, steps), None),
        callbacks=[Kept(bench, base, out, steps, seconds)],
    )
    trainer.train()
