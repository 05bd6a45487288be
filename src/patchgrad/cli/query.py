"""ask a run in SQL: how, how often, where?

The tables are attempts, turns, trained, metrics, policies and outcomes; several runs are asked together, and each row has its run's name.
DuckDB answers (pip install 'patchgrad[query]'), and a question changes nothing:

  patchgrad query runs/laptop --columns
  patchgrad query runs/laptop "select phase, iteration, avg(solved::int), avg(turns) from attempts group by all order by all"
  patchgrad query runs/laptop "select split_part(arguments, ' ', 1) as word, count(*) from turns group by all order by 2 desc limit 10"
  patchgrad query runs/one runs/two "select run, policy, pass_at_1 from policies" --csv
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError, Refused

SHOWN = 500  # rows in a terminal
WIDTH = 60  # characters of a cell there


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("words", nargs="+", metavar="RUN ... SQL", help="folders of runs, and the question behind them")
    parser.add_argument("--columns", action="store_true", help="every column of every table, and what it is")
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")
    parser.add_argument("--csv", action="store_true", help="the answer as CSV, whole")


def run(arguments: argparse.Namespace) -> int:
    """Ask, and show the answer; 1 where a part of a run could not be read."""
    from patchgrad.runs.inspection.query import Answer, described, query

    refused = Refused()
    if arguments.columns:
        words = [Path(word) for word in arguments.words]
        answer, width = Answer(("table", "column", "type", "what it is"), tuple(described(words, refused))), 1000
    else:
        if len(arguments.words) < 2:
            raise ConfigError('a question follows the run: patchgrad query RUN "select count(*) from attempts"')
        *runs, question = arguments.words
        answer, width = query([Path(word) for word in runs], question, refused), WIDTH
    if arguments.json:
        print(json.dumps({"columns": answer.columns, "rows": answer.rows}, default=str))
    elif arguments.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([answer.columns, *answer.rows])
    else:
        _drawn(answer.columns, answer.rows, width)
    for sentence in refused.sentences:
        print(f"patchgrad: {sentence}", file=sys.stderr)
    return 1 if refused.errors else 0


def _drawn(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from patchgrad.endpoints.response import printable

    shown = Table(*map(printable, columns), box=None, padding=(0, 2, 0, 0), header_style="dim")
    for row in rows[:SHOWN]:
        shown.add_row(*(Text(printable(_cell(value, width))) for value in row))
    Console().print(shown)
    if len(rows) > SHOWN:
        print(f"{len(rows) - SHOWN:,} rows more: --csv shows all of them")


def _cell(value: Any, width: int) -> str:
    """`0.3333`, `true`, and the beginning of a long text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"
