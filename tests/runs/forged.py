"""A sampler that takes what it was not told from a model's generation_config.json, which may be forged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from patchgrad.policies.embedded import EmbeddedPolicy
from patchgrad.values import Action, Ids, Sampling


def inherited(path: Path) -> Sampling:
    """What such a file asks for."""
    told = json.loads(path.read_text())
    return Sampling(1, 0, **{name: told[name] for name in ("temperature", "top_p", "top_k") if name in told})


class Inheriting(EmbeddedPolicy):
    """Says that it samples as it was asked to, and cuts or sharpens as `forged` does."""

    forged = Sampling(1, 0)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        forged = self.forged
        bent = replace(sampling, top_k=forged.top_k, top_p=forged.top_p, temperature=forged.temperature, purpose="study")
        return await super().act(session, tokens, bent)
