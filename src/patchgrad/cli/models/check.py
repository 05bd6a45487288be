"""is a model read as transformers reads it?

A real first prompt, a second turn, a system message and an answer with a thought are spelt by the policy's tokenizer and by
transformers, and log-probabilities of a prompt are computed by both:

  patchgrad models check models/smollm2-135m-instruct
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

_INSTRUCTION = """The total of a cart is wrong when an item is taken out.

```python
>>> cart = Cart(["tea", "salt"])
>>> cart.remove("tea"); cart.total()
-1
```
"""
_OBSERVATION = "[File: /testbed/shop/cart.py (3 lines total)]\n1:class Cart:\n2:\tdef total(self):  # caf\u00e9\n3:        return  -1\n"


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("model", metavar="MODEL", help="a folder, or a hub id")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Compare, tell, and exit with 1 where something differs."""
    from patchgrad.agents.react import ReactAgent
    from patchgrad.agents.tools import toolset
    from patchgrad.contracts import Extend
    from patchgrad.models.checking import findings
    from patchgrad.networks.folder import locate

    asked = ReactAgent(toolset()).prompt(_INSTRUCTION, ())
    found = list(findings(locate(arguments.model), asked.messages if isinstance(asked, Extend) else (), _OBSERVATION))
    if arguments.json:
        print(json.dumps({"findings": [asdict(one) for one in found]}))
    else:
        for one in found:
            mark = {True: "ok", False: "DIFFERS", None: "?"}[one.holds]
            print(f"{mark:<8} {one.name}: {one.note}")
    return int(any(one.holds is False for one in found))
