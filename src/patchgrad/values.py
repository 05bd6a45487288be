"""What flows: frozen values, in the order of the flow; a type mentions only types above it.

    Task -> (Context, Action, Call, Observation, Snapshot) = Turn -> Segment -> Trajectory -> Verdict -> Reward
         -> Rollout -> Group -> Sample -> MicroBatch -> Batch -> Update, and Report for people

Nothing here is edited after it was made. A later fact is a new type that holds the earlier one.
Token arrays are one-dimensional `int32`, log-probabilities `float32`, both read-only.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

NO_IDS: Ids = np.zeros(0, np.int32)
NO_IDS.setflags(write=False)


def ids(values: Iterable[int] | npt.NDArray[Any]) -> Ids:
    """Token ids as a read-only array: `ids([5, 7])` -> `array([5, 7], dtype=int32)`."""
    return _frozen(np.array(list(values) if not isinstance(values, np.ndarray) else values, np.int32))


def floats(values: Iterable[float] | npt.NDArray[Any]) -> Floats:
    """Numbers per token as a read-only `float32` array."""
    return _frozen(np.array(list(values) if not isinstance(values, np.ndarray) else values, np.float32))


def common(left: Ids, right: Ids) -> int:
    """The length of the longest common prefix: `common(ids([5, 7, 9]), ids([5, 7]))` is 2."""
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    return int(differs.argmax()) if differs.any() else size


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def digest(*parts: bytes | str) -> str:
    """SHA-256 over the parts with their lengths, so that `digest("ab", "c") != digest("a", "bc")`."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()


def stored_as(name: str) -> dict[str, str]:
    """What a field says of itself whose name in files, and in the hash over them, is an older one."""
    return {"stored": name}


def stored_name(field: Field[Any]) -> str:
    """The name of a field in files."""
    return str(field.metadata.get("stored", field.name))


def stored(value: Any) -> dict[str, Any]:
    """The fields of a value by the names that they are stored under, as a hash takes them."""
    parts = {stored_name(field): getattr(value, field.name) for field in fields(value)}
    return {name: stored(part) if is_dataclass(part) else part for name, part in parts.items()}


# --- tasks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Seconds are per command; bytes are totals."""

    command_seconds: float = 20.0
    test_seconds: float = 60.0
    memory: int = 1 << 30
    disk: int = 256 << 20
    processes: int = 128
    output: int = 16_384


@dataclass(frozen=True, slots=True)
class Repository:
    """The code under repair, by content.

    `archive`: `location` is a tar file (plain or gzip) and `digest` its SHA-256; `git`: a repository and a commit id;
    `image`: an OCI name and its digest. `patch` is laid over that before the first commit: a planted bug, say, so that many tasks
    share one archive.
    """

    kind: Literal["archive", "git", "image"]
    location: str
    digest: str
    patch: str = ""


@dataclass(frozen=True, slots=True)
class HiddenFile:
    """A test file that the agent never sees; the grader writes it over whatever the agent left at `path`."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Checks:
    """How a submission is judged. Test ids are pytest node ids (`tests/test_a.py::test_b[1]`).

    Every path under `protected` is put back to its state in the repository, `files` are written and `patch` is applied, before `command`
    runs. `parser` is `report`, our own plugin of pytest, or the name of a reader of logs for commands that are none of pytest's.
    `strict` says that every expected test was seen to pass with the repair, so that nothing else will do (see `TestOutcome.satisfied`).
    """

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    files: tuple[HiddenFile, ...] = ()
    protected: tuple[str, ...] = ()
    command: tuple[str, ...] = ("pytest",)
    parser: str = "report"
    patch: str = ""
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: a repository with a bug, words that describe it, and hidden tests that decide.

    `packages` are the distributions, pinned (`attrs==26.1.0`), that its Python has beside pytest; `setup` runs before the first commit.
    """

    id: str
    instruction: str
    repository: Repository
    checks: Checks
    packages: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    limits: Limits = Limits()
    tags: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """The content hash of everything that can change a verdict; `tags` cannot."""
        content = asdict(self)
        del content["tags"]
        content["repository"].pop("location")
        return digest(json.dumps(content, sort_keys=True))

    def environment_digest(self) -> str:
        """The content hash of what an agent's sandbox is made of; tasks with other words and other hidden tests may have the same."""
        repository, limits = self.repository, self.limits
        code = (repository.kind, repository.digest or repository.location, repository.patch)
        content = (*code, self.packages, self.setup, asdict(limits))
        return digest(json.dumps(content, sort_keys=True))


