"""Who acts: the contracts, one screen. Everything else is an implementation; `patchgrad.testing` checks each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

from patchgrad.values import (
    Action,
    Batch,
    Bools,
    Call,
    Ending,
    Event,
    Floats,
    Group,
    Ids,
    Judgement,
    Malformed,
    Message,
    Observation,
    Reward,
    Sampling,
    Snapshot,
    StepSettings,
    Stop,
    Task,
    ToolState,
    Trajectory,
    Turn,
    Update,
    Verdict,
    WeightedSample,
)

if TYPE_CHECKING:
    import torch


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

    With `seal` a sealed file is out of reach of whatever runs in the sandbox. With `work` its limits on time count what a command
    computes and sleeps, not its wait for a core, so that up to `patience` the files settle whether the time runs out. `programs` are those
    of this host that a sandbox has, each by a digest of what it holds; none where an image decides.
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
    seal: bool = False
    programs: Mapping[str, str] = field(default_factory=dict)

    def missing(self, required: Iterable[str]) -> list[str]:
        """Which of these it does not enforce: `caps.missing(["network", "disk"])`."""
        return [name for name in required if not getattr(self, name)]


REQUIRED = ("network", "processes", "memory", "disk", "pid_namespace", "fork")
"""What a recipe requires of a backend where it says nothing."""

ENFORCED = (*REQUIRED, "seal")
"""What a recipe may require of a backend, and what reports name where it is missing. A grading does without `seal`."""


@runtime_checkable
class Sandbox(Protocol):
    """One isolated copy of a task's repository with a persistent shell; used for one episode, then closed.

    `run` is the agent's shell: state (directory, variables) lives from command to command. `exec` is a fresh process. Neither
    raises for what the command does: timeouts and deaths are in the result. Raises `SandboxFault` when the sandbox itself broke.

    `snapshot` raises `SandboxLost` for files that the host does not keep, because they would not fit on the task's disk when they are laid
    out again, or cannot be read or named. That is the agent's doing, and the sandbox can go on. `run` and `exec` raise it where a command
    took so much memory that all of its sandbox ended. `read` and `write` raise an `OSError`; `write` writes where the sandbox's own
    processes may, and nowhere else.

    `seal` takes regular files below `/testbed`, named as for `read`, and raises an `OSError` for one that is none; a link leads to the file
    that is sealed. From then on no process of the sandbox, one that runs already included, can write, rename, unlink or replace it, nor
    rename or replace a folder above it. What is beside it is as before, and `write` still writes it. The state is the same, and what is
    opened from it, or reset, has no sealed file. A backend without the capability seals nothing, and raises the same errors.

    A timeout counts seconds of work: a backend that can stops the clock while a process waits for a core, up to `patience`.

    `fork` opens another sandbox in the state that the files are in now, with a shell like this one's: `Snapshot.shell` holds what was made
    of it. `reset` puts this one back to its repository, processes and `/tmp` included.
    `async with await sandboxes.open(task) as sandbox:` closes it in any case.
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
    async def seal(self, paths: Iterable[str]) -> None: ...
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
    """One command of the agent's. Bad arguments are an observation, not an exception.

    It declares what it touches. A tool that `reads_only` leaves the files as they are, so no snapshot is taken after it. A call is
    `repeatable` if the files and the tool state alone decide what it says and leaves: then it is answered from the tool cache where another
    attempt has made it. That is asked before the call, with `None`, and again with what it answered.

    Implementations: `agents/tools` (the shell, an editor, submit), `agents.tools.FunctionTool` for a user's function.
    """

    @property
    def name(self) -> str: ...
    @property
    def usage(self) -> str: ...
    @property
    def reads_only(self) -> bool: ...
    def repeatable(self, arguments: str, observation: Observation | None) -> bool: ...
    async def __call__(self, arguments: str, sandbox: Sandbox, state: ToolState) -> Observation: ...


@dataclass(frozen=True, slots=True)
class Extend:
    """Go on in the same token stream with these messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """Open a new segment: the context is now exactly these messages.

    With `after`, the number of an earlier turn counted from 0, the context begins with the very ids that the policy had read and said by
    the end of that turn's action, and these messages follow.
    """

    messages: tuple[Message, ...]
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The attempt is over."""

    stop: Stop


