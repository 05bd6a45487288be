"""show runs in the browser: their report, every attempt and every token, and what is new while a run goes on

Works on a run that is finished, on one that is still going, and on an evaluation that was kept (pip install 'patchgrad[view]'). Several
runs are compared; those that differ in nothing but their seed are one recipe's:

  patchgrad view runs/laptop                      serves the page, prints its address and opens it
  patchgrad view runs/a-1 runs/a-2 runs/b-1 runs/b-2
  patchgrad view runs/laptop --no-open            serves it and prints its address alone
  patchgrad view runs/laptop --out page           the same as a folder, which a double click on its index.html opens
  patchgrad view runs/laptop --out report.html    the report alone, as one file

Where the output is no terminal, as in a script, nothing is served unless --no-open, --host, --port or --key is given: the report is written
as one file, report.html in the run's folder or comparison.html here for several runs, and its path is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import webbrowser
from pathlib import Path
from urllib.parse import quote

from patchgrad.cli.options import removed, told
from patchgrad.errors import ConfigError, Refused
from patchgrad.links.listening import Place
from patchgrad.viewer import comparison, report

SERVER = ("open", "host", "port", "key", "host_name")
"""Words that are about a page that is served."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("run", metavar="RUN", nargs="+", help="a run's folder; of several the first is what others are compared with")
    parser.add_argument(
        "--out", metavar="PATH", help="write it and serve nothing: a folder, or the report as one file where it ends in .html"
    )
    parser.add_argument("--no-open", dest="open", action="store_const", const=False, help="serve the page and open no browser")
    parser.add_argument("--host", help="where it listens: this machine alone unless a --key is given (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port (default: 8517)")
    parser.add_argument("--key", help="what each request has to bring, as `Authorization: Bearer KEY` or once as ?key=KEY")
    parser.add_argument("--host-name", metavar="NAME", action="append", help="a name of this machine that requests come under")
    parser.add_argument("--json", action="store_true", help="the page's address or path as JSON")
    removed(parser, "--serve", "`patchgrad view RUN` serves the page, and in a script `patchgrad view RUN --no-open` does.")
    removed(parser, "--open", "`patchgrad view RUN` opens the page, unless --no-open is given.")
    removed(parser, "--site", "--out DIR writes the page as a folder.")


def run(arguments: argparse.Namespace) -> int:
    """Show the runs; 1 where some of what is written as one file cannot be read, which is told."""
    asked = [name for name in SERVER if getattr(arguments, name) is not None]
    if arguments.out is not None:
        if asked:
            word = "--no-open" if asked[0] == "open" else f"--{asked[0].replace('_', '-')}"
            raise ConfigError(f"{word} has no meaning with --out, which writes the page and serves nothing.")
        out = Path(arguments.out)
        return _file(arguments, out) if out.suffix == ".html" else _folder(arguments, out)
    if asked or sys.stdout.isatty():
        return _served(arguments)
    return _file(arguments, None)


def _file(arguments: argparse.Namespace, out: Path | None) -> int:
    refused = Refused()
    if len(arguments.run) == 1:
        page = report(arguments.run[0], refused, out)
    else:
        page = comparison(arguments.run, out or Path("comparison.html"), refused)
    print(json.dumps({"page": str(page.resolve())}) if arguments.json else page.resolve())
    return told(refused.sentences)


def _folder(arguments: argparse.Namespace, out: Path) -> int:
    from patchgrad.viewer.site.written import write

    count = write(_folders(arguments), out)
    page = (out / "index.html").resolve()
    print(json.dumps({"page": str(page), "attempts": count}) if arguments.json else f"{count} attempts are in {page}")
    return 0


def _served(arguments: argparse.Namespace) -> int:
    from patchgrad.viewer.site.server import app, serve

    given = {name: getattr(arguments, name) for name in ("host", "port", "key", "host_name")}
    place = Place(**{name: value for name, value in given.items() if value is not None})
    made = app(_folders(arguments), place)

    def listening() -> None:
        page = f"{place.address}/{'?key=KEY' if place.key else ''}"
        print(json.dumps({"page": page}) if arguments.json else f"The page is at {page}, until Ctrl-C.", flush=True)
        if arguments.open is None and _display():
            webbrowser.open(f"{place.address}/" + (f"?key={quote(place.key)}" if place.key else ""))

    serve(made, place, listening)
    return 0


def _folders(arguments: argparse.Namespace) -> list[Path]:
    """The runs; a file of reports has no attempts to show."""
    found = [Path(name) for name in arguments.run]
    for path in found:
        if path.is_file():
            raise ConfigError(f"{path} is a file, and the page shows folders of runs: files are compared with --out FILE.html.")
    return found


def _display() -> bool:
    """Could a browser be seen here? One that draws letters in the terminal is none."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
