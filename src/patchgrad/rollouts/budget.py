"""What one attempt may use."""

from __future__ import annotations

from dataclasses import dataclass

from patchgrad.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Budget:
    """What one attempt may use: turns, tokens of the whole stream, tokens of one action, seconds on the wall.

    `Budget(turns=40, context=65_536)` is the paper's stage 1, `Budget(80, 131_072)` its stage 2 (Table 3). `format_errors` in a row end
    an attempt too, where it is not 0 (SWE-agent ends it at the third; the paper does not tell): a model that has lost the format seldom
    finds it again, and says its longest turns until the last one.
    """

    turns: int
    context: int
    action_tokens: int = 4096
    seconds: float = 3600.0
    format_errors: int = 0

    def __post_init__(self) -> None:
        if min(self.turns, self.context, self.action_tokens) < 1 or self.seconds <= 0:
            raise ConfigError(f"Every limit of a budget must be above zero, and not all are in {self}.")