def root_address(task: Task, attempt: str) -> str:
    """The address before the first turn: the chain of an attempt names its task and itself."""
    return digest("genesis", task.digest(), attempt)


# --- one turn ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an action is drawn. Training accepts only the neutral setting: anything else biases the importance ratio."""

    max_tokens: int
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @property
    def neutral(self) -> bool:
        """Is the sampling distribution the policy's own softmax, untouched?"""
        shape = (self.temperature, self.top_p, self.top_k, self.min_p, self.repetition_penalty)
        return shape == (1.0, 1.0, 0, 0.0, 1.0)


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

    A policy behind an endpoint tells text alone. Then `token_ids` only spell it, `logprobs` are empty and `usage` says what its server
    counted: such an action can be evaluated and never be trained on.
    """

    token_ids: Ids
    logprobs: Floats
    version: int
    text: str
    finish: Literal["stop", "length"]
    usage: Usage | None = None
    origin: Origin | None = None

    @property
    def trainable(self) -> bool:
        """Are these the ids that were sampled, with their log-probabilities?"""
        return self.usage is None

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


Failure = Literal["malformed", "unknown tool", "bad arguments", "timeout", "died", "out of memory", "infrastructure"]


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

    `entries` maps a path below `/testbed` to (mode, content), content `None` meaning deleted. `directory` is the shell's. The address
    covers paths, modes and contents: equal for equal trees, whatever was done to get there, and `digest()` where nothing differs.
    """

    address: str
    entries: Entries
    directory: str = "/testbed"

    @classmethod
    def of(cls, entries: Entries, directory: str = "/testbed") -> Snapshot:
        """The snapshot of these differences: `Snapshot.of({"a.py": (0o100644, b"x")})`."""
        parts: list[str] = []
        for path, (mode, content) in sorted(entries.items()):
            parts += [path, f"{mode:o}", "deleted" if content is None else hashlib.sha256(content).hexdigest()]
        return cls(digest(*(part.encode(errors="surrogateescape") for part in parts)), entries, directory)


@dataclass(frozen=True)
class Turn:
    """One transaction: the ids it added to the context, the sampled action, the answer, and the files' state after it.

    `context` holds only what came since the last action, so size is linear in turns. `state` is the address of the sandbox's
    snapshot after the call. `address` chains over the parent's, so one hash names the whole history.
    """

    context: Ids
    action: Action
    call: Call | Malformed
    observation: Observation
    state: str
    parent: str

    @cached_property
    def address(self) -> str:
        action, answer = self.action, stored(self.observation)
        answer.pop("seconds")
        said = [action.version, action.text, action.finish, stored(self.call), answer]
        said += [stored(fact) for fact in (action.usage, action.origin) if fact is not None]
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
        return _frozen(np.concatenate([part for turn in self.turns for part in (turn.context, turn.action.token_ids)]))

    def actions(self) -> Bools:
        """True at sampled tokens, shape of `tokens()`."""
        spans = [(len(turn.context), len(turn.action.token_ids)) for turn in self.turns]
        return _frozen(np.concatenate([np.repeat([False, True], span) for span in spans]))

    def logprobs(self) -> Floats:
        """Sampling log-probabilities, one per action token."""
        return _frozen(np.concatenate([turn.action.logprobs for turn in self.turns]))