class Agent(Protocol):
    """Pure functions between text and calls. Never sees the `Task`, so hidden checks cannot leak.

    Implementation: `agents.ReactAgent`.
    """

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    def prompt(self, instruction: str, turns: Sequence[Turn]) -> Extend | Restart | Finish: ...
    def parse(self, text: str) -> Call | Malformed: ...


class AttemptAccess(Protocol):
    """What a conversation may have of its attempt, beside the turns.

    `command_seconds` are those of its task. `sandbox` is the attempt's, opened where none is; after that no call of the attempt is answered
    from a cache. `count` says how many ids a stream has that begins with these messages. `aside` has the policy answer messages in a stream
    of their own: that is no turn, and nothing of it is kept or trained on. It raises `ProgramFault` where more was asked aside than the
    attempt may have turns. `sampled` is what the policy said last in a turn. Both come with the ids that the policy has read before.

    Implementation: `rollouts.access.Access`.
    """

    @property
    def command_seconds(self) -> float: ...
    async def sandbox(self) -> Sandbox: ...
    def count(self, messages: Sequence[Message]) -> int: ...
    async def aside(self, messages: Sequence[Message]) -> tuple[Action, Ids]: ...
    @property
    def sampled(self) -> tuple[Action, Ids]: ...


class Conversation(Protocol):
    """One attempt of an agent. `prompt` says what it asks after these turns, or that it is over; `close` ends it, at whatever point.

    `tools` are what its calls run. Raises `ProgramFault` where a program broke.

    Implementations: `rollouts.conversations.Asked`, `agents.gateway.conversation.ProgramConversation`,
    `agents.gateway.inside.InsideConversation`.
    """

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish: ...
    async def close(self) -> None: ...


@runtime_checkable
class Program(Protocol):
    """An agent of others that owns its loop: it asks a server for answers, and has the commands run that these answers call.

    `begin` starts it on an instruction. Each turn is made here; the program is told of it when it is asked what comes next. Where a program
    `goes_on`, the same turns lead another process of it to the same place, so an attempt that was interrupted goes on, and can be forked.
    Another program's attempt begins again.

    Implementations: `agents.gateway.MiniSweAgent`, `agents.gateway.CommandAgent`.
    """

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def goes_on(self) -> bool: ...
    def begin(self, instruction: str) -> Conversation: ...
    def parse(self, text: str) -> Call | Malformed: ...


# --- policy and trainer --------------------------------------------------------------------------

Weights = Mapping[str, "torch.Tensor"]


class Tokenizer(Protocol):
    """Messages to token ids and back, with a chat template.

    `encode` gives the ids that append `messages` to a stream and open the assistant's turn; `previous` is the action that they follow,
    `None` at the start of a segment. The `fingerprint` is a digest of vocabulary and template: the same as long as these are. `eos` are the
    ids that end a turn. `save` writes the files that transformers reads.

    Implementations: `policies.tokenizers.chat.ChatTokenizer`, shared by every policy; `policies.scripted.ByteTokenizer`.
    """

    @property
    def fingerprint(self) -> str: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def eos(self) -> frozenset[int]: ...
    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids: ...
    def decode(self, tokens: Sequence[int]) -> str: ...
    def save(self, folder: Path) -> None: ...


class Policy(Protocol):
    """Who answers a token stream: all that a rollout, and so an evaluation, needs.

    `encode` is the tokenizer's. `act` gets the whole stream; `session` names it so that a cache can be kept between turns. Raises
    `PolicyFault` where it cannot answer, `ContextFault` where the stream is too long for it, and `SamplingRefused` for sampling that is
    not neutral and whose purpose is training. `close` ends what the policy has started; nothing is asked of it afterwards.

    Implementations: `policies/embedded`, `policies/vllm`, `policies/replicas`, `policies/endpoint`, `policies/scripted`,
    `runs/demonstrations`.
    """

    @property
    def version(self) -> int: ...
    @property
    def context(self) -> int: ...
    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids: ...
    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action: ...
    def release(self, session: str) -> None: ...
    def close(self) -> None: ...


