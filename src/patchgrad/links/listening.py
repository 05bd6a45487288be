"""Where a server of ours listens, and under which names it answers."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from patchgrad.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Place:
    """Where it listens.

    Raises `ConfigError` for a host beyond this machine without a `key`, for a key that no header holds, and for what is no port.
    """

    host: str = "127.0.0.1"
    port: int = 8517
    key: str = ""

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
        """Does a request's `Host` name this place? With a key any name does, as a machine has many."""
        if self.key:
            return True
        ours = {self.host, "localhost", "127.0.0.1", "[::1]"}
        return host in {f"{name}:{self.port}" for name in ours} or (self.port == 80 and host in ours)
