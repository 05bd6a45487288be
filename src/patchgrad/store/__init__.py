"""The run folder: append-only values, checkpoints, resume; common tools can read all of it.

    runs/NAME/
    ├── run.json            format number; without it a folder is foreign and never touched
    ├── recipe.toml         prints back exactly
    ├── tasks.jsonl         every task that was used, once
    ├── journal/*.jsonl     one line a turn, hash-chained; arrays are little-endian base64
    ├── states/*.pack       what the turns left behind, by content: every file once
    ├── rollouts/*.parquet  one row a rollout, a file per phase and iteration
    ├── trained/*.parquet   what optimiser steps made of each token, beside them
    ├── metrics.jsonl       one line an iteration; the last line of an iteration counts
    ├── checkpoints/STEP/   written under another name, then renamed
    ├── state.json          what is complete: the point from which `--resume` goes on
    ├── predictions.jsonl   SWE-bench's format
    ├── report.json         the table
    └── report.html         the page

One process writes (a lock says so), any number read at the same time. A line without its newline was never written.
"""

from __future__ import annotations

from patchgrad.store.about import FORMAT
from patchgrad.store.codec import finite, plain, value
from patchgrad.store.journal import Entry
from patchgrad.store.reports import read_report, read_reports
from patchgrad.store.run import Run
from patchgrad.store.run_journal import RunJournal
from patchgrad.store.states import States

__all__ = ["FORMAT", "Entry", "Run", "RunJournal", "States", "finite", "plain", "read_report", "read_reports", "value"]
