"""A scripted, noisy demonstrator, which knows the solutions of training tasks; it is no teacher model.

It writes demonstrations through the ordinary rollout loop, as a `Policy` that plays text. It reproduces the issue, finds the file and
opens it, resigns or edits a line, tests and undoes in the same turn, tries again, or submits while red: each with the probability of its
options. With `skill` a try is the true repair; otherwise it is a plausible edit: a mutation of some line of the same function, or of words
that the file does not have. What is shown to a network from scratch fails for the most part (docs/studies/laptop.md). What is shown to a
language model never resigns: a failure of its own is the better one to learn from.
"""

from __future__ import annotations

import ast
import random
import re
import string
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from patchgrad.agents.react import AGAIN
from patchgrad.recipes.warmup import DemonstratorOptions
from patchgrad.rollouts.loop import told_left
from patchgrad.runs.demonstrations.edits import Edits
from patchgrad.runs.demonstrations.known_bugs import known, place
from patchgrad.tasks.synthetic.names import gibberish
from patchgrad.values import Action, Ids, Message, Rollout, Sampling, Task, floats

# Behind an edit. A red one is undone in the same turn, and git says so, louder than an F among dots; a green one is named as well.
TESTED = " && pytest && echo passed || git checkout ."
# In words that no issue has: `Fix it` goes on as `itself` where that stands in sight. Practice is told apart by its own.
LOOK, TRY, NEXT, DONE = "Look.", "Try.", "Next.", "Done."
REPRODUCE, FIND, READ = "Reproduce.", "Find.", "Read on."


