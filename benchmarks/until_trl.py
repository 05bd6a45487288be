"""TRL's side of `benchmarks/until.py`: its GRPO with tools around our sandboxes; runs in an environment that that script makes.

    python until_trl.py RECIPE BASE MINUTES OUT

RECIPE is a TOML file, of which the first stage is meant, BASE a folder with the policy to begin from. TRL samples, calls, trains and
decides the order of all that; an attempt behind its `environment_factory` is ours, so that tasks, tools, limits, sandboxes, remembered
answers, tests and reward are the same to the letter. The optimiser and its rate are ours too, since TRL has none of the kind. After each
generation OUT has the model in a folder of its own, and a line of `steps.jsonl` with the seconds until then, those of writing left out.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, TypeVar

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from patchgrad.config import loads
from patchgrad.errors import ContextFault
from patchgrad.playing import Attempt, World, attempt, drawn
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.recipes import Recipe
from patchgrad.recipes.algorithms import shaped
from patchgrad.recipes.phases import Stage
from patchgrad.recipes.run import tasks
from patchgrad.recipes.world import a_world, sandboxes
from patchgrad.rollout import Budget
from patchgrad.trainers.muon import Muon
from patchgrad.values import Action, Ids, Message, Rollout, Sampling, floats

T = TypeVar("T")
OVER = " over" * 4096  # more than any context: TRL drops it, and lets its attempt end as it is
TEMPLATE = (  # the laptop's, in which an observation is said by the user; TRL wants to see calls where nothing else is said
    "{% for message in messages %}{{ '<|im_start|>' + ('user' if message['role'] == 'tool' else message['role']) + '\\n'"
    " + (message['content'] or message.get('tool_calls') | tojson) + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


class Relay:
    """A policy whose actions somebody else says: `asked` gets what the agent tells it, `said` the answer; `None` gives up."""

    version = 0

    def __init__(self, tokenizer: ChatTokenizer, context: int) -> None:
        self.tokenizer, self.context = tokenizer, context
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.said: asyncio.Queue[str | None] = asyncio.Queue()
        self._told = ""

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        self._told = messages[-1].content
        return self.tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        self.asked.put_nowait(self._told)
        text = await self.said.get()
        if text is None:
            raise ContextFault("there is no more room for this attempt")
        spelled = self.tokenizer.action(text)
        return Action(spelled, floats([0.0] * len(spelled)), 0, text, "stop")

    def release(self, session: str) -> None:
        """It keeps nothing between turns."""


class Bench:
    """The recipe, its tasks, and a loop of its own in which sandboxes live; `done` are the attempts of the generation."""

    def __init__(self, recipe: Recipe, base: Path, archives: Path) -> None:
        self.recipe, self.stage = recipe, recipe.stages[0]
        self.tasks = tasks(recipe, archives).train
        self.tokenizer = ChatTokenizer.load(base)
        self.begun, self.done = 0, list[Rollout]()
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        self.world: World = self.wait(self._made())

    async def _made(self) -> World:
        return a_world(self.recipe.agent, self.recipe.sandbox, sandboxes(self.recipe.sandbox))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Done in the sandboxes' loop, and waited for."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def there(self, work: Coroutine[Any, Any, T]) -> T:
        """The same from another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def first(self, number: int) -> str:
        """What an attempt at this task is told first."""
        said = self.world.agent.prompt(self.tasks[number].instruction, ())
        return str(said.messages[0].content)  # type: ignore[union-attr]


