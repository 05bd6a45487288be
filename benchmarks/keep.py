"""Runs a benchmark and keeps what it found beside the machine that it was found on; then writes `docs/benchmarks.md` anew.

    python benchmarks/keep.py training/trainer --as trainer-75 --note "two training runs went on beside it" -- --shared 0.75
    python benchmarks/keep.py --page            only the page

A benchmark prints JSON last. `docs/benchmarks/NAME.json` is that, the command, the date, the machine and the versions; `library/page.py`
says how each becomes a table.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.library.command import parser
from benchmarks.library.page import written
from benchmarks.library.records import PAGE, SCRIPTS, kept, records


def main() -> None:
    """Keeps, and writes the page."""
    options = parser(__doc__)
    options.add_argument("name", nargs="?", help="a script below benchmarks/, without .py")
    options.add_argument("--as", dest="label", default="", help="the file's name, where one benchmark has several")
    options.add_argument("--note", default="", help="what else went on on the machine")
    options.add_argument("--page", action="store_true")
    own = sys.argv[1:]
    behind = own.index("--") if "--" in own else len(own)  # the benchmark's own options
    given = options.parse_args(own[:behind])
    if not given.page and not given.name:
        options.error("name a benchmark, or --page")
    if given.name and not (SCRIPTS / f"{given.name}.py").is_file():
        options.error(f"there is no benchmarks/{given.name}.py")
    if given.name:
        print(kept(given.name, own[behind + 1 :], given.label, given.note))
    PAGE.write_text(written(records()))
    print(PAGE)


if __name__ == "__main__":
    main()
