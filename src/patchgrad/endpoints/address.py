"""What a question needs before it can be sent: an address and a key that HTTP can carry. A key is never printed."""

from __future__ import annotations

import urllib.parse

from patchgrad.errors import ConfigError

KEY = "PATCHGRAD_KEY"  # the variable of the environment that holds a key
EXAMPLE = "name the address of one up to /v1, as in http://localhost:8000/v1"


def checked_address(url: str) -> urllib.parse.SplitResult:
    """The parts of an endpoint's address; `ConfigError` for one that no question can be sent to, which says why."""
    if "@" in url.rpartition("://")[2].partition("/")[0]:
        raise ConfigError(f"An address of an endpoint holds no user and no password: leave them out, and put its key into {KEY}.")
    bare = url.partition("?")[0].partition("#")[0]
    odd = next((letter for letter in bare if not _visible(letter)), "")
    if odd:
        reason = f"it has the character U+{ord(odd):04X}, and an address is visible ASCII (others are percent-encoded)"
        raise ConfigError(f"{bare!a} is no address of an endpoint: {reason}.")
    if bare != url:
        raise ConfigError(f"What follows {bare} belongs to no address of an endpoint: it goes up to /v1, without ? and #.")
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.hostname.encode("idna") and parts.port != 0
    except ValueError as error:  # brackets that do not close, a port that is none, a name with an empty label
        raise ConfigError(f"{url} is no address of an endpoint ({error}): {EXAMPLE}.") from error
    if not usable:
        raise ConfigError(f"{url} is no address of an endpoint: {EXAMPLE}.")
    return parts


def checked_key(key: str) -> str:
    """The key as it is; `ConfigError` for one that no header can hold, such as one that was read with the end of its line."""
    at = next((place for place, letter in enumerate(key, 1) if not _visible(letter)), 0)
    if at:
        reason = f"character {at} of {len(key)} is a space, a control character or no ASCII"
        raise ConfigError(f"The key in {KEY} cannot be sent: {reason}; set it to the key alone.")
    return key


def _visible(letter: str) -> bool:
    return "!" <= letter <= "~"
