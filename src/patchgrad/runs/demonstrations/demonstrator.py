"""A scripted, noisy demonstrator, which knows the solutions of training tasks; it is no teacher model.

It writes demonstrations through the ordinary rollout loop, as a `Policy` that plays text. It reproduces the issue, finds the file and
opens it, resigns or edits a line, tests and undoes in the same turn, tries again, or submits while red: each with the probability of its
options. With `skill` a try is the true repair; otherwise it is a plausible edit: a mutation of some line of the same function, or of words
that the file does not have. What is shown to a network from scratch fails for the most part (docs/studies/laptop.md). What is shown to a
language model never resigns: a failure of its own is the better one to learn from.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence, Set
from dataclasses import replace

from patchgrad.agents.react import AGAIN
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.recipes.recipe import AgentChoice
from patchgrad.recipes.warmup import DemonstratorOptions
from patchgrad.rollouts.loop import told_left
from patchgrad.runs.demonstrations.edits import Edits
from patchgrad.runs.demonstrations.idioms import idiom
from patchgrad.runs.demonstrations.known_bugs import known, place
from patchgrad.runs.demonstrations.way import Way
from patchgrad.tasks.synthetic.names import gibberish
from patchgrad.values import Action, Ids, Message, Rollout, Sampling, Task, floats

# Behind an edit and its tests. A red one is undone in the same turn, and git says so, louder than an F among dots; a green one is named.
UNLESS = " && echo passed || git checkout ."
# In words that no issue has: `Fix it` goes on as `itself` where that stands in sight. Practice is told apart by its own.
TRY, NEXT, DONE = "Try.", "Next.", "Done."
OURS = AgentChoice()


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
        tokenizer: ChatTokenizer,
        context: int,
        practising: bool = False,
        agent: AgentChoice = OURS,
    ) -> None:
        self.context = context
        self._practising = practising
        self._random = random.Random(f"apprentice {task.id} {seed}")
        retries = 1.0 if self._random.random() < options.persistent else options.retries_when_red
        self._options = replace(options, retries_when_red=retries)
        self._tokenizer = tokenizer
        self._edits = Edits(known(task), options, self._random)
        self._way = Way(self._edits.known, task.instruction, options, idiom(agent, self._edits.known), self._random)
        self._said: dict[bytes, tuple[Action, str]] = {}
        self._observation = ""
        self._last = ""

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        self._observation = messages[-1].content
        self._edits.window = self._way.idiom.window(self._observation, self._edits.window)
        return self._tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        asked = tokens.tobytes()
        if asked not in self._said:  # else its sandbox broke, and it is asked again in another one
            kind, text = self._next()
            if self._random.random() < self._options.malformed:
                text = _garbled(text, self._random)
            else:
                self._last = kind
            token_ids = self._tokenizer.action(text)[: sampling.max_tokens]
            self._said[asked] = Action(token_ids, floats([0.0] * len(token_ids)), self.version, text, "stop"), self._last
        action, self._last = self._said[asked]
        return action

    def release(self, session: str) -> None:
        self._last = ""

    def close(self) -> None:
        """There is nothing to end."""

    def _next(self) -> tuple[str, str]:
        """The kind of the turn and its text."""
        return self._way.next(self._last, self._observation, self._ends) or self._at_work()

    def _at_work(self) -> tuple[str, str]:
        """A turn in sight of the wrong line."""
        chance = self._random.random
        if self._ends() or (self._told_again() and chance() < self._options.stops_when_told):
            return "submit", self._way.say(DONE, "submit")
        if self._practising and self._edits.exhausted:
            return "submit", self._way.say(DONE, "submit")
        if self._practising:
            return "edit", self._way.idiom.turn(NEXT, self._way.idiom.edit(self._edits.fresh()))
        resigned = self._last in ("open", "read") and chance() < self._options.resigns
        if resigned or self._last == "edit" or (self._last == "try" and self._submits()):
            return "submit", self._way.say(DONE, "submit")
        tested = chance() < self._options.tests
        edit = (None if self._told_again() else self._edits.again()) or self._edits.next()
        quoted = edit.line and self._options.quotes and chance() < self._options.quotes
        command = self._way.idiom.edit(edit) + f" && {self._options.test}{UNLESS}" * tested
        return ("try" if tested else "edit"), self._way.idiom.turn(edit.line if quoted else TRY, command)

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


def _garbled(text: str, chance: random.Random) -> str:
    """Without its fence, or said twice."""
    bare = re.sub(r"```command\n|\n```|</?tool_call>\n?", "", text)
    return chance.choice((bare, f"{text}\n{text}"))


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