class Demonstrator:
    """Plays one episode of one task with one wrong line; a `Policy` of version -1 whose log-probabilities are zero.

    When `practising` it opens the file and makes one edit after the other, for the sake of writing edits that apply.
    """

    version = -1

    def __init__(
        self,
        task: Task,
        options: DemonstratorOptions,
        seed: int,
        encode_messages: Callable[[Sequence[Message], Action | None], Ids],
        encode_action: Callable[[str], Ids],
        context: int,
        practising: bool = False,
    ) -> None:
        self.context = context
        self._task, self._practising = task, practising
        self._random = random.Random(f"apprentice {task.id} {seed}")
        retries = 1.0 if self._random.random() < options.persistent else options.retries_when_red
        self._options = replace(options, retries_when_red=retries)
        self._encode_messages = encode_messages
        self._encode_action = encode_action
        self._edits = Edits(known(task), options, self._random)
        self._said: dict[bytes, tuple[Action, str]] = {}
        self._observation = ""
        self._last = ""

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        self._observation = messages[-1].content
        first = re.match(r"\[File: .*\n([0-9]+):", self._observation)
        if first:
            self._edits.window = int(first[1])
        return self._encode_messages(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        asked = tokens.tobytes()
        if asked not in self._said:  # else its sandbox broke, and it is asked again in another one
            kind, text = self._next()
            if self._random.random() < self._options.malformed:
                text = _garbled(text, self._random)
            else:
                self._last = kind
            token_ids = self._encode_action(text)[: sampling.max_tokens]
            self._said[asked] = Action(token_ids, floats([0.0] * len(token_ids)), self.version, text, "stop"), self._last
        action, self._last = self._said[asked]
        return action

    def release(self, session: str) -> None:
        self._last = ""

    def close(self) -> None:
        """There is nothing to end."""

    def _next(self) -> tuple[str, str]:
        """The kind of the turn and its text."""
        return self._on_the_way() or self._at_work()

    def _on_the_way(self) -> tuple[str, str] | None:
        """A turn before the wrong line is in sight."""
        known, last, options = self._edits.known, self._last, self._options
        if last == "" and options.reproduces and self._random.random() < options.reproduces:
            return "reproduce", turn(REPRODUCE, reproduction(self._task.instruction))
        if last in ("", "slip", "reproduce") and known.place:
            slips = self._random.random() < options.slips
            return ("slip", turn(LOOK, _misspelt(known.place, self._random))) if slips else ("open", turn(LOOK, known.place))
        if last in ("", "reproduce"):
            return "find", turn(FIND, f'grep -rn "def {known.function.rpartition(".")[2]}\\b" --include=*.py .')
        if last == "find":
            return "open", turn(LOOK, f"open {known.file} {self._found()}")
        if last in ("open", "read") and not known.place and 0 < self._shown < known.line and not self._ends():
            return "read", turn(READ, "scroll_down")
        return None

    def _at_work(self) -> tuple[str, str]:
        """A turn in sight of the wrong line."""
        chance = self._random.random
        if self._ends() or (self._told_again() and chance() < self._options.stops_when_told):
            return "submit", turn(DONE, "submit")
        if self._practising and self._edits.exhausted:
            return "submit", turn(DONE, "submit")
        if self._practising:
            return "edit", turn(NEXT, self._edits.fresh().command())
        resigned = self._last in ("open", "read") and chance() < self._options.resigns
        if resigned or self._last == "edit" or (self._last == "try" and self._submits()):
            return "submit", turn(DONE, "submit")
        tested = chance() < self._options.tests
        edit = (None if self._told_again() else self._edits.again()) or self._edits.next()
        quoted = edit.line and self._options.quotes and chance() < self._options.quotes
        thought = f"This line may be wrong: {edit.line}" if quoted else TRY
        return ("try" if tested else "edit"), turn(thought, edit.command() + TESTED * tested)

    @property
    def _shown(self) -> int:
        """The last numbered line in sight; 0 where none is."""
        numbers = re.findall(r"^([0-9]+):", self._observation, re.MULTILINE)
        return int(numbers[-1]) if numbers else 0

    def _found(self) -> int:
        """Where the search has found the function: the last place in its file that is not behind the wrong line."""
        known = self._edits.known
        hits = re.findall(rf"^(?:\./)?{re.escape(known.file)}:([0-9]+):", self._observation, re.MULTILINE)
        return max((int(hit) for hit in hits if int(hit) <= known.line), default=known.line)

    def _told_again(self) -> bool:
        """Was it told that its last call had been made before?"""
        return any(told in self._observation for told in AGAIN.values())

    def _ends(self) -> bool:
        """In its last turn always, and in every second one before that is announced: what follows a lost one is to be seen too."""
        left = told_left(self._observation)
        return left is not None and (left == 1 or self._random.random() < 0.5)

    def _submits(self) -> bool:
        """After a tested edit: always when green, and now and then when red; an edit that did not apply is tried again."""
        if "does not occur" in self._observation:
            return False
        green = re.search(r"^passed$", self._observation, re.MULTILINE) is not None
        return green or self._random.random() >= self._options.retries_when_red


def reproduction(issue: str) -> str:
    """What shows that the issue is right: the session that it quotes, as a script, or else the tests.

    `>>> import shop` and `>>> shop.total([1])` become a script of `import shop` and `print(shop.total([1]))`.
    """
    said = re.findall(r"^\s*>>> (.*)$", issue, re.MULTILINE)
    try:
        script = ast.parse("\n".join(said))
    except SyntaxError:  # a line that goes on is not quoted
        return "pytest"
    if not script.body or not isinstance(script.body[-1], ast.Expr):
        return "pytest"
    return "\n".join(("python - << 'EOF'", *said[:-1], f"print({said[-1]})", "EOF"))


def _misspelt(place: str, chance: random.Random) -> str:
    """The command that opens the file, with one letter of the name lost or another."""
    tool, name, line = place.split()
    at = chance.randrange(max(1, len(name) - len(".py")))
    other = chance.choice(string.ascii_lowercase.replace(name[at].lower(), ""))
    return f"{tool} {name[:at]}{chance.choice((other, ''))}{name[at + 1 :]} {line}"


def _garbled(text: str, chance: random.Random) -> str:
    """Without its fence, or said twice."""
    return chance.choice((text.replace("```command\n", "").replace("\n```", ""), f"{text}\n{text}"))


def shows(rollout: Rollout, lines: Set[str]) -> bool:
    """Did some observation of the episode show one of these lines (without indentation), numbered as a file view or not?"""
    said = (line for turn_ in rollout.trajectory.turns for line in turn_.observation.content.splitlines())
    return any(line.partition(":")[2].strip() in lines or line.strip() in lines for line in said)


def drill(task: Task) -> Task:
    """The task to practise on: the same repository, with words that no issue has, so that practice is not mistaken for work."""
    return replace(task, id=f"{task.id}:drill", instruction=f"Practise.\n{place(task)}")


def look(task: Task, number: int) -> Task:
    """The task with a symptom of gibberish, so that whoever learns to open its file learns to do so whatever the symptom says.

    Each `number` has another.
    """
    name = f"{task.id}:look-{number}"
    return replace(task, id=name, instruction=f"{gibberish(random.Random(name))}\n{place(task)}")


def turn(thought: str, command: str) -> str:
    """An action's text in the agent's protocol: `Test it.` and one fenced command block."""
    return f"{thought}\n```command\n{command}\n```"
