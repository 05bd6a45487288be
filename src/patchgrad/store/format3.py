"""Names that runs of format 3 hold and that have other ones now; they are translated where a run is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

METRICS: Mapping[str, str] = {
    "gap": "logprob_diff",
    "surprise": "sampling_z",
    "probe_gap": "probe_logprob_diff",
    "effective": "ess",
    "sampler_effective": "sampler_ess",
    "penalty": "kl_penalty",
}
"""Old -> new, of an iteration's record and of each of its steps."""


def metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    """An iteration's record under today's names: `metrics({"gap": 1e-6})` -> `{"logprob_diff": 1e-06}`."""
    told = {METRICS.get(name, name): item for name, item in row.items()}
    if "steps" in told:
        told["steps"] = [metrics(step) for step in told["steps"]]
    return told