Stop = Literal["submitted", "turn limit", "context limit", "time limit", "format errors", "abstained", "failed"]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at a task from the first prompt to its end; `submission` is a patch, empty if nothing changed.

    Of a fork the first `replayed` turns are those of the attempt `origin`: it went on after them, and is not trained on them.
    """

    id: str
    task: str
    segments: tuple[Segment, ...]
    stop: Stop
    submission: str
    seconds: float = 0.0
    origin: str = ""
    replayed: int = 0

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(turn for segment in self.segments for turn in segment.turns)


@dataclass(frozen=True, slots=True)
class Start:
    """Where the attempts of a group begin: at the task's beginning, or after the `prefix`, which are turns of the attempt `origin`."""

    prefix: tuple[Turn, ...] = ()
    origin: str = ""


# --- judgement -----------------------------------------------------------------------------------

Status = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "missing"]


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """One expected test: which list it is from and how it ended after the submission."""

    __test__ = False  # not a test class, whatever pytest thinks of the name
    id: str
    expected: Literal["fail_to_pass", "pass_to_pass"]
    status: Status
    strict: bool = False

    @property
    def satisfied(self) -> bool:
        """A strict one has to pass. Otherwise SWE-bench's rule in its version-5 form: expected failures hold, and skipped pass-to-pass."""
        if self.strict:
            return self.status == "passed"
        good = ("passed", "xfailed") if self.expected == "fail_to_pass" else ("passed", "xfailed", "skipped")
        return self.status in good


@dataclass(frozen=True, slots=True)
class Verdict:
    """What grading found: stored, never changed. `stages` are those reached, of applied / collected / ran.

    `tamper` names what the submission did to tests or their configuration; `fault` an infrastructure failure, which is no
    judgement of the submission.
    """

    task: str
    patch: str
    stages: tuple[str, ...]
    tests: tuple[TestOutcome, ...]
    tamper: tuple[str, ...] = ()
    fault: str | None = None
    seconds: float = 0.0

    @property
    def resolved(self) -> bool:
        """Every expected test is satisfied, and none of it was won by tampering."""
        return "ran" in self.stages and not self.tamper and bool(self.tests) and all(t.satisfied for t in self.tests)


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended and was judged: the last link of its chain, `parent` its last turn, or its beginning where it has none."""

    parent: str
    stop: Stop
    submission: str
    verdict: Verdict
    seconds: float = 0.0

    @property
    def address(self) -> str:
        judged = asdict(self.verdict)
        judged.pop("seconds")
        return digest("ending", self.parent, self.stop, self.submission, json.dumps(judged, sort_keys=True))


@dataclass(frozen=True, slots=True)
class Reward:
    """A number and the named parts that add up to it; a pure function of task, trajectory and verdict."""

    value: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at a task with what it was judged and what that is worth."""

    task: Task
    trajectory: Trajectory
    verdict: Verdict
    reward: Reward

    @property
    def solved(self) -> bool:
        """Submitted, and every hidden test holds; a right diff that was never submitted solves nothing."""
        return self.trajectory.stop == "submitted" and self.verdict.resolved

    @property
    def handed_in(self) -> str:
        """The patch that counts as its answer: none where the attempt ended in another way than by submitting."""
        return self.trajectory.submission if self.trajectory.stop == "submitted" else ""

    @property
    def broken(self) -> bool:
        """Did infrastructure break this attempt, so that it says nothing about the policy? It is no zero."""
        return self.verdict.fault is not None or self.trajectory.stop == "failed"


@dataclass(frozen=True, slots=True)
class Group:
    """All attempts at one task under one policy version, forks included."""

    rollouts: tuple[Rollout, ...]

    @property
    def task(self) -> Task:
        return self.rollouts[0].task

    @property
    def solve_rate(self) -> float:
        return sum(r.solved for r in self.rollouts) / len(self.rollouts)

    @property
    def whole(self) -> tuple[Rollout, ...]:
        """The attempts that say how hard the task is: they began at its beginning, and infrastructure did not break them."""
        return tuple(r for r in self.rollouts if not r.broken and not r.trajectory.replayed)