def environment(bench: Bench) -> type:
    """What TRL makes one of for each attempt of a generation."""
    stage, recipe = bench.stage, bench.recipe
    budget = Budget(stage.turns, stage.context, recipe.agent.action_tokens, stage.seconds, recipe.agent.format_errors)
    reward = shaped(stage.length_threshold, stage.turns, stage.length_weight)

    class Terminal:
        """An attempt at one task: whole turns in, what the agent is told out."""

        def reset(self, number: int, **_: Any) -> None:
            name = f"trl/{bench.begun}"
            bench.begun += 1
            item = Attempt(bench.tasks[number], name, drawn(recipe.seed, name))
            bench.wait(self._begin(item))

        async def say(self, text: str) -> str:
            """Takes a turn.

            Args:
                text: The whole turn: a thought, and a command in its block.

            Returns:
                What the agent is told.
            """
            return await bench.there(self._answered(text))

        async def get_reward(self) -> float:
            rollout = await bench.there(self._ended())
            bench.done.append(rollout)
            return rollout.reward.value

        async def _begin(self, item: Attempt) -> None:
            self._relay = Relay(bench.tokenizer, stage.context)
            self._episode = asyncio.create_task(attempt(bench.world, self._relay, item, budget, reward))
            await self._told()

        async def _answered(self, text: str) -> str:
            self._relay.said.put_nowait(text)
            return await self._told()

        async def _told(self) -> str:
            asked = asyncio.create_task(self._relay.asked.get())
            await asyncio.wait({asked, self._episode}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            asked.cancel()
            return OVER

        async def _ended(self) -> Rollout:
            self._relay.said.put_nowait(None)
            return await self._episode

    return Terminal


class Spoken(PreTrainedTokenizerFast):  # type: ignore[misc]
    """Reads every turn as one call of the only tool: what a turn asks for is for the agent to find."""

    response_schema: ClassVar = {"type": "object"}  # TRL asks for one before it asks `parse_response`

    def parse_response(self, response: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """The turn as TRL hands it to the tool."""
        text = self.decode(response, skip_special_tokens=True)
        call = {"type": "function", "function": {"name": "say", "arguments": {"text": text}}}
        return {"role": "assistant", "content": text, "tool_calls": [call]}


class Lent(torch.optim.Optimizer):
    """Our Muon as torch's trainers call it."""

    def __init__(self, named: dict[str, torch.Tensor], rate: float) -> None:
        super().__init__(list(named.values()), {"lr": rate})
        self._named, self._own = named, Muon(named)

    def step(self, closure: Any = None) -> None:
        """One step, by the gradients that are there."""
        still = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in self._named.items()}
        self._own.step(still, self.param_groups[0]["lr"])


class Kept(TrainerCallback):  # type: ignore[misc]
    """Writes the model after each generation, and ends the training when the time is over."""

    def __init__(self, bench: Bench, base: Path, out: Path, steps: int, minutes: float) -> None:
        self.bench, self.base, self.out, self.steps, self.seconds = bench, base, out, steps, 60 * minutes
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
        solved = sum(rollout.solved for rollout in done) / len(done)
        turns = sum(len(rollout.trajectory.turns) for rollout in done) / len(done)
        told = {"step": state.global_step, "seconds": spent, "attempts": self.bench.begun, "pass_at_1": solved, "turns": turns}
        with (self.out / "steps.jsonl").open("a") as file:
            file.write(json.dumps(told) + "\n")
        done.clear()
        self.writing += time.monotonic() - now
        control.should_training_stop = spent >= self.seconds


def config(stage: Stage, out: Path, action_tokens: int) -> GRPOConfig:
    """The stage as TRL says it: a generation is an iteration's attempts, of which each step takes a minibatch."""
    return GRPOConfig(
        output_dir=str(out / "trl"),
        per_device_train_batch_size=stage.minibatch,
        steps_per_generation=stage.tasks * stage.attempts // stage.minibatch,
        gradient_accumulation_steps=1,
        gradient_checkpointing=False,
        num_generations=stage.attempts,
        max_completion_length=stage.context,
        generation_kwargs={"max_new_tokens": action_tokens},
        learning_rate=stage.lr,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
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


def main() -> None:
    toml, base, minutes, out = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    recipe = loads(Recipe, toml.read_text())
    bench, stage = Bench(recipe, base, out / "archives"), recipe.stages[0]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model.get_input_embeddings().weight.requires_grad_(False)  # the laptop's stay as the warm-up left them
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    rows = [{"prompt": [{"role": "user", "content": bench.first(number)}], "number": number} for number in range(len(bench.tasks))]
    reader = Spoken.from_pretrained(base, chat_template=TEMPLATE)
    trainer = GRPOTrainer(
        model,
        args=config(stage, out, recipe.agent.action_tokens),
        train_dataset=Dataset.from_list(rows),
        processing_class=reader,
        environment_factory=environment(bench),
        optimizers=(Lent(trained, stage.lr), None),
        callbacks=[Kept(bench, base, out, stage.tasks * stage.attempts // stage.minibatch, minutes)],
    )
    trainer.train()


if __name__ == "__main__":
    main()
