"""The base policy where no pre-trained model can be had: demonstrations by the noisy demonstrator, then one language-model pass."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from patchgrad.contracts import Policy
from patchgrad.grading.rewards import Resolved
from patchgrad.learning.advantages import Ones
from patchgrad.learning.credit import assign
from patchgrad.learning.failures import MASK_FORMAT_ERRORS
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.packing import minibatches, pack
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import Lora, merged, reduce
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.policies.tokenizers.chat import START
from patchgrad.policies.vllm import VllmPolicy
from patchgrad.recipes.recipe import Recipe
from patchgrad.rollouts.attempts import Attempt, run_attempt
from patchgrad.rollouts.budget import Budget
from patchgrad.rollouts.harness import Harness
from patchgrad.runs.demonstrations.demonstrator import Demonstrator, drill, look
from patchgrad.runs.demonstrations.induction import Pointing, plant, planted
from patchgrad.runs.planning.device import device
from patchgrad.runs.planning.estimate import caches
from patchgrad.runs.planning.shapes import an_optimiser, fresh_shape
from patchgrad.tasks.archive import open_archive
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import cosine
from patchgrad.values import Call, Ending, Group, Rollout, Task, Turn, Update, Verdict, digest

PRACTICE: dict[str, Callable[[Task, int], Task]] = {"": lambda task, _: task, "drill": lambda task, _: drill(task), "look": look}
OFTEN = 0.1  # operators and numbers lie above it, names and keywords below


@dataclass(frozen=True, slots=True)
class Lesson:
    """`count` episodes of at most `turns` turns: whole demonstrations, or practice.

    A `drill` is a look and eleven edits, without tests; a `look` is the first turn, which opens the file that an issue of gibberish names.
    Nobody judges what is imitated whether it succeeds or not, unless it is to be told how often it does: then it is `graded`.
    """

    label: str
    count: int
    turns: int
    practice: Literal["", "drill", "look"] = ""
    graded: bool = False


async def demonstrate(
    recipe: Recipe,
    tasks: Sequence[Sequence[Task]],
    harness: Harness,
    tokenizer: ChatTokenizer,
    lesson: Lesson,
    on_rollout: Callable[[Rollout], None],
) -> list[Rollout]:
    """A lesson by the demonstrator through the ordinary loop, on tasks drawn from the seed; episodes come back in the order of the draw."""
    pools = [kind[: recipe.warmup.tasks] for kind in tasks if kind]
    drawn = dealt(pools, lesson.count, random.Random(f"{lesson.label} {recipe.seed}"))
    practice = PRACTICE[lesson.practice]
    items = [Attempt(practice(task, before), f"{lesson.label}/{i}", i) for i, (task, before) in enumerate(drawn)]
    budget = Budget(lesson.turns, recipe.policy.context, 256)
    harness = harness if lesson.graded else replace(harness, grade=_ungraded)
    known = harness.recall

    def ended(name: str, beginning: str) -> tuple[tuple[Turn, ...], Ending | None]:
        """An episode that was interrupted begins again: the demonstrator remembers what it has tried, and no turn tells that."""
        turns, ending = known(name, beginning)
        return (turns, ending) if ending else ((), None)

    harness = replace(harness, recall=ended)

    def demonstrator(item: Attempt) -> Policy:
        seed = int(digest(item.id, str(recipe.seed))[:15], 16)
        return Demonstrator(
            item.task,
            recipe.warmup.demonstrator,
            seed,
            tokenizer.encode,
            tokenizer.action,
            recipe.policy.context,
            lesson.practice == "drill",
        )

    async def episode(item: Attempt) -> Rollout:
        rollout = await run_attempt(harness, demonstrator(item), item, budget, Resolved())
        on_rollout(rollout)
        return rollout

    shown = [rollout async for rollout in harness.executor.map(episode, items)]
    order = {item.id: i for i, item in enumerate(items)}
    return sorted(shown, key=lambda rollout: order[rollout.trajectory.id])


def dealt(pools: Sequence[Sequence[Task]], count: int, chooser: random.Random) -> list[tuple[Task, int]]:
    """So many tasks, each with how often it was dealt before: from each pool as likely as from the others, and none twice until all were.

    Of one pool of three tasks, seven: all three in some order, all three in another, and one, which comes with a 2.
    """
    hands: list[list[Task]] = [[] for _ in pools]
    before: Counter[str] = Counter()
    found = []
    for _ in range(count):
        which = chooser.randrange(len(pools))
        if not hands[which]:
            hands[which] = chooser.sample(pools[which], len(pools[which]))
        task = hands[which].pop()
        found.append((task, before[task.id]))
        before[task.id] += 1
    return found


async def _ungraded(task: Task, patch: str) -> Verdict:
    return Verdict(task.id, patch, (), ())


def learn_tokenizer(recipe: Recipe, tasks: Sequence[Task], episodes: Sequence[Rollout], spelled: ChatTokenizer) -> ChatTokenizer:
    """A BPE vocabulary from what the first episodes said and from the training repositories; `spelled` reads the episodes."""
    texts = [spelled.decode(s.tokens().tolist()) for r in episodes for s in r.trajectory.segments]
    archives = {task.repository.digest: task.repository for task in tasks if task.repository.kind == "archive"}
    files = [item for repository in list(archives.values())[:200] for item in open_archive(repository).items()]
    texts += [content.decode(errors="replace") for name, content in files if name.endswith(".py")]
    texts += [task.instruction for task in tasks]
    return ChatTokenizer.train(
        [text.replace("<|im_start|>", "\n").replace("<|im_end|>", "\n") for text in texts], recipe.policy.shape.vocabulary
    )


def pointing(episodes: Sequence[Rollout], tokenizer: ChatTokenizer) -> Pointing | None:
    """The tokens that edits begin with: of the observations that show one, at least a share `OFTEN` were followed by an edit of it.

    `None` where `replace "` is not spelled in two tokens, or nothing was edited.
    """
    opening = tokenizer.action('replace "').tolist()[:-1]
    shown, first = Counter[int](), Counter[int]()
    for turn in (turn for episode in episodes for turn in episode.trajectory.turns):
        shown.update(set(turn.context.tolist()))
        spelled = turn.action.token_ids.tolist()
        if isinstance(turn.call, Call) and turn.call.tool == "replace" and opening[-1] in spelled[:-1]:
            first[spelled[spelled.index(opening[-1]) + 1]] += 1
    tokens = tuple(sorted(token for token, count in first.items() if count >= OFTEN * shown[token]))
    return Pointing(opening[0], opening[1], tokens, tokenizer.special[START]) if len(opening) == 2 and tokens else None


def fresh_network(recipe: Recipe, tokenizer: ChatTokenizer, shown: Sequence[Rollout]) -> Decoder:
    """A network of the recipe's shape with random weights from its seed, and the heads that copy where the shape asks for them."""
    network = Decoder(fresh_shape(recipe, (tokenizer.stop,)), seed=recipe.seed)
    if recipe.policy.shape.copies:
        plant(network, recipe.seed, pointing(shown, tokenizer))
    return network


