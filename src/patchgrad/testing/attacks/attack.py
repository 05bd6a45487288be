"""One hostile program against a sandbox, and the ways to write one. Each is bounded in count, time and size, so that a host that does not hold it takes no harm.

A program prints `BREACH` and what it could do, or `HELD` once it has tried and could not; one that is stopped, because it hangs or hoards,
says neither. The numbers of system calls are those of x86-64; on another machine these attacks count as not tried.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "timeout", "died", "out of memory", "lost"]


@dataclass(frozen=True, slots=True)
class Attack:
    """Commands for the agent's shell, one after the other; the last one may end in one of `ends`, and then says `HELD` if it is `ok`.

    `lost` means that the program ended its own sandbox, and nobody else's.

    `PATCHGRAD_CANARY` in a command is replaced by the path of a file of the host, `PATCHGRAD_OTHER` by a word that stands in a file of
    another open sandbox. One that `spoils` its own sandbox may lose it, and need not come to say anything.
    """

    name: str
    steps: tuple[str, ...]
    seconds: float = 10.0
    ends: tuple[State, ...] = ("ok",)
    machine: str = ""
    spoils: bool = False


def python(code: str) -> str:
    """A command that runs this program."""
    return f"python - <<'END'\n{textwrap.dedent(code).strip()}\nEND"


def call(name: str, number: int, *arguments: str, allowed: str = "result >= 0") -> Attack:
    """An attack of one system call; it is held if the call fails."""
    code = f"""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        arguments = [{", ".join(arguments)}]
        result = libc.syscall({number}, *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
        print("BREACH" if {allowed} else "HELD", result, os.strerror(ctypes.get_errno()))
    """
    return Attack(name, (python(code),), machine="x86_64")


def opens(name: str, *paths: str, mode: str = "r+b") -> Attack:
    """An attack that opens files which must not open."""
    code = f"""
        for path in {paths!r}:
            try:
                with open(path, {mode!r}) as file: print("BREACH", path)
            except OSError as error: print("HELD", path, error.strerror)
    """
    return Attack(name, (python(code),))
