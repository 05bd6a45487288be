"""One attempt, turn by turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from patchgrad.errors import ConfigError, SamplingRefused
from patchgrad.values.arrays import Bools, Floats, Ids, digest, frozen, stored, stored_as
from patchgrad.values.tasks import Task, root_address


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an action is drawn, and for what.

    For `training` only the neutral setting is accepted, since anything else biases the importance ratio. An `evaluation` may be sampled
    as its protocol says. A `study` trains on samples that are biased on purpose.
    """

    max_tokens: int
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    purpose: Literal["training", "evaluation", "study"] = "training"

    @property
    def neutral(self) -> bool:
        """Is the sampling distribution the policy's own softmax, untouched?"""
        shape = (self.temperature, self.top_p, self.top_k, self.min_p, self.repetition_penalty)
        return shape == (1.0, 1.0, 0, 0.0, 1.0)

    def check(self) -> None:
        """Raises `SamplingRefused` where training on what is drawn would be biased."""
        if self.purpose == "training" and not self.neutral:
            raise SamplingRefused(
                "training takes only neutral sampling (temperature 1, nothing cut): sample for another purpose to evaluate"
            )


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one answer as the server that gave it counted them: those that it read, and those that it sampled."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True)
class Origin:
    """What a policy was given when it sampled: the digest of all ids before the action, and that of the tokenizer and template."""

    prefix: str
    fingerprint: str = field(metadata=stored_as("spelling"))


def stream_digest(tokens: Ids) -> str:
    """Of a stream of ids, so that an action can say what it was sampled after."""
    return hashlib.blake2b(tokens.tobytes(), digest_size=20).hexdigest()


@dataclass(frozen=True, slots=True)
class Action:
    """What the policy sampled: `token_ids` end with the end-of-turn token exactly when `finish` is `stop`.

    `version` is that of the weights that sampled. Where weights changed while it was sampled, it is the oldest one, and `spans` says from
    which token on each version sampled: `((3, 0), (4, 17))` is 17 tokens of version 3, then version 4.

    A policy behind an endpoint tells text alone. Then `token_ids` only spell it, `logprobs` are empty and `usage` says what its server
    counted: such an action can be evaluated and never be trained on. `instead` is in the server's words what it answered with instead of
    text, or what ended the text, such as `tool_calls`.
    """

    token_ids: Ids
    logprobs: Floats
    version: int
    text: str
    finish: Literal["stop", "length"]
    usage: Usage | None = None
    origin: Origin | None = None
    spans: tuple[tuple[int, int], ...] = ()
    instead: str = ""

    @property
    def trainable(self) -> bool:
        """Are these the ids that were sampled, with their log-probabilities?"""
        return self.usage is None

    @property
    def drawn_under(self) -> npt.NDArray[np.int64]:
        """The version that sampled each token `[T]`: `((3, 0), (4, 2))` of four tokens are `3, 3, 4, 4`."""
        versions, starts = zip(*(self.spans or ((self.version, 0),)), strict=True)
        return np.repeat(np.array(versions, np.int64), np.diff([*starts, len(self.token_ids)]))

    @property
    def newest(self) -> int:
        """The newest version that sampled a token of it."""
        return max([self.version, *(version for version, _ in self.spans)])

    @property
    def tokens(self) -> int:
        """How many tokens were sampled."""
        return len(self.token_ids) if self.usage is None else self.usage.completion


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed action: a tool's name and its argument text, as the agent wrote it."""

    tool: str
    arguments: str


MalformedKind = Literal["no command", "several commands", "unknown tool", "bad arguments"]


@dataclass(frozen=True, slots=True)
class Malformed:
    """An action that names no single valid call; `message` is what the agent is told."""

    kind: MalformedKind
    message: str


Failure = Literal["malformed", "unknown tool", "bad arguments", "timeout", "died", "out of memory", "sandbox lost", "infrastructure"]


@dataclass(frozen=True, slots=True)
class ToolState:
    """Where the agent stands: current directory, and the open file with the first line of its window (1-based)."""

    directory: str = "/testbed"
    file: str | None = None
    line: int = 1


@dataclass(frozen=True, slots=True)
class Observation:
    """What the environment answered. `exit_code` is `None` when no process of the agent's own ended."""

    content: str
    tool_state: ToolState = field(metadata=stored_as("place"))
    exit_code: int | None = None
    clipped: bool = False
    seconds: float = 0.0
    failure: Failure | None = None


