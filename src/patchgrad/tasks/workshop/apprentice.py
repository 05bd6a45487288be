"""A scripted, noisy apprentice: the stand-in for a pre-trained model, which cannot be had offline.

It writes demonstrations through the ordinary rollout loop, as a `Policy` that plays text. It opens the file of the issue, edits a
line, runs the tests, undoes and tries again, or submits while red. With `skill` a try is the true repair; otherwise it is a plausible
wrong edit: a mutation of some line of the same file. So about half of its demonstrations fail (docs/studies/laptop.md).
"""

from __future__ import annotations

import io
import random
import tokenize
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from patchgrad.contracts import Weights
from patchgrad.errors import PolicyFault
from patchgrad.tasks.archive import open_archive
from patchgrad.tasks.mutations import mutants
from patchgrad.values import Action, Ids, Message, Rollout, Sampling, Task, floats

PLAUSIBLE = ("cmp_boundary", "cmp_negate", "op_swap", "const_off1", "bool_swap", "negate_cond", "swap_args", "wrong_name")


@dataclass(frozen=True, slots=True)
class Habits:
    """Probabilities of the apprentice's choices, each taken anew at every turn where it arises."""

    skill: float = 0.4
    tests_after_edit: float = 0.7
    retries_when_red: float = 0.4
    malformed: float = 0.03
    gives_up: float = 0.03


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old`, which occurs once in the file, by `new`."""

    old: str
    new: str

    def command(self) -> str:
        return f"replace {_quoted(self.old)} {_quoted(self.new)}"


def line_edit(source: str, before: str, after: str) -> Edit:
    """The edit that turns line `before` into `after`: from the line's start to the last token that changes, further where not unique.

    `    if value < low:` -> `    if value <= low:` gives `Edit(" if value <", " if value <=")`. Starting where the line starts, with the
    space in front, the words are spelled in the same tokens as in the file, and a writer decides in order: which line, how far, what.
    """
    old, new = _tokens(before), _tokens(after)
    same = 0
    while same < min(len(old), len(new)) - 1 and old[-1 - same] == new[-1 - same]:
        same += 1
    for rest in range(same, -1, -1):
        edit = Edit(_piece(before, old, len(old) - rest), _piece(after, new, len(new) - rest))
        if edit.old != edit.new and source.count(edit.old) == 1:
            return edit
    return Edit(before.strip(), after.strip())


@lru_cache(maxsize=4096)
def wrong_edits(source: str) -> tuple[Edit, ...]:
    """Plausible single-line edits of a file, at most one a line and family."""
    found: dict[tuple[int, str], Edit] = {}
    for mutant in mutants(source):
        if mutant.family in PLAUSIBLE and mutant.single_line:
            edit = line_edit(source, mutant.before.rstrip("\n"), mutant.after.rstrip("\n"))
            found.setdefault((mutant.line, mutant.family), edit)
    return tuple(found.values())


def _tokens(line: str) -> list[str]:
    """The tokens of one line of code; its words where it is no statement of its own, as `elif x:` is not."""
    try:
        return [t.string for t in tokenize.generate_tokens(io.StringIO(line.strip()).readline) if t.string.strip()]
    except tokenize.TokenError:
        return line.split()


def _piece(line: str, tokens: list[str], count: int) -> str:
    """The line's text up to the end of its token number `count`, with one of the spaces in front."""
    position = 0
    for token in tokens[:count]:
        position = line.index(token, position) + len(token)
    text = line[:position]
    return text.lstrip() if text == text.lstrip() else f" {text.lstrip()}"


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


class Apprentice:
    """Plays one episode of one workshop task; a `Policy` of version -1 whose log-probabilities are zero.

    When `practising` it opens the file and edits line after line until the turns are used up, for the sake of writing edits that apply.
    """

    version = -1

    def __init__(
        self,
        task: Task,
        habits: Habits,
        seed: int,
        encode_messages: Callable[[Sequence[Message], Action | None], Ids],
        encode_action: Callable[[str], Ids],
        context: int,
        practising: bool = False,
    ) -> None:
        self.context = context
        self._practising = practising
        self._habits = habits
        self._random = random.Random(f"apprentice {task.id} {seed}")
        self._encode_messages = encode_messages
        self._encode_action = encode_action
        self._source = open_archive(task.repository)[task.tags["file"]].decode()
        self._file = task.tags["file"]
        self._repair = line_edit(self._source, task.tags["broken_line"], task.tags["fixed_line"])
        self._wrong = wrong_edits(self._source)
        self._tried: list[Edit] = []
        self._observation = ""
        self._last = ""

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        self._observation = messages[-1].content
        return self._encode_messages(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        kind, text = self._next()
        if self._random.random() < self._habits.malformed:
            text = self._garbled(text)
        else:
            self._last = kind
        token_ids = self._encode_action(text)[: sampling.max_tokens]
        return Action(token_ids, floats([0.0] * len(token_ids)), self.version, text, "stop")

    def release(self, session: str) -> None:
        self._last = ""

    def load(self, weights: Weights, version: int) -> None:
        raise PolicyFault("an apprentice plays a script: it has no weights to load")

    def _next(self) -> tuple[str, str]:
        chance = self._random.random
        if self._last == "":
            return "open", turn("Look at it.", f"open {self._file}")
        if self._practising:
            return "edit", turn("Fix it.", self._fresh().command())
        if self._last in ("open", "undo"):
            if chance() < self._habits.gives_up:
                return "submit", turn("Done.", "submit")
            return "edit", turn("Fix it.", self._edit().command())
        if self._last == "edit":
            if chance() < self._habits.tests_after_edit:
                return "test", turn("Test it.", "pytest")
            return "submit", turn("Done.", "submit")
        if self._last == "test" and "failed" in self._observation and chance() < self._habits.retries_when_red:
            return "undo", turn("Undo it.", "git checkout .")
        return "submit", turn("Done.", "submit")

    def _edit(self) -> Edit:
        if self._random.random() < self._habits.skill:
            return self._repair
        return self._fresh()

    def _fresh(self) -> Edit:
        """A wrong edit that was not tried yet, if possible of a line that was not touched yet."""
        fresh = [edit for edit in self._wrong if edit not in self._tried] or [self._repair]
        untouched = [edit for edit in fresh if not any(edit.old in tried.old or tried.old in edit.old for tried in self._tried)]
        self._tried.append(self._random.choice(untouched or fresh))
        return self._tried[-1]

    def _garbled(self, text: str) -> str:
        return self._random.choice((text.replace("```command\n", "").replace("\n```", ""), f"{text}\n{text}"))


def shows(rollout: Rollout, lines: Set[str]) -> bool:
    """Did some observation of the episode show one of these lines (without indentation), numbered as a file view or not?"""
    said = (line for turn_ in rollout.trajectory.turns for line in turn_.observation.content.splitlines())
    return any(line.partition(":")[2].strip() in lines or line.strip() in lines for line in said)


def drill(task: Task) -> Task:
    """The task to practise on: the same repository, with words that no issue has, so that practice is not mistaken for work."""
    return replace(task, id=f"{task.id}:drill", instruction=f"Practise in {task.tags['file']}.")


def turn(thought: str, command: str) -> str:
    """An action's text in the agent's protocol: `Test it.` and one fenced command block."""
    return f"{thought}\n```command\n{command}\n```"
