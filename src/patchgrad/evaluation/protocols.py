"""What others measure, by name, so that a figure can stand beside theirs: how many runs, which k, how much context."""

from __future__ import annotations

from dataclasses import dataclass

from patchgrad.values import Report


@dataclass(frozen=True, slots=True)
class Protocol:
    """`context` is the most that it allows: less may be asked for, as of a model that reads less.

    Both of those below leave sampling to what a model's developers recommend, so it is the user's to set, and tell no limit of turns.
    """

    name: str
    title: str
    runs: int
    k: int
    context: int

    def told(self, report: Report) -> str:
        """The figures that its tables have: mean over runs, standard error of that mean, and Pass@k."""
        mean = report.over_runs
        return (
            f"{self.title}: resolved {100 * mean.mean:.1f} % with a standard error of {100 * mean.error:.2f} over {self.runs} runs, "
            f"pass@{self.k} {100 * report.pass_at_k.mean:.1f} %."
        )


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("swe-rebench", "The SWE-rebench leaderboard's protocol (arXiv 2505.20411, section 3.2)", 5, 5, 131_072),
        Protocol("nebius2508", "The protocol of arXiv 2508.03501, Table 1", 10, 10, 131_072),
    )
}
