"""vLLM's server on a model folder, kept alive, and its HTTP interface over a socket that only this user can reach.

vLLM needs its own build of torch, so the Python of any environment that has it runs it; nothing of it is imported here.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError, MissingDependency, PolicyFault
from patchgrad.policies.vllm import keeper as keepers

MODEL = "policy"  # what the served model is called
ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
"""Weights are reloaded through what vLLM calls development mode. It reports to nobody and downloads nothing."""

OPENS, ANSWERS = 900.0, 1800.0  # seconds to start in and to answer in
TAIL = 15  # lines of the log that an error quotes


@dataclass(frozen=True, slots=True)
class Installed:
    """The Python of an environment that has vLLM, and options of its server's own (`--tensor-parallel-size 2`)."""

    python: str = "python"
    options: tuple[str, ...] = ()


class Server:
    """Serves `folder` from its start to `stop`; all that it writes lies in `home`, its log as `vllm.log`, and goes with it.

    Raises `MissingDependency` where there is no such Python, `ConfigError`
    with the end of the log where it does not open, and `PolicyFault` where it does not answer.
    """

    def __init__(self, folder: Path, home: Path, *, context: int, vllm: Installed) -> None:
        self._home, self._vllm, self._context = home, vllm, context
        self._keeper: subprocess.Popen[bytes] | None = None
        self._socket = home / "vllm.sock"
        self.log = home / "vllm.log"
        if shutil.which(vllm.python) is None:
            raise MissingDependency(
                f"There is no {vllm.python}: install vLLM in an environment of its own, and name its Python in policy.vllm."
            )
        if len(os.fsencode(self._socket)) > 100:
            raise ConfigError(f"{self._socket} is too long a path for a socket: take a shorter folder.")
        home.mkdir(parents=True, exist_ok=True)
        self.start(folder)

    def start(self, folder: Path) -> None:
        """A fresh server on this folder; one that runs is ended first."""
        self.stop(keep=True)
        self._socket.unlink(missing_ok=True)
        command = [self._vllm.python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--served-model-name", MODEL]
        command += ["--uds", str(self._socket), "--enable-scale-out"]  # answers with token ids, and with the weights' version
        command += ["--max-model-len", str(self._context), "--enable-prefix-caching", "--logprobs-mode", "raw_logprobs"]
        command += ["--generation-config", "vllm", "--seed", "0", *self._vllm.options]  # never a model's own generation_config.json
        keeper = [sys.executable, keepers.__file__, str(self._home), *command]
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                keeper,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **ENVIRONMENT},
                start_new_session=True,  # a Ctrl-C is for the trainer, which then ends this
            )
        self._keeper = started
        deadline = time.monotonic() + OPENS
        while not self.healthy():
            if started.poll() is not None or time.monotonic() > deadline:
                self.stop(keep=True)
                raise ConfigError(f"vLLM did not open {folder}; the end of its log says:\n{self._told()}")
            time.sleep(0.2)

    @property
    def pid(self) -> int:
        """The keeper's, whose child the server is; 0 where there is none."""
        keeper = self._keeper
        return keeper.pid if keeper else 0

    def healthy(self) -> bool:
        """Does it answer, and does its engine live?"""
        try:
            return self._once("GET", "/health", None, 5.0)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What it answers to a question that is posted; nothing, where it answers with nothing."""
        try:
            status, told = self._once("POST", path, body, ANSWERS)
        except (OSError, http.client.HTTPException) as error:
            reason = error or type(error).__name__
            raise PolicyFault(f"vLLM gave no answer ({reason}); the end of its log says:\n{self._told()}") from error
        if status != 200:
            raise PolicyFault(f"vLLM answered {status} to {path}: {' '.join(told.decode(errors='replace').split())[:300]}")
        return json.loads(told) if told else None

    def stop(self, keep: bool = False) -> None:
        """Ends it with all its processes, and, unless it is to be kept, its folder."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                keeper.stdin.write(keepers.KEEP * keep)
                keeper.stdin.close()
            keeper.wait()
        if not keep:
            shutil.rmtree(self._home, ignore_errors=True)

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> tuple[int, bytes]:
        connection = _Here(self._socket, seconds)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _told(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL:])
        return "nothing"


class _Here(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
