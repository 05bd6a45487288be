"""Which container engine of this host listens, whether it answers, and what helps where none does."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket

ENGINES = ("/var/run/docker.sock", "/run/podman/podman.sock", f"/run/user/{os.getuid()}/podman/podman.sock")
"""Where a container engine usually listens."""

SECONDS = 5.0
"""In which an engine has to answer."""


def engine() -> tuple[bool, str, str]:
    """Does one answer, what it says of itself or why it does not, and the command that helps."""
    named = os.environ.get("DOCKER_HOST", "")
    address = named or next((f"unix://{path}" for path in ENGINES if os.path.exists(path)), "")
    if not address:
        return False, "none listens", _starts()
    try:
        told = _version(address)
    except PermissionError:
        return False, f"{address} may not be used by you", "sudo usermod -aG docker $USER"
    except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:
        return False, f"{address} does not answer: {error}", "unset DOCKER_HOST" if named else _starts()
    return True, f"{told} at {address}", ""


def _starts() -> str:
    """What starts an engine that is installed, or installs one."""
    if shutil.which("docker"):
        return "sudo systemctl start docker"
    if shutil.which("podman"):
        return "systemctl --user start podman.socket"
    return "sudo apt-get install podman && systemctl --user start podman.socket"


def _version(address: str) -> str:
    """`Docker 27.3.1` or `Podman 5.2.0`. `ValueError` for a way to an engine that cannot be tried here, such as ssh."""
    kind, _, place = address.partition("://")
    host, _, port = place.rpartition(":") if ":" in place else (place, "", "")
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as link:
        link.settimeout(SECONDS)
        if kind == "unix":
            link.connect(place)
        elif kind == "tcp":
            link.connect((host.strip("[]"), int(port or 2375)))
        else:
            raise ValueError(f"an address of the kind {kind} cannot be tried")
        asked = http.client.HTTPConnection("localhost")
        asked.sock = link
        asked.request("GET", "/version")
        answer = asked.getresponse()
        told = json.loads(answer.read())
    if answer.status != http.client.OK or not isinstance(told, dict):
        raise ValueError(f"it answers {answer.status}, and not as a container engine does")
    name = "Podman" if "Podman" in json.dumps(told.get("Components", "")) else "Docker"
    return f"{name} {told.get('Version', '')}".strip()
