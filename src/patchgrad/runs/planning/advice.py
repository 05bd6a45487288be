"""What to change where a recipe does not fit into memory; a recipe that cannot fit is refused before it starts."""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from patchgrad.config import leaves, override
from patchgrad.errors import ConfigError, OutOfMemory, ran_out
from patchgrad.recipes.recipe import Recipe, option_name
from patchgrad.runs.planning.estimate import cached, free_for, plan
from patchgrad.runs.planning.packs import phases
from patchgrad.runs.planning.plan import MemoryPlan, size
from patchgrad.runs.planning.shapes import shape_of
from patchgrad.trainers.allocator import give_back

TIGHT = 0.4  # of what is free; a heap that keeps what was freed held up to 2.1 times as much
Change = Callable[[Recipe], Mapping[str, str]]


def _packed(recipe: Recipe) -> Mapping[str, str]:
    """Packs no longer than the longest attempt."""
    longest = max((recipe.rft.limits.context, *(stage.limits.context for stage in recipe.stages)))
    return {"optimiser.micro_batch_tokens": str(min(recipe.optimiser.micro_batch_tokens, longest))}


def _fewer(share: int) -> Change:
    return lambda recipe: {"sandbox.concurrency": str(max(1, recipe.sandbox.concurrency // share))}


def _shorter(share: int) -> Change:
    """Contexts of a share of the policy's at most, packs too."""

    def change(recipe: Recipe) -> Mapping[str, str]:
        most, own = recipe.policy.context // share, leaves(recipe)
        told = {name: min(int(value), most) for name, value in own.items() if name.endswith("context") and value != most}
        return {
            name: str(value)
            for name, value in (told | {"optimiser.micro_batch_tokens": min(recipe.optimiser.micro_batch_tokens, most)}).items()
        }

    return change


def _less_served(recipe: Recipe) -> Mapping[str, str]:
    """Half of a GPU for vLLM's server."""
    if not (recipe.policy.vllm and recipe.machine.gpus):
        return {}
    others = [option for option in recipe.policy.options if option_name(option) != "gpu-memory-utilization"]
    return {"policy.options": ",".join([*others, "gpu-memory-utilization=0.5"])}


CHANGES: tuple[Change, ...] = (
    _less_served,
    lambda recipe: {"optimiser.gradient_checkpointing": "true"},
    _packed,
    lambda recipe: {"optimiser.threads": "1"},
    _fewer(2),
    _fewer(4),
    lambda recipe: {"optimiser.precision": "bfloat16"},
    lambda recipe: {"optimiser.offload": "true"},
    lambda recipe: {"optimiser.rank": "16"},
    _shorter(2),
    _shorter(4),
)
"""What takes less memory, that which costs least first."""


def advice(recipe: Recipe, room: int = 0, beside: int = 0) -> tuple[dict[str, str], MemoryPlan]:
    """The fields to set so that the recipe fits, and its plan then: the first of `CHANGES` that are enough, without those not needed.

    Where all of them are not enough they are those that help, and the plan does not fit.
    """
    taken: list[Mapping[str, str]] = []
    found = plan(recipe, room, beside)
    for change in CHANGES:
        if found.fits:
            break
        try:
            other = plan(override(recipe, _all([*taken, change(recipe)])), room, beside)
        except ConfigError:  # without a GPU nothing is offloaded, without a model there are no adapters, and a context has a least length
            continue
        if other.peak < found.peak or other.host < found.host:
            taken, found = [*taken, change(recipe)], other
    for one in taken[:-1] if found.fits else []:
        fewer = [other for other in taken if other is not one]
        if (other := plan(override(recipe, _all(fewer)), room, beside)).fits:
            taken, found = fewer, other
    return _all(taken), found


def settle(recipe: Recipe) -> None:
    """Raises `OutOfMemory` for a recipe that needs more than is free here, and says what to change.

    One that needs two fifths of it or more gives memory back as soon as it can, which takes time; others need not.
    """
    if _ceiling(recipe) < TIGHT * free_for(recipe):
        return
    needs = plan(recipe)
    if not needs.fits:
        raise OutOfMemory(f"This needs more memory than there is: {_told(recipe)}")
    if needs.peak > TIGHT * needs.room and not recipe.machine.gpus:
        give_back()


@contextmanager
def exhausted(told: Callable[[], str]) -> Iterator[None]:
    """An allocation that fails becomes `OutOfMemory` with this advice, which is asked for when what was held has been let go."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        before: BaseException | None = error
        while before is not None:
            traceback.clear_frames(before.__traceback__)
            before = before.__context__
        gc.collect()
        raise OutOfMemory(f"Memory ran out: {_if_it_can(told)}") from error


def _if_it_can(told: Callable[[], str]) -> str:
    try:
        return told()
    except (MemoryError, RuntimeError):  # as of a GPU whose driver answers no more
        return "and there is not enough left to say what would fit; patchgrad plan does."


def advised(recipe: Recipe) -> AbstractContextManager[None]:
    """`exhausted` with what to change of a recipe."""
    return exhausted(lambda: f"{_told(recipe)} What was committed stands; --resume goes on.")


def _told(recipe: Recipe) -> str:
    needs, (changes, then) = plan(recipe), advice(recipe)
    told = f"{needs.phase} takes {size(needs.peak)} and {size(needs.room)} are free."
    if needs.host > needs.beside:
        told += f" Its optimiser takes {size(needs.host)} of host memory, of which {size(needs.beside)} are free."
    words = " ".join(f"--{name} {value}" for name, value in changes.items())
    if not changes:
        return f"{told} By the plan it fits, so something else has taken memory meanwhile."
    if then.fits:
        return f"{told} It would fit with {words} ({size(then.peak)})."
    return f"{told} Even with {words} it takes {size(then.peak)}: take a smaller model or a larger machine."


def _ceiling(recipe: Recipe) -> float:
    """More than a recipe takes, by arithmetic alone, because a rehearsal takes seconds: most recipes are far below.

    What a server takes of a GPU is a share of it, so that is always looked at.
    """
    if recipe.policy.vllm and recipe.machine.gpus:
        return math.inf
    shape = shape_of(recipe)
    layer = 40 * shape.hidden + 12 * shape.intermediate + 12 * shape.head_size * (shape.heads + 2 * shape.kv_heads)
    tokens = max(phase.tokens for phase in phases(recipe))
    passing = 4 * recipe.beside * tokens * (shape.layers * layer + 4 * shape.vocabulary)
    processes = 1 if recipe.machine.gpus else 1 + recipe.ranks
    return processes * (1e9 + 40 * shape.parameters) + passing + cached(shape, recipe)


def _all(changes: list[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for change in changes for name, value in change.items()}
