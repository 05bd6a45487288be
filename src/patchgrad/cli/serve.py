"""answer programs of others by a policy, at the addresses that they ask models at

A policy is a run's folder, a model's folder, a hub id, or the address of another server with --model NAME:

  patchgrad serve runs/laptop
  patchgrad serve models/smollm2-135m-instruct --evaluation.limits.context 4096 --evaluation.sampling.temperature 0.7

It answers at /v1/chat/completions, /v1/responses and /v1/messages. Context, temperature and the length of an answer are keys of an
evaluation. What a request asks for of these is not used. A session is named by the token that its requests bring:

  OPENAI_BASE_URL=http://127.0.0.1:8518/v1 OPENAI_API_KEY=me-1 some-program
  patchgrad serve runs/qwen --gpus 1 --vllm vllm/bin/python    vLLM draws; each answer has its ids
  patchgrad serve runs/laptop --calls 100 --tokens 200000     at most so much for each session
  patchgrad serve runs/laptop --host 0.0.0.0 --key SECRET     for others too; a session's token is SECRET:NAME
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.cli import options as shared
from patchgrad.cli.evaluate.measuring import of_checkpoint, within_positions
from patchgrad.links.listening import Place

if TYPE_CHECKING:
    from patchgrad.recipes import Evaluation


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("policy", metavar="POLICY", help="a run's folder, a model's folder, a hub id, or an address up to /v1")
    parser.add_argument("--checkpoint", metavar="STEP", help="one of the run's checkpoints (default: the last)")
    parser.add_argument("--model", metavar="NAME", default="", help="the model's name at the address")
    parser.add_argument("--vllm", metavar="PYTHON", default="", help="the Python of an environment that has vLLM, which then draws")
    words = "where it listens: this machine alone unless a --key is given (default: 127.0.0.1)"
    parser.add_argument("--host", default="127.0.0.1", help=words)
    parser.add_argument("--port", type=int, default=8518, help="the port (default: 8518)")
    parser.add_argument("--key", default="", help="what each request has to bring: Authorization: Bearer KEY, or KEY:NAME for a session")
    parser.add_argument("--host-name", metavar="NAME", action="append", default=[], help="a name of this machine that requests come under")
    parser.add_argument("--calls", type=float, default=inf, metavar="N", help="answers to a session at most")
    parser.add_argument("--tokens", type=float, default=inf, metavar="N", help="sampled tokens of a session at most")
    parser.add_argument("--seconds", type=float, default=inf, metavar="S", help="seconds from a session's first question at most")


def run(arguments: argparse.Namespace) -> int:
    """Serve until it is stopped."""
    from patchgrad.runs.serving import serve
    from patchgrad.runs.trackers.terminal import Silent

    place = Place(arguments.host, arguments.port, arguments.key, arguments.host_name)
    allowed = arguments.calls, arguments.tokens, arguments.seconds
    with shared.installed():
        serve(_asked(arguments), place, allowed, Silent(), lambda told: print(told, flush=True), arguments.vllm)
    return 0


def _asked(arguments: argparse.Namespace) -> Evaluation:
    """What is served, as the evaluation that would measure it."""
    from patchgrad import recipes

    if (Path(arguments.policy) / "run.json").is_file():
        return shared.changed(of_checkpoint(arguments.policy, arguments.checkpoint), arguments.changes)
    evaluation = recipes.Evaluation(policy=arguments.policy, model=arguments.model)
    asked = shared.changed(evaluation, arguments.changes)
    named = "evaluation.limits.context" in arguments.changes or not Path(asked.policy).is_dir()
    return replace(asked if named else within_positions(asked), sandbox=asked.sandbox)