def a_trainer(network: Decoder, recipe: Recipe) -> LocalTrainer:
    """The recipe's optimiser over a network, or over adapters of it, where the recipe computes; planted heads are held."""
    choice, there = recipe.optimiser, device(recipe.machine.gpus)
    return LocalTrainer(
        network,
        optimiser=an_optimiser(choice),
        clip=choice.clip,
        precision=choice.precision,
        gradient_checkpointing=choice.gradient_checkpointing,
        lora=Lora(choice.rank, choice.alpha) if choice.rank else None,
        base=recipe.policy.model,
        threads=recipe.workers,
        held=planted(network.to(there)) if planted(network) else None,
        offload=choice.offload,
        device=there,
    )


def a_reference(network: Decoder, recipe: Recipe) -> LocalTrainer:
    """A network that scores and never learns, computed as the trainer's is: nothing of it wants a gradient, nor a place in an optimiser."""
    choice = recipe.optimiser
    network.requires_grad_(False).to(device(recipe.machine.gpus))
    if choice.precision == "bfloat16" and (choice.rank or choice.offload):
        reduce(network, torch.bfloat16)
    return LocalTrainer(network, precision=choice.precision, threads=recipe.workers)


def a_policy(network: Decoder, tokenizer: ChatTokenizer, recipe: Recipe) -> EmbeddedPolicy | VllmPolicy:
    """A policy with room for every live episode and for as many whose cache may still be of use."""
    policy = recipe.policy
    if policy.vllm:
        return VllmPolicy(
            network.config,
            merged(network),
            tokenizer,
            context=policy.context,
            sessions=recipe.sandbox.concurrency,
            python=policy.vllm,
            options=("--dtype", recipe.optimiser.precision, *(f"--{option}" for option in policy.options)),
        )
    return EmbeddedPolicy(
        network,
        tokenizer,
        sessions=2 * recipe.sandbox.concurrency,
        context=policy.context,
        threads=policy.threads,
        room=caches(recipe) if recipe.machine.gpus else 0,
        precision=recipe.optimiser.precision,
    )


def open_model(source: str | Path, recipe: Recipe) -> tuple[LocalTrainer, EmbeddedPolicy | VllmPolicy]:
    """Trainer and policy of a checkpoint folder or a hub id: one network's shape, rotary positions included. What is frozen is."""
    path = folder.locate(source)
    network, tokenizer = folder.load(path, recipe.policy.context, recipe.policy.yarn), ChatTokenizer.load(path)
    trainer = a_trainer(network, recipe)
    trainer.freeze(recipe.optimiser.frozen)
    return trainer, a_policy(network, tokenizer, recipe)


def warm_up(
    recipe: Recipe,
    demonstrations: Sequence[Rollout],
    trainer: LocalTrainer,
    on_update: Callable[[Update], None],
) -> None:
    """Language modelling of whole episodes; observations count `observation_weight`.

    Attempts that fail are imitated as well, turns that the environment could not use are not: they are there so that the next turn is
    learned, which finds the way back.
    """
    warmup = recipe.warmup
    samples = assign([Group((rollout,)) for rollout in demonstrations], Ones(), MASK_FORMAT_ERRORS)
    steps = warmup.epochs * -(-len(samples) // warmup.batch)
    trainer.schedule = cosine(warmup.lr, steps, warmup=min(20, steps // 5))
    for epoch in range(warmup.epochs):
        for chosen in minibatches([[sample] for sample in samples], warmup.batch, recipe.seed + epoch):
            batch = pack(chosen, recipe.optimiser.micro_batch_tokens, warmup.observation_weight, recipe.workers)
            update = trainer.update(batch, cross_entropy)
            on_update(update)
