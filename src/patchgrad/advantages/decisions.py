"""Blame where there was a choice.

| estimator   | advantage of a token                                         | after                  |
|-------------|--------------------------------------------------------------|------------------------|
| `Decisions` | of `inner`; 0 where it is negative and the token was certain | 80/20 rule, 2506.01939 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from patchgrad.contracts import Estimator
from patchgrad.values import Floats, Group, floats


@dataclass(frozen=True, slots=True)
class Decisions:
    """The advantages of `inner`, but a token that the policy was `certain` of is never blamed.

    What a failed attempt did wrong are its choices. Most of its tokens are form: they stand in every attempt, sampled with a probability
    near 1, and blame for them adds up until a fence or a fixed option breaks. The rule trains the least certain fifth of the tokens
    alone; here what is certain is still rewarded, which holds it fast.

    With `certain=0.9`, advantages of -1 on tokens of probabilities 0.99 and 0.5 become 0 and -1; advantages of 1 stay.
    """

    inner: Estimator
    certain: float = 0.9

    def __call__(self, group: Group) -> list[Floats]:
        sampled = [np.concatenate([turn.action.logprobs for turn in rollout.trajectory.turns]) for rollout in group.rollouts]
        return [
            floats(np.where((advantages < 0) & (logprobs > math.log(self.certain)), 0.0, advantages))
            for advantages, logprobs in zip(self.inner(group), sampled, strict=True)
        ]
