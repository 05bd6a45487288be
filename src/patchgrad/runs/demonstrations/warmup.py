"""A network from scratch learns its first words: a tokenizer, heads that copy, one language-model pass over demonstrations."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from patchgrad.contracts import Trainer
from patchgrad.learning.advantages import Ones
from patchgrad.learning.credit import assign
from patchgrad.learning.failures import MASK_FORMAT_ERRORS, Treatment
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.packing import minibatches, pack
from patchgrad.learning.stopping import may_stop
from patchgrad.networks.decoder import Decoder
from patchgrad.policies.tokenizers.chat import START, ChatTokenizer
from patchgrad.recipes.recipe import AgentChoice, Recipe
from patchgrad.runs.demonstrations.idioms import spoken
from patchgrad.runs.demonstrations.induction import Pointing, plant
from patchgrad.runs.planning.shapes import fresh_shape
from patchgrad.tasks.archive import open_archive
from patchgrad.trainers.schedules import cosine
from patchgrad.values import Call, Group, Rollout, ScoredSample, StepSettings, Task, Update, WeightedSample

OURS = AgentChoice()
PART = 4  # of the episodes a later pass has one in so many
OFTEN = 0.1  # operators and numbers lie above it, names and keywords below


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


def pointing(episodes: Sequence[Rollout], tokenizer: ChatTokenizer, agent: AgentChoice = OURS) -> Pointing | None:
    """The tokens that edits begin with: of the observations that show one, at least a share `OFTEN` were followed by an edit of it.

    `None` where what stands before an edit, such as `replace "`, is not spelled in two tokens, or nothing was edited.
    """
    speech = spoken(agent)
    opening = tokenizer.action(speech.opening).tolist()[:-1]
    shown, first = Counter[int](), Counter[int]()
    for turn in (turn for episode in episodes for turn in episode.trajectory.turns):
        shown.update(set(turn.context.tolist()))
        spelled = turn.action.token_ids.tolist()
        if isinstance(turn.call, Call) and turn.call.tool == speech.editing and opening[-1] in spelled[:-1]:
            first[spelled[spelled.index(opening[-1]) + 1]] += 1
    tokens = tuple(sorted(token for token, count in first.items() if count >= OFTEN * shown[token]))
    return Pointing(opening[0], opening[1], tokens, tokenizer.special[START]) if len(opening) == 2 and tokens else None


def fresh_network(recipe: Recipe, tokenizer: ChatTokenizer, shown: Sequence[Rollout]) -> Decoder:
    """A network of the recipe's shape with random weights from its seed, and the heads that copy where the shape asks for them."""
    network = Decoder(fresh_shape(recipe, (tokenizer.stop,)), seed=recipe.seed)
    if recipe.policy.shape.copies:
        plant(network, recipe.seed, pointing(shown, tokenizer, recipe.agent))
    return network


def steps(recipe: Recipe, episodes: int) -> int:
    """How many optimiser steps a pass makes."""
    return recipe.warmup.epochs * -(-episodes // recipe.warmup.batch)


def another(demonstrations: Sequence[Rollout], seed: int, number: int) -> list[Rollout]:
    """The episodes of a later pass: a part of them, another one each time."""
    return random.Random(f"pass {number} {seed}").sample(list(demonstrations), -(-len(demonstrations) // PART))


def warm_up(
    recipe: Recipe, demonstrations: Sequence[Rollout], trainer: Trainer, on_update: Callable[[Update], None], rate: float = 1.0
) -> None:
    """Language modelling of whole episodes, at so much of the recipe's rate; observations count `observation_weight`.

    Attempts that fail are imitated as well, turns that the environment could not use and repeated calls are not: they are there so that the
    next turn is learned, which finds the way back.
    """
    warmup, precision = recipe.warmup, recipe.optimiser.imitation
    tries: Treatment = "mask" if warmup.imitates == "solved" else "keep"
    samples = assign([Group((rollout,)) for rollout in demonstrations], Ones(), {**MASK_FORMAT_ERRORS, "looping": "mask", "undone": tries})
    ready = [WeightedSample.alike(ScoredSample.as_sampled(sample)) for sample in samples]
    count = steps(recipe, len(ready))
    schedule, done = cosine(rate * warmup.lr, count, warmup=min(20, count // 5)), 0
    for epoch in range(warmup.epochs):
        for chosen in minibatches([[sample] for sample in ready], warmup.batch, recipe.seed + epoch):
            may_stop()
            batch = pack(chosen, recipe.optimiser.micro_batch_tokens, warmup.observation_weight, recipe.workers)
            on_update(trainer.update(batch, cross_entropy, StepSettings(schedule(done), precision)))
            done += 1


def taught(recipe: Recipe, episodes: Sequence[Rollout]) -> list[Rollout]:
    """The episodes that are imitated."""
    return [rollout for rollout in episodes if rollout.solved or recipe.warmup.imitates == "all"]
