"""TRL's side of `benchmarks/until.py`: its GRPO with tools around our sandboxes; runs in an environment that that script makes.

    python until_trl.py RECIPE BASE SECONDS OUT

RECIPE is a TOML file, of which the first stage is meant, BASE a folder with the policy to begin from. TRL samples, calls, trains and
decides the order of all that; an attempt behind its `environment_factory` is ours, so that tasks, tools, limits, sandboxes, tests, reward
and, where the recipe says `sandbox.cache`, remembered answers are the same to the letter. The step is ours too, `Lent`: Muon, its rate over
the stage, clipping, planted heads that are held, embeddings that stay. TRL has none of the kind, and without them this network learns less
(docs/studies/laptop.md).

After each generation OUT has the model in a folder of its own, and a line of `steps.jsonl` with the seconds until then, those of writing
left out. `generate` is TRL's plain way to sample; its other two, continuous batching and vLLM, were not tried on a CPU.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, TypeVar

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from patchgrad.config import loads
from patchgrad.errors import ContextFault
from patchgrad.networks import folder as folders
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.recipes import Recipe
from patchgrad.rollouts.attempts import Attempt, derive_seed, run_attempt
from patchgrad.rollouts.harness import Harness
from patchgrad.runs.algorithms import shaped
from patchgrad.runs.build import build_harness, sandboxes
from patchgrad.runs.demonstrations.induction import planted
from patchgrad.runs.demonstrations.lessons import an_optimiser
from patchgrad.runs.train import tasks
from patchgrad.values import Action, Ids, Message, Rollout, Sampling, Task, Verdict, floats

T = TypeVar("T")
OVER = " over" * 4096  # more than any context: TRL drops it, and lets its attempt end as it is
CUT = "<cut>"  # in front of what follows a turn that has no end, which ours puts in
TEMPLATE = (  # the laptop's, in which an observation is said by the user; TRL wants to see calls where nothing else is said
    "{% for message in messages %}{% set said = message['content'] or message.get('tool_calls') | tojson %}"
    "{{ '<|im_end|>' if said.startswith('<cut>') else '' }}{{ '' if loop.first else '\\n' }}"
    "{{ '<|im_start|>' + ('user' if message['role'] == 'tool' else message['role']) + '\\n' + said.removeprefix('<cut>') + '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif %}"
)
FOREVER = 86_400.0  # all attempts of a generation wait for the slowest: a limit of seconds would be one of TRL's batch


class Relay:
    """A policy whose actions somebody else says: `asked` gets what the agent tells it, `said` the answer.

    Once it is closed every action is refused, which ends an attempt as a full context does; an attempt that begins again, as ours do after
    a sandbox broke, closes it, since whoever speaks cannot begin again.
    """

    version = 0

    def __init__(self, tokenizer: ChatTokenizer, context: int) -> None:
        self.tokenizer, self.context = tokenizer, context
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.closed = asyncio.Event()
        self._content, self._begun = "", False

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        if previous is None and self._begun:
            self.closed.set()
        self._content, self._begun = messages[-1].content, True
        return self.tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        if not self.closed.is_set():
            self.asked.put_nowait(self._content)
        answer, closed = asyncio.ensure_future(self.said.get()), asyncio.ensure_future(self.closed.wait())
        await asyncio.wait({answer, closed}, return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        if not answer.done():
            answer.cancel()
            raise ContextFault("there is no more room for this attempt")
        text = answer.result()
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
        self.harness: Harness = self.wait(self._made())

    async def _made(self) -> Harness:
        return build_harness(self.recipe.agent, self.recipe.sandbox, sandboxes(self.recipe.sandbox))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Done in the sandboxes' loop, and waited for."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def elsewhere(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for who is in another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def first(self, number: int) -> str:
        """What an attempt at this task is told first."""
        said = self.harness.agent.prompt(self.tasks[number].instruction, ())
        return str(said.messages[0].content)  # type: ignore[union-attr]


def environment(bench: Bench) -> type:
    """What TRL makes one of for each attempt of a generation."""
    stage, recipe = bench.stage, bench.recipe
    budget = recipe.agent.budget(replace(stage.limits, seconds=FOREVER))
    reward = shaped(stage.reward.length_threshold, stage.limits.turns, stage.reward.length_weight)

    class Terminal:
        """An attempt at one task: whole turns in, what the agent is told out."""

        def reset(self, number: int, **_: Any) -> None:
            name = f"trl/{bench.begun}"
            bench.begun += 1
            bench.wait(self._begin(Attempt(bench.tasks[number], name, derive_seed(recipe.seed, name))))

        async def say(self, text: str, cut: bool) -> str:
            """Takes a turn.

            Args:
                text: The whole turn: a thought, and a command in its block.
                cut: Whether it was cut before its end.

            Returns:
                What the agent is told.
            """
            told = await bench.elsewhere(self._answered(text))
            return CUT + told if cut else told

        async def get_reward(self) -> float | None:
            rollout = await bench.elsewhere(self._ended())
            bench.done.append(rollout)
            return None if rollout.broken else rollout.reward.value

        async def _begin(self, item: Attempt) -> None:
            self._relay = Relay(bench.tokenizer, stage.limits.context)
            self._first = True
            self._episode = asyncio.create_task(run_attempt(replace(bench.harness, grade=self._graded), self._relay, item, budget, reward))

        async def _graded(self, task: Task, submission: str) -> Verdict:
            self._relay.asked.put_nowait(OVER)  # TRL need not wait for the tests
            return await bench.harness.grade(task, submission)

        async def _answered(self, text: str) -> str:
            if self._first:  # what it is told first stands in the prompt
                await self._heard()
                self._first = False
            self._relay.said.put_nowait(text)
            return await self._heard()

        async def _heard(self) -> str:
            asked, closed = asyncio.create_task(self._relay.asked.get()), asyncio.create_task(self._relay.closed.wait())
            await asyncio.wait({asked, closed, self._episode}, return_when=asyncio.FIRST_COMPLETED)
            closed.cancel()
            if asked.done():
                return asked.result()
            asked.cancel()
            return OVER

        async def _ended(self) -> Rollout:
            self._relay.closed.set()
            return await self._episode

    return Terminal


class Spoken(PreTrainedTokenizerFast):  # type: ignore[misc]
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

    def step(self, closure: Any = None) -> None:
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


class Kept(TrainerCallback):  # type: ignore[misc]
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
        gradient_accumulation_steps=stage.loss.minibatch // rows,
        steps_per_generation=stage.sampling.tasks * stage.sampling.attempts // rows,
        gradient_checkpointing=False,
        num_generations=stage.sampling.attempts,
        max_completion_length=stage.limits.context,
        generation_kwargs={"max_new_tokens": recipe.agent.action_tokens},
        learning_rate=stage.lr,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,  # `Lent` clips
        beta=0.0,
        loss_type="dapo",
        epsilon=stage.row.clip_low,
        epsilon_high=stage.row.clip_high,
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
    toml, base, seconds, out = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    recipe = loads(Recipe, toml.read_text())
    bench, stage = Bench(recipe, base, out / "archives"), recipe.stages[0]
    steps = stage.sampling.tasks * stage.sampling.attempts // stage.loss.minibatch
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


if __name__ == "__main__":
    main()
