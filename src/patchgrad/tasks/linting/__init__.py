"""Is a task what it says? Its solution passes, its bug fails, always; no wrong patch wins; nothing in reach tells the answer.

    report = await lint(members, judge, tools, LintOptions(runs=5))

Every task gets a verdict with its evidence. What is measured are the expected tests of a task and nothing else, since only they decide.
"""

from __future__ import annotations

from patchgrad.tasks.linting.findings import Checked, Finding
from patchgrad.tasks.linting.lint import LintOptions, Report, lint

__all__ = ["Checked", "Finding", "LintOptions", "Report", "lint"]
