"""How a replica stands: a machine of six states, in which nothing but a load of the newest weights leads to `serving`.

```
opening --> stale --> serving <--> draining
   |          ^  ^       |            |
   |          |  |       v            v
   |          |  +--- suspect <-------+        dead <-- from everywhere;  dead --> opening, as a new process
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["opening", "stale", "serving", "draining", "suspect", "dead"]

MOVES: Mapping[State, frozenset[State]] = {
    "opening": frozenset({"stale", "dead"}),
    "stale": frozenset({"suspect", "dead"}),
    "serving": frozenset({"draining", "suspect", "dead"}),
    "draining": frozenset({"stale", "suspect", "dead"}),
    "suspect": frozenset({"stale", "dead"}),
    "dead": frozenset({"opening"}),
}
"""What may follow a state, besides `serving`, which is entered by `Standing.loaded` alone."""


@dataclass(slots=True)
class Standing:
    """A replica's state, and the digest of the weights that it has.

    >>> standing = Standing()
    >>> standing.move("stale")
    >>> standing.loaded("older", newest="newer"), standing.state
    (False, 'stale')
    >>> standing.loaded("newer", newest="newer"), standing.state
    (True, 'serving')
    """

    state: State = "opening"
    weights: str = ""

    def move(self, state: State) -> None:
        """Another state; `ValueError` for one that may not follow."""
        if state not in MOVES[self.state]:
            raise ValueError(f"a replica that is {self.state} cannot be {state} next")
        self.state = state
        if state in ("opening", "dead"):
            self.weights = ""

    def loaded(self, weights: str, newest: str) -> bool:
        """It has these weights. Does it serve from now on? Not where there are newer ones, nor a replica that is suspect or gone."""
        if self.state not in ("stale", "draining"):
            return False
        self.weights = weights
        self.state = "serving" if weights == newest else "stale"
        return self.state == "serving"
