"""How a scripted demonstrator comes to the line that is wrong: it reproduces the issue, finds the file, opens it and reads on."""

from __future__ import annotations

import ast
import random
import re
import string
from collections.abc import Callable

from patchgrad.recipes.warmup import DemonstratorOptions
from patchgrad.runs.demonstrations.idioms import Idiom
from patchgrad.runs.demonstrations.known_bugs import Known

LOOK, REPRODUCE, FIND, READ = "Look.", "Reproduce.", "Find.", "Read on."


class Way:
    """The turns of one episode before the wrong line is in sight."""

    def __init__(self, known: Known, issue: str, options: DemonstratorOptions, idiom: Idiom, chance: random.Random) -> None:
        self._known, self._issue, self._options, self.idiom, self._random = known, issue, options, idiom, chance

    def next(self, last: str, observation: str, ends: Callable[[], bool]) -> tuple[str, str] | None:
        """The kind of the turn after one of the kind `last`, and its text; nothing once the line is in sight, or the attempt `ends`."""
        known, options = self._known, self._options
        if last == "" and options.reproduces and self._random.random() < options.reproduces:
            return "reproduce", self.say(REPRODUCE, reproduction(self._issue, options.test))
        if last in ("", "slip", "reproduce") and known.place:
            if self._random.random() < options.slips:
                return "slip", self.say(LOOK, _misspelt(known.place, self._random))
            return "open", self.say(LOOK, known.place)
        if last in ("", "reproduce"):
            return "find", self.say(FIND, f'grep -rn "def {known.function.rpartition(".")[2]}\\b" --include=*.py .')
        if last == "find":
            return "open", self.say(LOOK, f"open {known.file} {self._found(observation)}")
        if last in ("open", "read") and not known.place and 0 < _shown(observation) < known.line and not ends():
            return "read", self.say(READ, "scroll_down")
        return None

    def say(self, thought: str, command: str) -> str:
        """A thought and a command of ours, in the words of the agent."""
        return self.idiom.turn(thought, self.idiom.command(command))

    def _found(self, observation: str) -> int:
        """Where the search has found the function: the last place in its file that is not behind the wrong line."""
        known = self._known
        hits = re.findall(rf"^(?:\./)?{re.escape(known.file)}:([0-9]+):", observation, re.MULTILINE)
        return max((int(hit) for hit in hits if int(hit) <= known.line), default=known.line)


def _shown(observation: str) -> int:
    """The last numbered line in sight; 0 where none is."""
    numbers = re.findall(r"^([0-9]+):", observation, re.MULTILINE)
    return int(numbers[-1]) if numbers else 0


def reproduction(issue: str, tests: str = "pytest") -> str:
    """What shows that the issue is right: the session that it quotes, as a script, or else the `tests`.

    `>>> import shop` and `>>> shop.total([1])` become a script of `import shop` and `print(shop.total([1]))`.
    """
    said = re.findall(r"^\s*>>> (.*)$", issue, re.MULTILINE)
    try:
        script = ast.parse("\n".join(said))
    except SyntaxError:  # a line that goes on is not quoted
        return tests
    if not script.body or not isinstance(script.body[-1], ast.Expr):
        return tests
    return "\n".join(("python - << 'EOF'", *said[:-1], f"print({said[-1]})", "EOF"))


def _misspelt(place: str, chance: random.Random) -> str:
    """The command that opens the file, with one letter of the name lost or another."""
    tool, name, line = place.split()
    at = chance.randrange(max(1, len(name) - len(".py")))
    other = chance.choice(string.ascii_lowercase.replace(name[at].lower(), ""))
    return f"{tool} {name[:at]}{chance.choice((other, ''))}{name[at + 1 :]} {line}"
