"""Advantages over an iteration's groups at once.

| step       | advantage of a token                          | from                   |
|------------|-----------------------------------------------|------------------------|
| `whitened` | less the mean over all tokens, over their deviation | REINFORCE++ 2501.03262 |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from patchgrad.values import Bools, Floats, floats


def whitened(advantages: Sequence[Floats], kept: Sequence[Bools]) -> list[Floats]:
    """Advantages whose mean over all kept tokens is 0 and whose deviation is 1; where all are equal, zeros.

    A batch's deviation is a steadier scale than a group's, and its mean a baseline where a group has none. Tokens are counted, so
    long attempts weigh more in both. Advantages of 1 on two tokens and of 0 on two others become 1 and -1.
    """
    values = (
        np.concatenate([part[keep] for part, keep in zip(advantages, kept, strict=True)], dtype=np.float64) if advantages else np.zeros(0)
    )
    if not len(values) or not (values != values[0]).any():
        return [floats(np.zeros(len(part))) for part in advantages]
    mean, scale = values.mean(), np.sqrt(values.var() + 1e-8)
    return [floats((part - mean) / scale) for part in advantages]
