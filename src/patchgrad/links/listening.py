"""Where a server of ours listens, and under which names it answers."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from patchgrad.errors import ConfigError

_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Place:
    """Where it listens, and by which `host_name` others ask for it beside its own names.

    Raises `ConfigError` for a host beyond this machine without a `key`, for a key that no header holds, and for what is no port.
    """

    host: str = "127.0.0.1"
    port: int = 8517
    key: str = ""
    host_name: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not 0 < self.port < 1 << 16:
            raise ConfigError(f"--port is {self.port}; a port is a number from 1 to 65535.")
        if self.key and not (self.key.isascii() and self.key.isprintable() and ":" not in self.key):
            raise ConfigError("--key is of plain letters, digits and signs, without a colon: a header has to hold it.")
        if not self.key and not self.local:
            raise ConfigError(f"{self.host} can be reached by others: say with --key what their requests have to bring.")

    @property
    def local(self) -> bool:
        """Is it reached from this machine alone?"""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def address(self) -> str:
        """What a browser or a client is given: `http://127.0.0.1:8517`, and `http://[::1]:8517`."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def names(self, host: str) -> bool:
        """Does a request's `Host` name this place? That is a name of its own, or one of `host_name`.

        Where others reach it, an address in numbers is one of its names, and so is the machine's. Then, and under a `host_name`, any port
        is right: it may have been forwarded. A page of somebody else's can have its own name lead here, and no other.
        """
        name, port = _parts(host)
        if name in (one.lower() for one in self.host_name):
            return True
        if not self.key:
            return name in {self.host.lower(), *_HERE} and (port or "80") == str(self.port)
        return name in {self.host.lower(), *_HERE, socket.gethostname().lower()} or (not self.local and _is_address(name))


def _parts(host: str) -> tuple[str, str]:
    """The name and the port of a `Host`: `127.0.0.1:8517`, `[::1]:8517`, `example.org`."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::(\d+))?", host.lower())
    return (found[1].strip("[]"), found[2] or "") if found else ("", "")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
