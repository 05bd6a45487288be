"""write the page about a run, and say where it is

Works on a run that is finished and on one that is still going:

  patchgrad view runs/laptop
  patchgrad view runs/laptop --open
"""

from __future__ import annotations

import argparse
import json
import webbrowser

from patchgrad.viewer import report


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    parser.add_argument("--json", action="store_true", help="the page's path as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Write `report.html` anew from what the folder holds."""
    page = report(arguments.run).resolve()
    print(json.dumps({"page": str(page)}) if arguments.json else page)
    if arguments.open and not webbrowser.open(page.as_uri()):
        print("No browser could be started here; open the file above in one.")
    return 0
