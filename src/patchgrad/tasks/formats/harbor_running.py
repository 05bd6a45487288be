"""How a Harbor task of others runs in a sandbox of ours: its folder, its time, its verifier, or why it cannot.

Harbor's container stands in the task's folder, `/app` as a rule; ours in `/testbed`, of which a submission is the difference. So the set-up
moves the one to the other and leaves a link. The verifier is `tests/test.sh`, put in at `/tests` of a fresh sandbox with the submission.
What it prints is nothing; the number that it leaves in `/logs/verifier` is (`grading.logs.harbor`).
"""

from __future__ import annotations

import base64
import math
import re
import shlex
from collections.abc import Mapping
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.values import HiddenFile, Limits

HIDDEN = ".harbor/"
ENCODED = ".harbor-base64/"
COMPOSE = ("environment/docker-compose.yaml", "environment/docker-compose.yml")
USUAL_SECONDS = 600.0
_MEMORY = 2048
_RESERVED = {"bin", "boot", "dev", "etc", "lib", "lib64", "logs", "opt", "proc", "run", "sbin", "sys", "tests", "tmp", "usr", "var"}
_WORKDIR = re.compile(r"^\s*WORKDIR\s+(.+?)\s*$", re.MULTILINE | re.IGNORECASE)
_PLACES = """
[ -w / ] || chmod u+w / 2>/dev/null
mkdir -p /tests /logs/verifier 2>/dev/null || {
    echo "Harbor's tests need /tests and /logs, which cannot be made in this sandbox: open the task with oci." >&2; exit 1; }
"""
_MOVE = """
for place in FOLDERS; do [ -d "$place" ] && break; done
[ -d "$place" ] || mkdir -p "$place" || exit 1
[ "$(cd "$place" && pwd -P)" = /testbed ] && exit 0
cp -a "$place/." /testbed/ && rm -rf "$place" && ln -s /testbed "$place"
"""
_VERIFY = """
cp -r /testbed/.harbor/tests/. /tests/ || exit 1
( cd /testbed/.harbor-base64 2>/dev/null && find . -type f | while read -r path; do
    mkdir -p "/$(dirname "$path")" && base64 -d < "$path" > "/$path"; done )
rm -rf /testbed/.harbor /testbed/.harbor-base64 /logs/verifier
mkdir -p /logs/verifier /logs/agent /logs/artifacts
( exec 3>&-; ENVIRONMENT exec bash /tests/test.sh ) < /dev/null > /logs/verifier/test-stdout.txt 2>&1
for name in reward.json reward.txt; do
    [ -f "/logs/verifier/$name" ] && { printf '\\n>>>>> Harbor %s\\n' "$name"; head -c 1048576 "/logs/verifier/$name"; break; }
done
:
"""


def hidden(files: Mapping[str, bytes]) -> tuple[HiddenFile, ...]:
    """The files of `tests/` as hidden files; one that is no text goes in as text, and is decoded where it is used."""
    found = []
    for path, content in sorted(files.items()):
        if not path.startswith("tests/"):
            continue
        try:
            found.append(HiddenFile(f"{HIDDEN}{path}", content.decode()))
        except UnicodeDecodeError:
            found.append(HiddenFile(f"{ENCODED}{path}", base64.encodebytes(content).decode()))
    return tuple(found)


def command(name: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """What runs the verifier, with the variables that `[verifier.env]` gives it, and prints the number that it has left."""
    variables = _variables(name, config, "verifier")
    given = f"env {' '.join(shlex.quote(f'{key}={value}') for key, value in variables.items())}" if variables else ""
    return ("bash", "-c", _VERIFY.replace("ENVIRONMENT exec bash", f"exec {given} bash" if given else "exec bash"))


def limits(name: str, config: Mapping[str, Any]) -> Limits:
    """The verifier has the seconds of task.toml, else Harbor's 600; memory and disk are those of the environment."""
    verifier, environment = config.get("verifier", {}), config.get("environment", {})
    seconds = _number(name, verifier, "timeout_sec", USUAL_SECONDS)
    memory = int(_number(name, environment, "memory_mb", _MEMORY)) << 20
    disk = int(_number(name, environment, "storage_mb", Limits().disk >> 20)) << 20
    return Limits(test_seconds=seconds, memory=memory, disk=disk)


def setup(name: str, config: Mapping[str, Any], files: Mapping[str, bytes]) -> tuple[str, ...]:
    """What makes `/testbed` of the task's folder; a task that cannot run here fails in it, with the reason."""
    if reason := hindrance(name, config, files):
        return (f"echo {shlex.quote(f'The task {name} cannot run here: {reason}.')} >&2; exit 1",)
    folder = workdir(config, files)
    places = shlex.quote(folder) if folder else "/app /testbed"
    return (_PLACES + _MOVE.replace("FOLDERS", places),)


def hindrance(name: str, config: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """Why the task cannot run here as Harbor would run it; nothing where it can."""
    environment, verifier, folder = config.get("environment", {}), config.get("verifier", {}), workdir(config, files)
    parts = folder.strip("/").split("/")
    unset = [key for key, value in _variables(name, config, "verifier").items() if "${" in value]
    reasons = {
        "it is made of several containers, and a sandbox is one": any(path in files for path in COMPOSE),
        "its verifier wants a container of its own, and is run in the one that has the submission": verifier.get("environment_mode")
        == "separate",
        f"its verifier needs {', '.join(unset)} of this machine, which no sandbox is given": bool(unset),
        "its environment needs variables, so write them into its image": bool(_variables(name, config, "environment")),
        "it needs services beside it": bool(environment.get("mcp_servers") or environment.get("healthcheck")),
        f"its folder {folder} is one of the system, or none that is named in full": bool(folder)
        and (not folder.startswith("/") or ".." in parts or "$" in folder or parts == [""] or (len(parts) == 1 and parts[0] in _RESERVED)),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def workdir(config: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """The folder that task.toml names, else the last that the Dockerfile does; nothing where neither says."""
    named = config.get("environment", {}).get("workdir")
    if named:
        return str(named)
    found = _WORKDIR.findall(files.get("environment/Dockerfile", b"").decode(errors="replace"))
    return str(found[-1]).strip("\"'") if found else ""


def _variables(name: str, config: Mapping[str, Any], table: str) -> dict[str, str]:
    found = config.get(table, {}).get("env", {})
    if not isinstance(found, dict) or not all(
        re.fullmatch(r"[A-Za-z_]\w*", key) and isinstance(value, str) for key, value in found.items()
    ):
        raise TaskError(f"{name}: env of {table} in task.toml is no table of variables with texts.")
    return found


def _number(name: str, table: Mapping[str, Any], key: str, usual: float) -> float:
    value = table.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise TaskError(f"{name}: {key} in task.toml is {value!r}, and no number above 0.")
    return float(value)
