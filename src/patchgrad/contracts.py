"""Who acts: the contracts, one screen. Everything else is an implementation; `patchgrad.testing` checks each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from patchgrad.values import (
    Action,
    Batch,
    Bools,
    Call,
    Floats,
    Group,
    Ids,
    Malformed,
    Message,
    Observation,
    Report,
    Reward,
    Sample,
    Sampling,
    Snapshot,
    Stop,
    Task,
    ToolState,
    Trajectory,
    Turn,
    Update,
    Verdict,
)

if TYPE_CHECKING:
    import torch

A = TypeVar("A")
B = TypeVar("B")


# --- sandbox -------------------------------------------------------------------------------------

PATIENCE = 12.0


def patience(seconds: float) -> float:
    """The wall time after which a command with a limit of `seconds` ends in any case, however little of a core it had.

    `patience(10)` is 125: a machine with eight times more to do than cores ends nothing that would have ended in time alone.
    """
    return PATIENCE * seconds + 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. `report` is what the process wrote to file descriptor 3, which no path leads to.

    `out of memory`: the processes of the sandbox together held more than its limit, and its backend ended them. A kernel or an engine
    that ends one of them says nothing of it, and the command has exit code 137. `seconds` is wall time; `cpu` are the CPU seconds of the
    process and of those it waited for.
    """

    output: str
    exit_code: int | None
    state: Literal["ok", "timeout", "died", "out of memory"]
    truncated: bool = False
    directory: str = "/testbed"
    seconds: float = 0.0
    cpu: float = 0.0
    report: bytes = b""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend truly enforces on this host; a recipe states what it requires.

    With `work` its limits on time count what a command computes and sleeps, not its wait for a core, so that up to `patience` the files
    settle whether the time runs out.
    """

    name: str
    network: bool
    processes: bool
    memory: bool
    disk: bool
    pid_namespace: bool
    fork: bool
    notes: tuple[str, ...] = ()
    work: bool = False

    def missing(self, required: Iterable[str]) -> list[str]:
        """Which of these it does not enforce: `caps.missing(["network", "disk"])`."""
        return [name for name in required if not getattr(self, name)]


ENFORCED = ("network", "processes", "memory", "disk", "pid_namespace", "fork")
"""What a recipe may require of a backend."""


@runtime_checkable
class Sandbox(Protocol):
    """One isolated copy of a task's repository with a persistent shell; used for one episode, then closed.

    `run` is the agent's shell: state (directory, variables) lives from command to command. `exec` is a fresh process. Neither
    raises for what the command does: timeouts and deaths are in the result. Raises `SandboxFault` when the sandbox itself broke.

    A timeout counts seconds of work: a backend that can stops the clock while a process waits for a core, up to `patience`.

    `fork` opens another sandbox in the state that the files are in now, `reset` puts this one back to its repository, processes and `/tmp`
    included. `async with await sandboxes.open(task) as sandbox:` closes it in any case.
    """

    async def run(self, command: str, timeout: float | None = None) -> Result: ...
    async def exec(
        self,
        argv: Sequence[str],
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Result: ...
    async def read(self, path: str) -> bytes: ...
    async def write(self, path: str, content: bytes) -> None: ...
    async def snapshot(self) -> Snapshot: ...
    async def fork(self) -> Sandbox: ...
    async def reset(self) -> None: ...
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Sandboxes(Protocol):
    """A backend: opens sandboxes from a task, or from a task and a snapshot (a fork)."""

    def probe(self) -> Capabilities: ...
    async def open(self, task: Task, state: Snapshot | None = None) -> Sandbox: ...
    async def close(self) -> None: ...


# --- agent ---------------------------------------------------------------------------------------


class Tool(Protocol):
    """One command of the agent's. Bad arguments are an observation, not an exception."""

    name: str
    usage: str

    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation: ...


@dataclass(frozen=True, slots=True)
class Extend:
    """Go on in the same token stream with these messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """Open a new segment: the context is now exactly these messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    stop: Stop