# --- learning ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """One training sequence: a segment, and what is said of each of its **action tokens** (not of each token).

    `keep` says which are trained. `old` is what ratios are taken to and `reference` what a penalty pulls to, log-probabilities both: the
    sampler's, until a trainer or another model says its own. `weights` is how much a token's cost counts, 1 until a correction. `attempt`
    and `group` name what it is from: an attempt of several segments is several samples.
    """

    segment: Segment
    advantages: Floats
    keep: Bools
    attempt: str
    group: str
    old: Floats
    reference: Floats
    weights: Floats

    @classmethod
    def of(cls, segment: Segment, advantages: Floats, keep: Bools, attempt: str, group: str) -> Self:
        """A sample as the sampler left it: its log-probabilities are the old ones and the reference, and every token counts once."""
        sampled = segment.logprobs()
        return cls(segment, advantages, keep, attempt, group, sampled, sampled, floats(np.ones(len(sampled))))

    @property
    def trained(self) -> Bools:
        """The kept tokens that something precedes: nothing could predict an action token that opens its sequence."""
        trained = self.keep.copy()
        trained[:1] &= len(self.segment.turns[0].context) > 0
        return _frozen(trained)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Sequences laid end to end within a token budget, each of them whole. All arrays but `starts` have one entry per token.

    Two samples of 3 and 2 tokens: `tokens [a b c d e]`, `positions [0 1 2 0 1]`, `starts [0 3 5]`. `mask[i]` says that token i is
    a trained action token: its log-probability is predicted at i-1. The other arrays are zero elsewhere. `sampled` are log-probabilities
    under the policy that sampled; `weights` is how much more than in a mean over the batch's trained tokens each cost counts.
    """

    tokens: Ids
    positions: Ids
    starts: Ids
    mask: Bools
    sampled: Floats
    old: Floats
    reference: Floats
    advantages: Floats
    weights: Floats


@dataclass(frozen=True, slots=True)
class Batch:
    """What one optimiser step sees. `trained` counts mask tokens over all packs: a loss is the weighted sum of their costs over it."""

    micro_batches: tuple[MicroBatch, ...]
    trained: int
    sequences: int


@dataclass(frozen=True, slots=True)
class Update:
    """One optimiser step: the policy version it made, and what was measured on the way."""

    version: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error, and the interval that holds the truth with 95 %, all as shares (0.39, 0.02, 0.35, 0.43)."""

    mean: float
    error: float
    low: float = math.nan
    high: float = math.nan


UNKNOWN = Estimate(math.nan, math.nan)
Outcomes = Mapping[str, tuple[bool | None, ...]]


@dataclass(frozen=True, slots=True)
class Report:
    """An evaluation: one policy on one task set, `attempts` a task, with the budget beside the numbers.

    Attempt number n at every task is run n, so `outcomes["a"] == (True, None, False)` says that a was solved in the first of three runs and
    that infrastructure broke the second. `pass_at_1` has its error over tasks, `over_runs` is the same figure with its error over runs;
    `worst` and `best` are what it would be if all that broke had failed, or been solved. `best_at_n` is the share solved where of each
    task's attempts one is chosen, as `about` says. `turns`, `action_tokens` and `context_tokens` are means over attempts, the last of
    the longest context of each; `seconds` is the wall time of all; `failures` counts turns by how they failed (`credit.kinds`).

    What has a default came later: reports of older runs lack it.
    """

    name: str
    tasks: int
    attempts: int
    pass_at_1: Estimate
    pass_at_k: Estimate
    submitted: Estimate
    turns: float
    action_tokens: float
    seconds: float
    budget: Mapping[str, float]
    solved: Mapping[str, int]
    stops: Mapping[str, int]
    faults: int = 0
    outcomes: Outcomes = field(default_factory=dict)
    over_runs: Estimate = UNKNOWN
    worst: float = math.nan
    best: float = math.nan
    best_at_n: Estimate = UNKNOWN
    context_tokens: float = math.nan
    failures: Mapping[str, int] = field(default_factory=dict)
    sampling: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
