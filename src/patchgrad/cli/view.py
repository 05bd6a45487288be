"""write the page about a run, or about several side by side, and say where it is

Works on a run that is finished, on one that is still going, and on an evaluation that was kept. Of several, those
that differ in nothing but their seed are one recipe's:

  patchgrad view runs/laptop
  patchgrad view runs/laptop --open
  patchgrad view runs/a-1 runs/a-2 runs/b-1 runs/b-2 --out comparison.html

With --serve a browser shows every attempt and every token, and what is new while a run goes on (pip install 'patchgrad[view]'):

  patchgrad view runs/laptop --serve
  patchgrad view runs/laptop --site page     the same as a folder, which a double click on its index.html opens
"""

from __future__ import annotations

import argparse
import json
import webbrowser
from pathlib import Path
from urllib.parse import quote

from patchgrad.cli.options import told
from patchgrad.errors import ConfigError, Refused
from patchgrad.links.listening import Place
from patchgrad.viewer import comparison, report


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", nargs="+", help="a run's folder; of several the first is what others are compared with")
    parser.add_argument("--out", metavar="FILE", help="the page about several runs (default: comparison.html)")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    parser.add_argument("--site", metavar="DIR", help="write the page with all attempts as a folder, which needs no server")
    parser.add_argument("--serve", action="store_true", help="serve the page with all attempts until it is stopped")
    parser.add_argument(
        "--host", default="127.0.0.1", help="where it listens: this machine alone unless a --key is given (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=8517, help="the port (default: 8517)")
    parser.add_argument("--key", default="", help="what each request has to bring, as `Authorization: Bearer KEY` or once as ?key=KEY")
    parser.add_argument("--json", action="store_true", help="the page's path as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Write the page anew from what the folders hold; 1 where some of that cannot be read, which is told."""
    if arguments.serve:
        return _served(arguments)
    if arguments.site:
        return _written(arguments)
    refused = Refused()
    if len(arguments.run) == 1:
        if arguments.out:
            raise ConfigError("The page about one run is the report.html of its folder: leave --out out, or name more runs.")
        page = report(arguments.run[0], refused).resolve()
    else:
        page = comparison(arguments.run, Path(arguments.out or "comparison.html"), refused).resolve()
    print(json.dumps({"page": str(page)}) if arguments.json else page)
    if arguments.open and not webbrowser.open(page.as_uri()):
        print("No browser could be started here; open the file above in one.")
    return told(refused.sentences)


def _written(arguments: argparse.Namespace) -> int:
    from patchgrad.viewer.site.written import write

    out = Path(arguments.site)
    count = write([Path(folder) for folder in arguments.run], out)
    page = (out / "index.html").resolve()
    print(json.dumps({"page": str(page), "attempts": count}) if arguments.json else f"{count} attempts are in {page}")
    if arguments.open:
        webbrowser.open(page.as_uri())
    return 0


def _served(arguments: argparse.Namespace) -> int:
    from patchgrad.viewer.site.server import app, serve

    place = Place(arguments.host, arguments.port, arguments.key)
    made = app([Path(folder) for folder in arguments.run], place)
    address = f"{place.address}/"
    print(f"The page is at {address}{'?key=KEY' if place.key else ''}, until Ctrl-C.", flush=True)
    if arguments.open:
        webbrowser.open(address + (f"?key={quote(place.key)}" if place.key else ""))
    serve(made, place)
    return 0