class TrainablePolicy(Policy, Protocol):
    """Token ids in, token ids and their exact log-probabilities out, under weights that it takes over: what training needs.

    Every action is `trainable`, and says after which ids it was sampled and with which tokenizer. `stops` are the ids that end a turn. A
    policy behind an endpoint of text is none.
    """

    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def stops(self) -> frozenset[int]: ...
    def load(self, weights: Weights, version: int) -> None: ...


class WeightChannel(Protocol):
    """Carries one version of the weights from a trainer to every policy; returns when all of them sample under it.

    Implementation: `policies.channel.DirectChannel`, within one process.
    """

    async def publish(self, weights: Weights, version: int) -> None: ...


class Trainer(Protocol):
    """Owns the weights. `update` makes exactly one optimiser step, as the settings say; `save` and `load` are exact.

    `score` changes nothing: for each micro-batch, the log-probability of every mask token under the weights as they are, in the shape of
    its tokens and zero elsewhere. `nll_excess` neither: the sum over mask tokens of -log p less the entropy at that place, and the variance
    of that sum, were the tokens drawn from the softmax; then its mean is 0, whatever the policy. `reset_optimiser` forgets momentum, which
    points where the objective before wanted to go.

    An update's metrics are means per trained token unless said: `loss`, `entropy`, what the objective reports, and how far policies are
    apart. `logprob_diff` is the mean absolute difference of log-probabilities between the policy and the one that sampled. For r = policy /
    old there are `ratio`, `ratio_max` (the largest), `ess` = (sum r)^2 / (N sum r^2), and the estimators `kl1` = -log r and
    `kl3` = r - 1 - log r of KL(old, policy) (Schulman 2020, joschu.net/blog/kl-approx.html). The same five with `sampler_` before them
    are of old / sampled: 1 and 0 where ratios are taken to what was sampled. Its readings are, for each micro-batch, the log-probability
    and the entropy at every mask token under the weights before the step.

    Implementations: `trainers.local.LocalTrainer`, `trainers.sharded.trainer.ShardedTrainer`.
    """

    @property
    def version(self) -> int: ...
    def update(self, batch: Batch, objective: Objective, settings: StepSettings) -> Update: ...
    def reset_optimiser(self) -> None: ...
    def score(self, batch: Batch) -> list[Floats]: ...
    def nll_excess(self, batch: Batch) -> tuple[float, float]: ...
    def weights(self) -> Weights: ...
    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path) -> None: ...


LOG_RATIO = 20.0
"""Log ratios of probabilities are cut here, on both sides, before exp: every bound has long acted, and a sum stays finite."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What an objective sees of one micro-batch: its trained tokens in order, arrays `[N]`.

    `logprobs` carries the gradient; `old`, `reference` and `advantages` are the micro-batch's. `sequences` says which of its sequences a
    token is of, as in `[0 0 0 1 1]`: a micro-batch cuts none, so every trained token of a sequence is here.
    """

    logprobs: torch.Tensor
    old: torch.Tensor
    reference: torch.Tensor
    advantages: torch.Tensor
    sequences: torch.Tensor


class Objective(Protocol):
    """What each trained token costs `[N]`, and metrics as sums over tokens. It pickles, since it is computed where the trainer is.

    The trainer weighs the costs by `MicroBatch.weights`, adds them up and divides by `Batch.trained`, so that any split into micro-batches
    gives the same loss and gradient.

    Implementations: `learning/objectives`.
    """

    def __call__(self, tokens: Trained) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]: ...


# --- judging -------------------------------------------------------------------------------------


class Judge(Protocol):
    """What is found of a finished attempt beside its hidden tests. Asynchronous; the judgement is stored with the attempt's ending.

    Raises `SandboxFault` where it could not judge: that ends the attempt as a failure of infrastructure.

    Implementation: `grading.judges.PatchSize`.
    """

    async def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict) -> Judgement: ...


class RewardFunction(Protocol):
    """What an attempt is worth: a pure function, so that it can be computed again from a stored run.

    Implementations: `grading/rewards`, and `grading.rewards.FunctionReward` for a user's function.
    """

    def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement]) -> Reward: ...


class Scorer(Protocol):
    """A score for each of the attempts at a task, to choose the best by without its hidden tests; `None` where it abstains.

    Implementation: `grading.VisibleTests`.
    """

    async def __call__(self, task: Task, trajectories: Sequence[Trajectory]) -> list[float] | None: ...


