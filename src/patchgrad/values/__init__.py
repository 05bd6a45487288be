"""What flows: frozen values, in the order of the flow; a type mentions only types above it.

    Task -> (Context, Action, Call, Observation, Snapshot) = Turn -> Segment -> Trajectory -> Verdict -> Reward
         -> Rollout -> Group -> Sample -> MicroBatch -> Batch -> Update, and Report for people

Nothing here is edited after it was made. A later fact is a new type that holds the earlier one.
Token arrays are one-dimensional `int32`, log-probabilities `float32`, both read-only.
"""

from __future__ import annotations

from patchgrad.values.arrays import NO_IDS, Bools, Floats, Ids, common, digest, floats, frozen, ids, stored, stored_as, stored_name
from patchgrad.values.judgement import Ending, Group, Judgement, Reward, Rollout, Status, TestOutcome, Verdict, chain
from patchgrad.values.learning import Batch, MicroBatch, Sample, ScoredSample, StepSettings, Update, WeightedSample
from patchgrad.values.reports import UNKNOWN, Advanced, Estimate, Evaluated, Event, Measured, Note, Outcomes, PhaseBegan, Report
from patchgrad.values.tasks import Checks, HiddenFile, Limits, Repository, Task, root_address
from patchgrad.values.text import well_formed
from patchgrad.values.turns import (
    Action,
    Attempt,
    Budget,
    Call,
    Entries,
    Failure,
    Malformed,
    MalformedKind,
    Message,
    Observation,
    Origin,
    Sampling,
    Segment,
    Snapshot,
    Start,
    Stop,
    ToolState,
    Trajectory,
    Turn,
    Usage,
    repeated,
    stream_digest,
    undone,
)

__all__ = [
    "Action",
    "Advanced",
    "Attempt",
    "Batch",
    "Bools",
    "Budget",
    "Call",
    "Checks",
    "Ending",
    "Entries",
    "Estimate",
    "Evaluated",
    "Event",
    "Failure",
    "Floats",
    "Group",
    "HiddenFile",
    "Ids",
    "Judgement",
    "Limits",
    "Malformed",
    "MalformedKind",
    "Measured",
    "Message",
    "MicroBatch",
    "NO_IDS",
    "Note",
    "Observation",
    "Origin",
    "Outcomes",
    "PhaseBegan",
    "Report",
    "Repository",
    "Reward",
    "Rollout",
    "Sample",
    "Sampling",
    "ScoredSample",
    "Segment",
    "Snapshot",
    "Start",
    "Status",
    "StepSettings",
    "Stop",
    "Task",
    "TestOutcome",
    "ToolState",
    "Trajectory",
    "Turn",
    "UNKNOWN",
    "Update",
    "Usage",
    "Verdict",
    "WeightedSample",
    "chain",
    "common",
    "digest",
    "floats",
    "frozen",
    "ids",
    "repeated",
    "undone",
    "root_address",
    "stored",
    "stored_as",
    "stored_name",
    "stream_digest",
    "well_formed",
]
