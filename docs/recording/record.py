"""Records the README's first run into docs/recording/first-run.cast: python docs/recording/record.py

The commands are typed into bash in a terminal of 100 columns and 28 rows, in an empty folder that is also its home. What the terminal
shows is written in asciicast v2 as it came. Only the time is changed: training is shown faster, and nothing is waited for longer than 1.5
seconds. It takes some eleven minutes on two idle cores. `draw.py` makes the README's picture of it.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CAST = PROJECT / "docs" / "recording" / "first-run.cast"
FASTER = 12.0
"""So many times as fast is training shown, which the README says."""

RUN, ATTEMPT = "runs/laptop", "ATTEMPT"
COMMANDS = (
    "patchgrad train laptop",
    f"patchgrad evaluate --compare {RUN}:base '{RUN}:+ stage 2 RL'",
    f"patchgrad query {RUN} 'select phase, iteration, avg(solved::int), avg(turns) from attempts group by all order by all'",
    f"patchgrad replay {RUN} {ATTEMPT}",
    f"patchgrad audit {RUN}",
)
"""What is typed; `ATTEMPT` is one that the run's last stage solved in a few turns."""
SOLVED = "select attempt from attempts where solved and phase = 'stage2' and turns between 4 and 6 order by attempt limit 1"
COLUMNS, ROWS = 100, 28
IDLE, KEY, DEADLINE = 1.5, 0.045, 3600.0
"""Seconds: the longest wait that is kept, the time between two keys, and what a command may take."""
Event = tuple[float, str]


class Terminal:
    """bash in a pseudo-terminal, and what it showed since it was asked for the first command."""

    def __init__(self, home: Path) -> None:
        self.events = list[Event]()
        self._told, tell = os.pipe()
        os.set_inheritable(tell, True)
        (home / ".inputrc").write_text("set enable-bracketed-paste off\n")
        environment = {
            "HOME": str(home),
            "HISTFILE": "",
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PROMPT_COMMAND": f"echo $? >&{tell}",
            "PS1": "$ ",
            "PYTHONPATH": str(PROJECT / "src"),
            "TERM": "xterm",
        }
        self._shell, self._screen = pty.fork()
        if self._shell == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.chdir(home)
            os.execvpe("bash", ["bash", "--noprofile", "--norc", "-i"], environment)
        os.close(tell)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._shown, self._since, self._faster = 0.0, time.monotonic(), 1.0
        self._prompt()

    def run(self, command: str, faster: float = 1.0) -> None:
        """Type a command as a person would, and wait until it has ended well, which is shown so many times as fast."""
        for key in command:
            os.write(self._screen, key.encode())
            self._look(KEY)
        self._look(10 * KEY)
        os.write(self._screen, b"\r")
        self._pace(faster)
        self._prompt()
        self._pace(1.0)
        self._look(IDLE)

    def close(self) -> None:
        """End the shell."""
        os.close(self._screen)
        os.close(self._told)
        os.waitpid(self._shell, 0)

    def _prompt(self) -> None:
        """Look until bash says how the command ended, which is just before it prompts."""
        deadline = time.monotonic() + DEADLINE
        while not select.select([self._told], [], [], 0)[0]:
            if time.monotonic() > deadline:
                raise SystemExit("a command takes too long")
            self._look(0.02)
        if (status := os.read(self._told, 100).decode().strip()) != "0":
            raise SystemExit(f"a command ended with {status}:\n{''.join(text for _, text in self.events)}")
        self._look(0.2)

    def _now(self) -> float:
        """The time as it is shown."""
        return self._shown + (time.monotonic() - self._since) / self._faster

    def _pace(self, faster: float) -> None:
        self._shown, self._since, self._faster = self._now(), time.monotonic(), faster

    def _look(self, seconds: float) -> None:
        """Keep what is shown in the next seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._screen], [], [], left)[0] and (text := self._decoder.decode(os.read(self._screen, 65536))):
                self.events.append((self._now(), text))


def hurried(events: Sequence[Event]) -> list[Event]:
    """The same from the first event on, without the longer part of each wait. That a display is drawn again as it was is waiting too."""
    now = waited = 0.0
    kept = [(0.0, events[0][1])]
    for (before, last), (at, text) in pairwise(events):
        step = min(at - before, IDLE - waited)
        now += step
        waited = waited + step if text == last else 0.0
        kept.append((round(now, 3), text))
    return kept


def written(events: Sequence[Event]) -> str:
    """The file: a header, and a line for each event."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "patchgrad: a first run", "env": {"SHELL": "bash", "TERM": "xterm"}}
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *([at, "o", text] for at, text in events)))


def solved(run: Path) -> str:
    """An attempt of the run's last stage."""
    command = [str(Path(sys.executable).parent / "patchgrad"), "query", str(run), SOLVED, "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return str(told["rows"][0][0])


def record() -> str:
    """The recording of all commands, which does not tell where it was made."""
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(Path(folder))
        first, *others = COMMANDS
        terminal.run(first, FASTER)
        for command in others:
            terminal.run(command.replace(ATTEMPT, solved(Path(folder) / RUN)) if ATTEMPT in command else command)
        terminal.close()
    cast = written(hurried(terminal.events))
    if found := [place for place in (folder, str(PROJECT), str(Path.home()), socket.gethostname()) if place in cast]:
        raise SystemExit(f"the recording tells of this machine: {found}")
    return cast


if __name__ == "__main__":
    CAST.write_text(record())