# --- learning ------------------------------------------------------------------------------------

Select = Callable[[Sequence[Group]], list[Group]]
Estimator = Callable[[Group], list[Floats]]  # one array per rollout: an advantage per action token
Rescale = Callable[[Sequence[Floats], Sequence[Bools]], list[Floats]]  # all of an iteration's advantages anew; which tokens are kept
Score = Callable[[Batch], list[Floats]]  # log-probabilities of mask tokens, as `Trainer.score` gives them
Correction = Callable[[Floats], tuple[Floats, Bools]]  # log(old / sampled) of a sequence -> factors, 0 to leave out; where a bound acted
Aggregate = Callable[[Sequence[WeightedSample]], list[float]]  # one weight per sample of a batch; 1 everywhere is the mean over its tokens


class TaskSource(Protocol):
    """Tasks to train on, or held out to measure with: about so many, the same for the same seed.

    Implementation: `runs.tasks.Listed`, over tasks that are there; and any function of the user's.
    """

    def __call__(self, split: Literal["train", "held_out"], count: int, seed: int) -> Sequence[Task]: ...


class Curriculum(Protocol):
    """Which tasks next. `observe` is one of the two signals that go upstream. What `state` gives is JSON, and `restore` takes it back.

    A user's curriculum has these four and is made with `tasks`, and with `seed` where it asks for one. A run uses a `StagedCurriculum`,
    which `learning.curricula.Staged` makes of it.

    Implementation: `learning.curricula.Pool`.
    """

    def draw(self, n: int) -> list[Task]: ...
    def observe(self, group: Group) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...


class StagedCurriculum(Curriculum, Protocol):
    """A curriculum that is told where a stage of a run begins, and says when a stage teaches nothing any more.

    `begin_stage` gives the curriculum to draw from in the stage, and a sentence about what was left out, empty where nothing was: with
    `refresh` what is mostly solved, or never; where `most` is not 0, all but so many tasks. `plateaued` says whether the last `window`
    draws of the stage brought no better outcomes than those before.

    Implementations: `learning.curricula.Pool`, and `learning.curricula.Staged` over any other one.
    """

    def begin_stage(self, refresh: bool, most: int) -> tuple[StagedCurriculum, str]: ...
    def plateaued(self, window: int) -> bool: ...


# --- runs ----------------------------------------------------------------------------------------


class Executor(Protocol):
    """Runs one function over many items, some at a time, and yields the results as they finish.

    `function` names a coroutine function, `package.module:name`, that is called as `function(shared, item)`. Items and results are values
    that pickle. `shared` is handed to every worker once; an executor that leaves this process pickles it too. The first exception of a call
    ends the others and is raised; leaving the loop early ends all. `close` ends what the executor has started.

    Implementations: `rollouts.executors.LocalExecutor`, `rollouts.executors.hosts.executor.HostsExecutor`.
    """

    def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]: ...
    async def close(self) -> None: ...


class Journal(Protocol):
    """What is known of attempts, each fact once and as soon as it happened: `turn`, `state` and `ending` return when it is kept.

    `recall` gives the turns of an attempt after this root, as far as their states are here, and its ending where it has one. `snapshot`
    gives the state of an address, with the shell in a directory. `holds` says whether a turn or an ending of this address is here, under
    the attempt where one is named. A journal that `keeps` nothing has none of them, and what is sampled with it cannot be trained on.

    Implementations: `rollouts.journals.NullJournal`, `rollouts.journals.MemoryJournal`, `store.RunJournal`.
    """

    @property
    def keeps(self) -> bool: ...
    async def turn(self, attempt: str, turn: Turn) -> None: ...
    async def state(self, snapshot: Snapshot) -> None: ...
    async def ending(self, attempt: str, ending: Ending) -> None: ...
    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]: ...
    async def snapshot(self, address: str, directory: str) -> Snapshot: ...
    def holds(self, address: str, attempt: str = "") -> bool: ...


class Tracker(Protocol):
    """Who is told how a run goes. It only tells: no loop reads anything back from it.

    Implementations: `runs/trackers`.
    """

    def event(self, event: Event) -> None: ...
