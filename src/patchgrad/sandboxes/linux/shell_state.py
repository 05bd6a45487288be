"""What an agent has made of its bash, as a script that makes a fresh bash the same: variables, functions, aliases, traps, options, umask.

    export X=1; f() { :; }; set -o pipefail; umask 077
    ->  declare -x X="1"
        f ()
        { ...
        umask 0077
        set -o pipefail

Bash writes its own state, without another process (`ASK`), and what it shares with the state that it began with is left out. So the script
of a bash that nobody has changed is empty, and no script holds what bash makes itself. A call of plain programs changes none of it, and is
not followed by the question (`settled`). Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_CAP = 16 << 10  # characters of a script that is kept: it stands in every turn that comes after
UNKEPT = "# more than is kept\n"  # in place of a longer one
SECTIONS = 6
_CALLS = 3  # of the sections behind the variables, the first that decide what a word calls: functions, aliases and traps
MOST_TOLD = 1 << 18  # bytes of a shell's answer that are looked at: of a larger state there is nothing to keep

ASK = r"""
builtin declare -p; builtin printf '\0'; builtin declare -f; builtin printf '\0'
builtin alias -p; builtin printf '\0'; builtin trap -p; builtin printf '\0'; builtin umask; builtin printf '\0'
[ "$#" = 0 ] || builtin printf ' %q' "$@"; builtin printf '\0'
"""
"""Commands of bash that write its state: `SECTIONS` texts, each with a NUL behind it."""

_BASH_MAKES = frozenset(
    """
    _ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_EXECUTION_STRING BASH_LINENO
    BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO BASH_VERSION COLUMNS COMP_WORDBREAKS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME
    GROUPS HISTCMD LINENO LINES PIPESTATUS PPID PWD RANDOM SECONDS SHELLOPTS SRANDOM UID __code __command __mark __script __size
    __turn
    """.split()  # noqa: SIM905
)
_ENTRY = re.compile(r"declare -\S+ (\w+)(?:=|$)")
_OPTIONS = (("BASHOPTS", "shopt -s", "shopt -u"), ("SHELLOPTS", "set -o", "set +o"))

# What bash does itself, and what can change it therefore.
_OWN = frozenset(
    """
    . : [ [[ ]] alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs disown do
    done elif else enable esac eval exec exit export fc fg fi for function getopts hash help history if in jobs let local logout
    mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test then time times trap type
    typeset ulimit umask unalias unset until wait while
    """.split()  # noqa: SIM905
)
_NAME = r"[\w./@%+:,-]+"
_WORD = r"(?:[\w./@%+:,*=-]|'[^']*'|\"[^\"$`\\]*\")+"
_CALL = rf"{_NAME}(?:[ \t]*+2>&1|[ \t]*+2?>>?[ \t]*+{_NAME}|[ \t]++{_WORD})*"
_SETTLED = re.compile(rf"[ \t]*+{_CALL}(?:[ \t]*+(?:\|\|?|&&|;|\n)[ \t]*+{_CALL})*\s*+")
_LONGEST = 1000
_PROGRAM = re.compile(r"(?:^|[|&;\n])[ \t]*([^ \t|&;\n]+)")


class ShellState(NamedTuple):
    """One moment of a bash. `ShellState.read(sections)` is what `ASK` has written."""

    variables: Mapping[str, str] = {}
    rest: tuple[str, ...] = ("",) * (SECTIONS - 1)

    @classmethod
    def read(cls, sections: Sequence[bytes]) -> ShellState:
        declared, *rest = (section.decode(errors="surrogateescape") for section in sections)
        return cls(_variables(declared), tuple(rest))

    def since(self, fresh: ShellState) -> str:
        """The script that makes a bash in the state `fresh` one in this state; empty where they are the same, or `UNKEPT`."""
        if "SHELLOPTS" not in self.variables:  # its beginning was cut off
            return UNKEPT
        changed = [
            line
            for name, text in self.variables.items()
            if name not in _BASH_MAKES and text != fresh.variables.get(name)
            for line in (*([f"unset -v {name}\n"] if name in fresh.variables else []), text)
        ]
        gone = [f"unset -v {name}\n" for name in fresh.variables if name not in self.variables and name not in _BASH_MAKES]
        functions, aliases, traps, mask, words = (now if now != before else "" for now, before in zip(self.rest, fresh.rest, strict=True))
        shell, options = (self._switched(fresh, *one) for one in _OPTIONS)
        parts = (shell, functions, *gone, *changed, aliases, traps, f"umask {mask}" if mask else "", f"set --{words}\n" if words else "")
        script = "".join((*parts, options))
        return script if len(script) <= _CAP else UNKEPT

    def calls_as(self, fresh: ShellState) -> bool:
        """Does each word call what it called in that state? Variables and options change nothing of that, functions and aliases do."""
        return "SHELLOPTS" in self.variables and self.rest[:_CALLS] == fresh.rest[:_CALLS]

    def _switched(self, fresh: ShellState, name: str, on: str, off: str) -> str:
        now, before = (_words(one.variables.get(name, "")) for one in (self, fresh))
        return "".join(f"{on} {option}\n" for option in sorted(now - before)) + "".join(
            f"{off} {option}\n" for option in sorted(before - now)
        )


def answer(told: bytes, turn: bytes) -> list[bytes] | None:
    """What a shell has said at a turn: exit code, folder, and the sections of its state where it was asked and they are all there.

    They come before the turn's name, so that all is there once that and the two behind it are: `<six sections> turn code folder`.
    """
    fields = told.split(b"\0")
    for at in range(len(fields) - 4, -1, -1):
        if fields[at] == turn and fields[at + 1].isdigit():
            return fields[at + 1 : at + 3] + (fields[at - SECTIONS : at] if at >= SECTIONS else [])
    return None


def beginning(told: bytes) -> ShellState | None:
    """The state that a shell tells before a turn, once all of it is there."""
    *sections, _ = told.split(b"\0", SECTIONS)
    return ShellState.read(sections) if len(sections) == SECTIONS else None


def _variables(declared: str) -> dict[str, str]:
    """Name -> the line that declares it: `declare -x X="1"`. An older bash lets a value go on in the next line."""
    found: dict[str, str] = {}
    name = ""
    for line in declared.splitlines(keepends=True):
        if entry := _ENTRY.match(line):
            name = entry[1]
            found[name] = line
        elif name:
            found[name] += line
    return found


def _words(line: str) -> set[str]:
    """The options in `declare -r SHELLOPTS="braceexpand:pipefail"`."""
    return set(line.partition('="')[2].rstrip('"\n').split(":")) - {""}


def settled(command: str) -> bool:
    """Is it a call of programs, from which a bash whose words call what they did comes back as it was?

    `settled("grep -n total shop/*.py | head -3")` is true; `settled("cd shop && ls")` and `settled("x=1")` are not. A word that is none
    of bash's own names a program, as long as there is no function, alias or trap (`calls_as`), and then bash is asked in any case.
    """
    if len(command) > _LONGEST or _SETTLED.fullmatch(command) is None:
        return False
    quoted = re.sub(r"'[^']*'|\"[^\"]*\"", "''", command).replace("2>&1", "")
    return not any(word in _OWN for word in _PROGRAM.findall(quoted))