class Agent(Protocol):
    """Pure functions between text and calls. Never sees the `Task`, so hidden checks cannot leak."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    def prompt(self, instruction: str, turns: Sequence[Turn]) -> Extend | Restart | Finish: ...
    def parse(self, text: str) -> Call | Malformed: ...


# --- policy and trainer --------------------------------------------------------------------------

Weights = Mapping[str, "torch.Tensor"]


class Policy(Protocol):
    """Who answers a token stream: all that a rollout, and so an evaluation, needs.

    `encode` gives the ids that append `messages` to the stream and open the assistant's turn; `previous` is the action they
    follow, `None` at the start of a segment. `act` gets the whole stream; `session` names it so that a cache can be kept between
    turns. Raises `PolicyFault` where it cannot answer, and `ContextFault` where the stream is too long for it.
    """

    @property
    def version(self) -> int: ...
    @property
    def context(self) -> int: ...
    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids: ...
    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action: ...
    def release(self, session: str) -> None: ...


class TrainablePolicy(Policy, Protocol):
    """Token ids in, token ids and their exact log-probabilities out, under weights that it takes over: what training needs.

    Every action is `trainable`, and says after which ids it was sampled, in which `fingerprint`: a digest of tokenizer and template, which
    is the same as long as these are. `stops` are the ids that end a turn. A policy behind an endpoint of text is none.
    """

    @property
    def fingerprint(self) -> str: ...
    @property
    def stops(self) -> frozenset[int]: ...
    def load(self, weights: Weights, version: int) -> None: ...


class Trainer(Protocol):
    """Owns the weights. `update` makes exactly one optimiser step; `save` and `load` are exact.

    `logprobs` changes nothing: for each pack, the log-probability of every mask token under the weights as they are, in the shape of its
    tokens and zero elsewhere. `nll_excess` neither: the sum over mask tokens of -log p less the entropy at that place, and the variance of
    that sum, were the tokens drawn from the softmax; then its mean is 0, whatever the policy.

    An update's metrics are means per trained token unless said: `loss`, `entropy`, what the objective reports, and how far policies are
    apart. `logprob_diff` is the mean absolute difference of log-probabilities between the policy and the one that sampled. For r = policy
    / old there are `ratio`, `ratio_max` (the largest), `ess` = (sum r)^2 / (N sum r^2), and the estimators `kl1` = -log r and `kl3` = r -
    1 - log r of KL(old, policy) (Schulman 2020, joschu.net/blog/kl-approx.html). The same five with `sampler_` before them are of old /
    sampled: 1 and 0 where ratios are taken to what was sampled.
    """

    @property
    def version(self) -> int: ...
    def update(self, batch: Batch, objective: Objective) -> Update: ...
    def logprobs(self, batch: Batch) -> list[Floats]: ...
    def nll_excess(self, batch: Batch) -> tuple[float, float]: ...
    def weights(self) -> Weights: ...
    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path) -> None: ...


LOG_RATIO = 20.0
"""Log ratios of probabilities are cut here, on both sides, before exp: every bound has long acted, and a sum stays finite."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What an objective sees of one pack: its trained tokens in order, arrays `[N]`.

    `logprobs` carries the gradient; `old`, `reference` and `advantages` are the pack's. `sequences` says which of the pack's sequences a
    token is of, as in `[0 0 0 1 1]`: a pack cuts none, so every trained token of a sequence is here.
    """

    logprobs: torch.Tensor
    old: torch.Tensor
    reference: torch.Tensor
    advantages: torch.Tensor
    sequences: torch.Tensor


class Objective(Protocol):
    """What each trained token costs `[N]`, and metrics as sums over tokens.

    The trainer weighs the costs by `MicroBatch.weights`, adds them up and divides by `Batch.trained`, so that any split into micro-batches
    gives the same loss and gradient.
    """

    def __call__(self, tokens: Trained) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]: ...


# --- learning ------------------------------------------------------------------------------------

RewardFunction = Callable[[Task, Trajectory, Verdict], Reward]
Select = Callable[[Sequence[Group]], list[Group]]
Estimator = Callable[[Group], list[Floats]]  # one array per rollout: an advantage per action token
Rescale = Callable[[Sequence[Floats], Sequence[Bools]], list[Floats]]  # all of an iteration's advantages anew; which tokens are kept
Score = Callable[[Batch], list[Floats]]  # log-probabilities of mask tokens, as `Trainer.logprobs` gives them
Correction = Callable[[Floats], tuple[Floats, Bools]]  # log(old / sampled) of a sequence -> factors, 0 to leave out; where a bound acted
Aggregate = Callable[[Sequence[Sample]], list[float]]  # one weight per sample of a batch; 1 everywhere is the mean over its tokens

Scorer = Callable[[Task, Sequence[Trajectory]], Awaitable[list[float] | None]]
"""A score for each of the attempts at a task, to choose the best by without its hidden tests; `None` where it abstains."""


class Curriculum(Protocol):
    """Which tasks next. `observe` is one of the two signals that go upstream."""

    def draw(self, n: int) -> list[Task]: ...
    def observe(self, group: Group) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...


class Executor(Protocol):
    """Maps an async function over items, yielding results as they finish, within a bound on how many run at once."""

    def map(self, function: Callable[[A], Awaitable[B]], items: Iterable[A]) -> AsyncIterator[B]: ...


# --- people --------------------------------------------------------------------------------------


class Progress(Protocol):
    """What a person sees of a run. It only tells: no loop reads anything back from it.

    `stage("rft", 200)` opens a stage of 200 steps. `advance(solved=True, turns=7)` finishes one of them: a bool is counted and
    shown as its share in this stage, anything else as its latest value. `say` is one line about what the agent just did.
    """

    def stage(self, name: str, total: int) -> None: ...
    def advance(self, n: int = 1, **facts: bool | float | str) -> None: ...
    def say(self, text: str) -> None: ...
    def table(self, reports: Sequence[Report]) -> None: ...