Entries = Mapping[str, tuple[int, bytes | None]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The difference of a sandbox's working tree from its task's repository, by content.

    `entries` maps a path below `/testbed` to (mode, content), content `None` meaning deleted. `directory` is the shell's, and `shell` a
    script that makes a fresh one like it: what an agent has changed of its variables, functions, options and the like. `loose` names what
    was there and is in no snapshot: processes that went on, files outside of `/testbed`. The address covers paths, modes and contents:
    equal for equal trees, whatever was done to get there, and `digest()` where nothing differs.
    """

    address: str
    entries: Entries
    directory: str = "/testbed"
    shell: str = ""
    loose: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Entries, directory: str = "/testbed", shell: str = "", loose: tuple[str, ...] = ()) -> Snapshot:
        """The snapshot of these differences: `Snapshot.of({"a.py": (0o100644, b"x")})`."""
        parts: list[str] = []
        for path, (mode, content) in sorted(entries.items()):
            parts += [path, f"{mode:o}", "deleted" if content is None else hashlib.sha256(content).hexdigest()]
        return cls(digest(*(part.encode(errors="surrogateescape") for part in parts)), entries, directory, shell, loose)


@dataclass(frozen=True)
class Turn:
    """One transaction: the ids it added to the context, the sampled action, the answer, and the files' state after it.

    `context` holds only what came since the last action, so size is linear in turns. `state` is the address of the sandbox's
    snapshot after the call. `address` chains over the parent's, so one hash names the whole history.

    `shell` and `loose` are those of that snapshot. `lost` names what the call had to do without, as its observation says: what was `loose`
    after the turn before, where the sandbox was opened anew since then. The address covers `shell` where it is not empty, and the
    observation; what is loose is no part of it, since a process may end at any moment.
    """

    context: Ids
    action: Action
    call: Call | Malformed
    observation: Observation
    state: str
    parent: str
    shell: str = ""
    loose: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @cached_property
    def address(self) -> str:
        action, answer = self.action, stored(self.observation)
        answer.pop("seconds")
        said = [action.version, action.text, action.finish, stored(self.call), answer]
        said += [stored(fact) for fact in (action.usage, action.origin) if fact is not None]
        said += [fact for fact in (action.spans, action.instead, self.shell) if fact]  # addresses of older turns stay
        return digest(
            self.parent,
            self.context.tobytes(),
            action.token_ids.tobytes(),
            action.logprobs.tobytes(),
            json.dumps(said, sort_keys=True),
            self.state,
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """Turns that form one contiguous token stream: one training sequence.

    Contexts `[1 2]`, `[5]` and actions `[3 4]`, `[6 7]` give `tokens() == [1 2 3 4 5 6 7]` and `actions() == [F F T T F T T]`.
    """

    turns: tuple[Turn, ...]

    def tokens(self) -> Ids:
        return frozen(np.concatenate([part for turn in self.turns for part in (turn.context, turn.action.token_ids)]))

    def actions(self) -> Bools:
        """True at sampled tokens, shape of `tokens()`."""
        spans = [(len(turn.context), len(turn.action.token_ids)) for turn in self.turns]
        return frozen(np.concatenate([np.repeat([False, True], span) for span in spans]))

    def logprobs(self) -> Floats:
        """Sampling log-probabilities, one per action token."""
        return frozen(np.concatenate([turn.action.logprobs for turn in self.turns]))


def repeated(turns: Sequence[Turn]) -> tuple[bool, ...]:
    """Which turns made a call that an earlier one had made in the same state: with the same files, and where the agent stood.

    An edit that tests refuse and `git checkout` undoes, and the same edit again, are `(False, True)`. A turn whose state nobody knows is
    like no other one.
    """
    done: set[tuple[object, ...]] = set()
    found: list[bool] = []
    before: object = None
    for turn in turns:
        step = (before, turn.call)
        found.append(step in done)
        done.add(step)
        before = (turn.state, turn.observation.tool_state) if turn.state else object()
    return tuple(found)


EDITING = ("replace", "edit", "create")
"""The tools that change a file."""


def undone(turns: Sequence[Turn]) -> tuple[bool, ...]:
    """Which turns edited a file and left all files as they were before: the edit was taken back in the same turn, or changed nothing.

    Opened, edited and undone, edited: `(False, True, False)`. What there was before the first turn is not known, so it never is one, and
    neither is a turn whose state nobody knows.
    """
    before = [None, *(turn.state for turn in turns)]
    return tuple(
        isinstance(turn.call, Call) and turn.call.tool in EDITING and turn.state == was != ""
        for turn, was in zip(turns, before, strict=False)
    )


Stop = Literal["submitted", "turn limit", "context limit", "time limit", "format errors", "repeats", "abstained", "sandbox lost", "failed"]
"""How an attempt ended. `sandbox lost`: the agent left its sandbox so that nobody can go on in it. `failed`: infrastructure broke."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at a task from the first prompt to its end; `submission` is a patch, empty if nothing changed.

    Of a fork the first `replayed` turns are those of the attempt `origin`: it went on after them, and is not trained on them. So many
    questions of a program's were answered `asides` from its turns, of which nothing is kept.
    """

    id: str
    task: str
    segments: tuple[Segment, ...]
    stop: Stop
    submission: str
    seconds: float = 0.0
    origin: str = ""
    replayed: int = 0
    asides: int = 0

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(turn for segment in self.segments for turn in segment.turns)


@dataclass(frozen=True, slots=True)
class Start:
    """Where the attempts of a group begin: at the task's beginning, or after the `prefix`, which are turns of the attempt `origin`."""

    prefix: tuple[Turn, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one attempt may use: turns, tokens of the whole stream, tokens of one action, seconds on the wall.

    `Budget(turns=40, context=65_536)` is stage 1 of arXiv 2508.03501, `Budget(80, 131_072)` its stage 2 (Table 3). So many `format_errors`
    in a row end an attempt too, where it is not 0. SWE-agent ends an attempt at the third; the paper does not say. So do so many `repeats`
    in all, calls that were made before in the same state (`repeated`). In the last `announced` turns the policy is told how many are left.
    """

    turns: int
    context: int
    action_tokens: int = 4096
    seconds: float = 3600.0
    format_errors: int = 0
    repeats: int = 0
    announced: int = 0

    def __post_init__(self) -> None:
        if min(self.turns, self.context, self.action_tokens) < 1 or self.seconds <= 0:
            raise ConfigError(f"Every limit of a budget must be above zero, and not all are in {self}.")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to be made: a value that can be sent to whoever makes it.

    With a `prefix`, turns of the attempt `origin`, it is a fork: it goes on after them. What is known of it is not done again where it was
    drawn under these `versions`, from the first to the last; where none are named, under that of the policy as it is.
    """

    task: Task
    id: str
    seed: int
    budget: Budget
    sampling: Sampling
    prefix: tuple[Turn, ...] = ()
    origin: str = ""
    versions: tuple[int, int] | None = None

    @property
    def root(self) -> str:
        """The address after which its own turns come."""
        return self.prefix[-1].address if self.prefix else root_address(self.task, self.id)
