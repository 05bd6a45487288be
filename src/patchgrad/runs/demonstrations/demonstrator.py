"""A scripted, noisy demonstrator: the stand-in for a pre-trained model, which cannot be had offline.

It writes demonstrations through the ordinary rollout loop, as a `Policy` that plays text. It opens the file of the issue, resigns or
edits a line, tests and undoes in the same turn, tries again, or submits while red. With `skill` a try is the true repair; otherwise it
is a plausible edit: a mutation of some line of the same function, or of words that the file does not have. So most of its
demonstrations fail (docs/studies/laptop.md).
"""

from __future__ import annotations

import io
import random
import re
import string
import tokenize
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from patchgrad.recipes.warmup import DemonstratorOptions
from patchgrad.runs.demonstrations.known_bugs import known, place
from patchgrad.tasks.mutations import mutants
from patchgrad.tasks.synthetic.names import gibberish
from patchgrad.values import Action, Ids, Message, Rollout, Sampling, Task, floats

ABSENT = (" <", " >", " <=", " >=", " ==", " !=", " +", " -", " *", " 0", " 1", " 2", " and", " or")
REPAIRS = ("cmp_boundary", "cmp_negate", "op_unswap", "bool_swap")  # what undoes an exchange of one operator or truth value
TESTED = (
    " && pytest || git checkout ."  # behind an edit: a red one is undone in the same turn, and git says so, louder than an F among dots
)
# In words that no issue has: `Fix it` goes on as `itself` where that stands in sight. Practice is told apart by its own.
LOOK, TRY, NEXT, DONE = "Look.", "Try.", "Next.", "Done."


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the first `old` from the window on by `new`."""

    old: str
    new: str

    def command(self) -> str:
        return f"replace {_quoted(self.old)} {_quoted(self.new)}"


def line_edit(source: str, line: int, after: str, window: int = 1) -> Edit:
    """The shortest edit in whole words that turns line number `line` of a file (from 1 on) into `after`.

    `    if value < low:` -> `    if value <= low:` gives `Edit(" < ", " <= ")` where no `<` stands before it in the window, which begins at
    line number `window`, and else `Edit(" < low", " <= low")`. A word keeps the space in front of it, so that it is spelled in the same
    tokens as in the file, and the one behind it, so that `+` is not found in `+=`.
    """
    before = source.splitlines()[line - 1]
    at, top = (sum(len(row) for row in source.splitlines(keepends=True)[: n - 1]) for n in (line, window))
    old, new = _spans(before), _spans(after)
    head = _common([before[a:b] for a, b in old], [after[a:b] for a, b in new])
    tail = _common([before[a:b] for a, b in old[head:]][::-1], [after[a:b] for a, b in new[head:]][::-1])
    if head + tail == min(len(old), len(new)):  # nothing goes, or nothing comes: a neighbour has to stand for the place
        head, tail = (head - 1, tail) if head else (head, tail - 1)
    for first in range(head, -1, -1):
        start = old[first][0]
        if start and before[start - 1] != " ":
            continue  # not where a word begins
        lead = min(1, start)
        for rest in range(tail, -1, -1):
            end, ending = old[len(old) - rest - 1][1], new[len(new) - rest - 1][1]
            behind = int(before[end : end + 1] == after[ending : ending + 1] == " ")
            edit = Edit(before[start - lead : end + behind], after[new[first][0] - lead : ending + behind])
            if source.find(edit.old, top) == at + start - lead:
                return edit
    return Edit(before.strip(), after.strip())


@lru_cache(maxsize=4096)
def wrong_edits(source: str, function: str, window: int = 1) -> tuple[Edit, ...]:
    """Single-line edits of a function, seen in a window, each of which would undo some bug; one of them may repair it."""
    plausible = (mutant for mutant in mutants(source, REPAIRS) if mutant.single_line and mutant.function == function)
    return tuple(dict.fromkeys(line_edit(source, mutant.line, mutant.after.rstrip("\n"), window) for mutant in plausible))


def _spans(line: str) -> list[tuple[int, int]]:
    """Where the tokens of one line of code begin and end; its words where it is no statement of its own, as `elif x:` is not."""
    indent = len(line) - len(line.lstrip())
    try:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(line.strip()).readline) if t.string.strip()]
        return [(indent + t.start[1], indent + t.end[1]) for t in tokens]
    except tokenize.TokenError:
        return [match.span() for match in re.finditer(r"\S+", line)]


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """How many items two sequences have in common from their start on."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


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
        self._practising = practising
        self._options = options
        self._random = random.Random(f"apprentice {task.id} {seed}")
        self._retries = 1.0 if self._random.random() < options.persistent else options.retries_when_red
        self._encode_messages = encode_messages
        self._encode_action = encode_action
        self._known = known(task)
        self._window = 1
        self._tried: list[Edit] = []
        self._said: dict[bytes, tuple[Action, str]] = {}
        self._observation = ""
        self._last = ""

    @property
    def _repair(self) -> Edit:
        """What repairs it, where the window begins at the line that it does."""
        known = self._known
        line = known.source.splitlines().index(known.broken, known.begins - 1) + 1
        return line_edit(known.source, line, known.fixed, self._window)

    @property
    def _wrong(self) -> tuple[Edit, ...]:
        """What else can be edited there; a look, after which nothing is, need not know."""
        return wrong_edits(self._known.source, self._known.function, self._window)

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        self._observation = messages[-1].content
        first = re.match(r"\[File: .*\n([0-9]+):", self._observation)
        if first:
            self._window = int(first[1])
        return self._encode_messages(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        asked = tokens.tobytes()
        if asked not in self._said:  # else its sandbox broke, and it is asked again in another one
            kind, text = self._next()
            if self._random.random() < self._options.malformed:
                text = self._garbled(text)
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
        chance = self._random.random
        if self._last in ("", "slip"):
            slips = chance() < self._options.slips
            return ("slip", turn(LOOK, self._misspelt())) if slips else ("open", turn(LOOK, self._known.place))
        if self._practising and all(edit in self._tried for edit in self._wrong):
            return "submit", turn(DONE, "submit")
        if self._practising:
            return "edit", turn(NEXT, self._fresh().command())
        resigned = self._last == "open" and chance() < self._options.resigns
        if resigned or self._last == "edit" or (self._last == "try" and self._submits()):
            return "submit", turn(DONE, "submit")
        tested = chance() < self._options.tests
        return ("try" if tested else "edit"), turn(TRY, self._edit().command() + TESTED * tested)

    def _submits(self) -> bool:
        """After a tested edit: always when green, and now and then when red; an edit that did not apply is tried again."""
        if "does not occur" in self._observation:
            return False
        green = re.search(r"^\.+$", self._observation, re.MULTILINE) is not None
        return green or self._random.random() >= self._retries

    def _edit(self) -> Edit:
        absent = [old for old in ABSENT if old not in self._known.source]
        if absent and self._random.random() < self._options.misquotes:
            return Edit(self._random.choice(absent), self._repair.new)
        if self._random.random() < self._options.skill:
            return self._repair
        return self._fresh()

    def _fresh(self) -> Edit:
        """A wrong edit that was not tried yet."""
        self._tried.append(self._random.choice([edit for edit in self._wrong if edit not in self._tried] or [self._repair]))
        return self._tried[-1]

    def _misspelt(self) -> str:
        """The command that opens the file, with one letter of the name lost or another."""
        tool, name, line = self._known.place.split()
        at = self._random.randrange(max(1, len(name) - len(".py")))
        other = self._random.choice(string.ascii_lowercase.replace(name[at].lower(), ""))
        return f"{tool} {name[:at]}{self._random.choice((other, ''))}{name[at + 1 :]} {line}"

    def _garbled(self, text: str) -> str:
        """Without its fence, or said twice."""
        return self._random.choice((text.replace("```command\n", "").replace("\n```", ""), f"{text}\n{text}"))


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
