"""A user's function as a reward."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchgrad.errors import ComponentError
from patchgrad.functions import calling, finite, named, requires, timed
from patchgrad.values import Judgement, Reward, Task, Trajectory, Verdict

DESCRIBED = "task, trajectory, verdict), or (task, trajectory, verdict, judgements"


@dataclass(frozen=True, slots=True)
class FunctionReward:
    """What an attempt is worth, by a function of `(task, trajectory, verdict)`, or of these and `judgements`: a number, or a `Reward`.

        def small(task, trajectory, verdict):
            return verdict.resolved / (1 + trajectory.submission.count("\\n") / 100)

        FunctionReward(small)(task, trajectory, verdict, ())     # Reward(0.91, {"small": 0.91})

    Raises `ComponentError` at once for a function with other arguments, and when it is called for one that fails or gives no finite number.
    """

    function: Callable[..., object]

    def __post_init__(self) -> None:
        requires(self.function, "reward", (3, 4), DESCRIBED)

    def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement] = ()) -> Reward:
        given = (task, trajectory, verdict, judgements) if wants_judgements(self.function) else (task, trajectory, verdict)
        with calling("reward", self.function, trajectory.id), timed("reward", self.function, "what takes long is a judge", trajectory.id):
            value = self.function(*given)
        if not isinstance(value, Reward):
            number = finite("reward", self.function, value, "a number or a Reward", trajectory.id)
            return Reward(number, {named(self.function): number})
        number = finite("reward", self.function, value.value, "a Reward", trajectory.id)
        parts = {name: finite("reward", self.function, part, "a Reward", trajectory.id) for name, part in value.parts.items()}
        total = sum(parts.values()) if parts else number
        if not math.isclose(total, number, rel_tol=1e-6, abs_tol=1e-9):
            said = f"The reward {named(self.function)} returned {number:g} on {trajectory.id} in parts that add up to {total:g}"
            raise ComponentError(f"{said}: the parts of a Reward add up to its value.")
        return Reward(number, parts or {named(self.function): number})


def wants_judgements(function: Callable[..., object]) -> bool:
    """Is its fourth argument meant for the judgements? It is called so, or it has to be given."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return False
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 3:
        return positional[3].name == "judgements" or positional[3].default is inspect.Parameter.empty
    return any(one.kind is one.VAR_POSITIONAL for one in parameters)
