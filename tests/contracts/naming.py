"""What a test of several parts is called: a function's address is another one in each process, and workers compare names."""

from __future__ import annotations

import re


def named(part: object) -> str:
    """`<function reinforce at 0x7f48>` is `<function reinforce>`."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(part))
