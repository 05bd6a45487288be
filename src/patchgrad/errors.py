"""Every error that patchgrad raises on purpose.

    PatchgradError            one sentence that says what is wrong and what to do
    ├── ConfigError           a recipe, key or value that cannot work
    │   └── EndpointRefused   an endpoint that refuses the address, the key, the model or a parameter
    ├── ComponentError        a part of the user's own, such as a reward, that does not do what its contract says
    ├── MissingDependency     an optional package or program that is not installed
    ├── TaskError             a task, archive or task set that is broken
    ├── StoreError            a run folder that is foreign, half written, or full
    ├── SamplingRefused       sampling that would bias training
    ├── OutOfMemory           a recipe that needs more memory than there is
    ├── TrainingStopped       a guard ended the run, and says why
    │   └── NothingLearned    the run is whole, and no iteration made an update
    ├── TrainerFault          a rank of a sharded trainer is gone, frozen, or disagrees with the others
    ├── SandboxLost           an agent left its sandbox so that nobody can go on in it; the agent failed, and no machine did
    ├── ProvenanceError      a sample whose chain of turns does not verify
    └── Fault                 infrastructure broke; the episode is no judgement of the policy
        ├── SandboxFault
        └── PolicyFault
            └── ContextFault  the conversation does not fit: a limit was reached, and nothing broke

A command line prints the sentence and exits with 2; a rollout turns a `Fault` into data. Of many items a bad one fails by itself
(`one_of_many`), and the exit code is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class PatchgradError(Exception):
    """Base of all: `str(error)` is one sentence for a person."""


class ConfigError(PatchgradError):
    """A recipe, key or value that cannot work."""


class NotAccepted(ConfigError):
    """A chat template refuses a conversation, or fails on it."""


class EndpointRefused(ConfigError):
    """An endpoint refuses what it is asked, and would again: its address, key, model or a parameter is wrong; `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ComponentError(PatchgradError):
    """A part of the user's own, such as a reward, does not do what its contract says; the sentence names it, and the attempt."""


class MissingDependency(PatchgradError):
    """An optional package or program is not installed; the sentence names the command that installs it."""


class TaskError(PatchgradError):
    """A task, archive or task set that is broken."""


class StoreError(PatchgradError):
    """A run folder that is foreign, half written, of another version, or a disk that is full."""


class SamplingRefused(PatchgradError):
    """Sampling that would bias the importance ratio was asked for in training."""


class OutOfMemory(PatchgradError):
    """A recipe needs more memory than there is; the sentence says what would fit."""


class TrainingStopped(PatchgradError):
    """A guard ended the run: going on would have cost time and taught nothing, or wrong things."""


class NothingLearned(TrainingStopped):
    """The run did all that it was to do, and no iteration of it made an update."""


class TrainerFault(PatchgradError):
    """A rank of a sharded trainer is gone, frozen, or disagrees with the others; the sentence names it. The run can be resumed."""


class ClusterFault(PatchgradError):
    """A cluster has not what a run needs: no host for attempts, or one that does not fit. The run can be resumed."""


class HostLost(PatchgradError):
    """A host of a cluster is gone, or gives no sign of life. What it did goes on elsewhere."""


class ProvenanceError(PatchgradError):
    """A sample whose chain of turns does not verify; `fault` is the name of what is wrong (`provenance.MEANINGS`)."""

    def __init__(self, message: str, fault: str = "") -> None:
        super().__init__(message)
        self.fault = fault


class SandboxLost(PatchgradError):
    """What an agent did left its sandbox so that nobody can go on in it: a failure of that attempt, and no fault of a machine."""


class Fault(PatchgradError):
    """Infrastructure broke: recorded, masked, never scored as a failure of the policy."""


class SandboxFault(Fault):
    """The sandbox itself broke, not the command in it."""


class PolicyFault(Fault):
    """The policy could not answer."""


class ProgramFault(Fault):
    """An agent of others broke, or asked for something else than it did after the same turns."""


class ContextFault(PolicyFault):
    """The conversation does not fit into the policy's context: a limit of the policy, which an attempt ends at, and no broken machine."""


def ran_out(error: BaseException) -> bool:
    """Is it an allocation that failed? Of Python, of torch on a CPU, of CUDA or of a library on it: each says so in its own words."""
    words = ("allocate memory", "out of memory", "ALLOC_FAILED")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(word in str(error) for word in words))


Refuse = Callable[[PatchgradError], None]
"""What is done about one bad item of many: `stop`, or a `Refused`, which keeps it."""


def stop(error: PatchgradError) -> None:
    """The first bad item ends the call: for those to whom some of the items are worth nothing, as to a run that has to be repeatable."""
    raise error


class Refused:
    """Keeps what is wrong with each bad item, so that the others get their results."""

    def __init__(self) -> None:
        self.errors: list[PatchgradError] = []

    def __call__(self, error: PatchgradError) -> None:
        self.errors.append(error)

    @property
    def sentences(self) -> list[str]:
        """One for each bad item, in the order in which they were found."""
        return [str(error) for error in self.errors]

    @property
    def told(self) -> dict[str, list[str]]:
        """What an object for machines says of them: nothing where every item was good."""
        return {"refused": self.sentences} if self.errors else {}

    def unless(self, some: object) -> None:
        """Raises the first error where nothing is left: a call of which no item is good has failed as a whole."""
        if self.errors and not some:
            raise self.errors[0]


class Refusals:
    """What is wrong with one of many items goes to `refuse`, on whichever machine it is found: this has a stand-in there, which asks."""

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    async def refused(self, error: PatchgradError) -> None:
        """Hands it over; raises it again where one bad item ends it all."""
        self._refuse(error)


@contextmanager
def one_of_many(refuse: Refuse) -> Iterator[None]:
    """What is done with one item: what is wrong with it goes to `refuse`, and what comes after this block goes on."""
    try:
        yield
    except (TaskError, StoreError, SandboxLost, Fault) as error:
        refuse(error)
