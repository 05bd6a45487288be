"""What an evaluation says: figures with the errors that belong to them, comparisons, and how many runs a question needs.

    figures      pass@k, best@n, and the two errors of a mean: over tasks and over runs
    intervals    95 % that are 95 %: Wilson's interval with an effective sample size
    summary      attempts -> Report
    comparing    two reports on the same tasks -> difference, interval, test, sentence
    comment      the same as Markdown, for who reviews a change
    seeds        the same recipe from several seeds
    planning     how many runs until a difference is seen
    protocols    what others report, by name
    table        the paper's table, and the sentences below it

Two errors exist, because two questions exist:

    over_tasks   how would the figure move with other tasks of this kind? (the default, clustered by task)
    over_runs    how would it move with another run on these tasks? (the paper's: sample deviation of run means / sqrt(runs))
"""

from __future__ import annotations

from patchgrad.evaluation.comment import comment
from patchgrad.evaluation.comparing import Comparison, Versus, compare, versus
from patchgrad.evaluation.figures import best_at_n, bounds, over_runs, over_tasks, pass_at_k, within
from patchgrad.evaluation.intervals import between, repeated, wilson
from patchgrad.evaluation.protocols import PROTOCOLS, Protocol
from patchgrad.evaluation.sample_size import SampleSize, plan
from patchgrad.evaluation.seeds import over_seeds, pooled
from patchgrad.evaluation.summary import Measured, from_outcomes, shares, summarise
from patchgrad.evaluation.table import aligned, details, kinds_of, limits, lines, markdown

__all__ = [
    "Measured",
    "PROTOCOLS",
    "Comparison",
    "SampleSize",
    "Protocol",
    "Versus",
    "aligned",
    "best_at_n",
    "between",
    "bounds",
    "comment",
    "compare",
    "details",
    "from_outcomes",
    "kinds_of",
    "limits",
    "lines",
    "markdown",
    "over_runs",
    "over_seeds",
    "over_tasks",
    "pass_at_k",
    "plan",
    "pooled",
    "repeated",
    "shares",
    "summarise",
    "versus",
    "wilson",
    "within",
]
