"""Boards of other programs: what they are told of a run, by their real packages, and that none of them touches it."""

from __future__ import annotations

import json
import logging
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guests.environments import environment
from tests.runs.test_pipeline import TINY
from tests.viewer.synthetic import policy

from patchgrad.cli import main
from patchgrad.config import dumps, override
from patchgrad.errors import MissingDependency, Refused, StoreError
from patchgrad.runs.api import train
from patchgrad.runs.trackers.apart import Apart
from patchgrad.runs.trackers.beside import Beside
from patchgrad.runs.trackers.boards.board import BOARDS
from patchgrad.runs.trackers.following import Follower, Known, following
from patchgrad.runs.trackers.points import UNREAD, Point, points
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.values import Event, Measured, Note, Report
from patchgrad.values.turns import MalformedKind

Figures = list[tuple[int, Mapping[str, float]]]
PHASES = ("rft", "stage1", "stage2")
NAMES = ("base", "+ RFT", "+ stage 1 RL", "+ stage 2 RL")


def row(phase: str, iteration: int, **more: Any) -> dict[str, Any]:
    seconds = {"wall": 20.0, "learning": 5.0, "besides": 1.0, "tools": 3.0}
    told = {"phase": phase, "iteration": iteration, "reward": 0.25, "sampled": 100, "trained": 40, "seconds": seconds, "entropy": 0.5}
    return {**told, "kl1": None, "steps": [{"loss": 1.0}], "failures": {"looping": 0.125}, **more}


def report(number: int) -> Report:
    return policy(NAMES[number], 0.2 + 0.1 * number, 0.5, 0.9, 4.0, 1.0)


def a_run(folder: Path, iterations: int = 2) -> Run:
    """A run of two phases, with its table."""
    with Run.create(folder, "[policy]\ncontext = 2048\n\n[[stages]]\niterations = 2\n") as run:
        for phase in PHASES[:2]:
            for iteration in range(iterations):
                run.results.write_metrics(row(phase, iteration))
        run.results.write_reports([report(0), report(1), report(2)])
        run.save_state({"position": 4})
    return run


def tensorboard(folder: Path) -> Figures:
    """The scalars of event files: records of a length, its sum, the bytes, and their sum."""
    from tensorboardX.proto.event_pb2 import Event as Written

    found: Figures = []
    for path in sorted((folder / "trackers" / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        content = path.read_bytes()
        while content:
            (size,) = struct.unpack("<Q", content[:8])
            event = Written.FromString(content[12 : 12 + size])
            found += [(event.step, {one.tag: one.simple_value}) for one in event.summary.value if one.WhichOneof("value") == "simple_value"]
            content = content[16 + size :]
    return found


def wandb(folder: Path) -> Figures:
    """The history of the runs that were kept below the folder."""
    from wandb.proto.wandb_internal_pb2 import Record

    found: Figures = []
    for path in sorted((folder / "trackers" / "wandb").glob("offline-run-*/*.wandb")):
        for content in logged(path.read_bytes()):
            items = Record.FromString(content).history.item
            told = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
            found += [(int(told["iteration"]), {k: v for k, v in told.items() if not k.startswith("_")})] if told else []
    return found


def logged(content: bytes) -> Iterator[bytes]:
    """The records of a log as LevelDB writes it: in blocks of 32 KiB, each piece with a sum, its length, and whether it is the last."""
    place, record = 7, b""
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        size, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield record
            record = b""


def trackio(folder: Path) -> Figures:
    """What lies in the database of the machine."""
    with sqlite3.connect(folder / "trackio" / "patchgrad.db") as database:
        rows = database.execute("select step, metrics from metrics order by id").fetchall()
    return [(step, json.loads(metrics)) for step, metrics in rows]


READ: dict[str, Callable[[Path], Figures]] = {"tensorboard": tensorboard, "wandb": wandb, "trackio": trackio}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing is sent, and nothing of the user's is read."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "run" / "trackio"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    return tmp_path / "run"


def curve(found: Figures, name: str) -> list[tuple[int, float]]:
    return [(step, figures[name]) for step, figures in found if name in figures]


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_a_board_is_told_of_a_run_once_and_of_what_came_since(board: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # what Trackio brings changes how Ray's actors run, so it is not beside the project
    python = str(environment("trackio") / "bin" / "python") if board == "trackio" else sys.executable
    a_run(folder)
    command = [python, "-c", "from patchgrad.cli import main; main()", "track", str(folder), "--to", board]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{board} was told 7 points" in first.stdout
    with Run.resume(folder) as run:
        run.results.write_metrics(row("stage2", 0, reward=0.75))
        run.save_state({"position": 5})
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{board} was told 1 points" in again.stdout
    found = READ[board](folder)
    assert curve(found, "reward/mean") == [(1, 0.25), (2, 0.25), (3, 0.25), (4, 0.25), (5, 0.75)]
    solved = curve(found, "eval/held_out/pass@1")
    assert [step for step, _ in solved] == [0, 2, 4]
    assert [share for _, share in solved] == pytest.approx([0.2, 0.3, 0.4])
    assert curve(found, "tokens/sampled")[-1] == (5, 500.0)
    assert curve(found, "time/total")[-1] == (5, 105.0)
    assert [step for step, _ in found] == sorted(step for step, _ in found)


EVALUATED = {"eval/held_out/pass@1", "eval/held_out/pass@k"}
TRAINED = {
    *("reward/mean", "rollout/turns", "rollout/submitted", "rollout/truncated", "rollout/format_errors"),
    *("policy/entropy", "policy/kl", "policy/clip_fraction", "policy/grad_norm", "policy/sampler_trainer_logp_diff"),
    *("tokens/sampled", "tokens/trained", "time/step", "time/sample", "time/grade", "time/update", "time/total"),
}
"""What the boards of TRL, verl and prime-rl have in common, by our names; a board has `iteration` as the step."""


def test_a_real_run_gives_every_figure_that_the_field_looks_for(tmp_path: Path) -> None:
    penalised = {"filter_on": "nothing", "failures.no_command": "penalise", "failures.truncated": "penalise"}
    steps = override(replace(TINY, stages=TINY.stages[:1]), {f"stages.0.advantage.{key}": value for key, value in penalised.items()})
    with Run.create(tmp_path / "run", dumps(steps)) as run:
        train(steps, run, Silent())
    found = points(run.results.metrics(Refused()), run.results.reports())
    reports = [point.figures for point in found if not point.phase]
    updated = [point.figures for point in found if point.figures.get("policy/updates") and point.phase.startswith("stage")]
    assert reports
    assert updated
    assert [EVALUATED - set(figures) for figures in reports] == [set()] * len(reports)
    assert [TRAINED - set(figures) for figures in updated] == [set()] * len(updated)


def test_format_errors_are_the_share_of_turns_that_no_command_was_read_from() -> None:
    failures = {"no command": 3, "bad arguments": 2, "truncated": 7, "looping": 1}
    (point,) = points([row("stage1", 0, episodes=5, turns=4.0, failures=failures)], [])
    assert point.figures["rollout/format_errors"] == 5 / 20
    (older,) = points([row("stage1", 0)], [])
    assert "rollout/format_errors" not in older.figures


def test_every_failure_that_counts_as_unread_is_one_that_a_turn_can_have() -> None:
    assert set(UNREAD) == set(get_args(MalformedKind))


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data())
def test_what_a_board_was_told_of_a_run_stays_the_beginning_of_what_it_will_be_told(sizes: list[int], data: st.DataObject) -> None:
    """The records and reports of a run come in an order, and at any moment a prefix of them is there."""
    written: list[Report | dict[str, Any]] = [report(0)]
    for number, size in enumerate(sizes):
        written += [*(row(PHASES[number], iteration) for iteration in range(size)), report(number + 1)]

    def told(count: int) -> list[Point]:
        there = written[:count]
        return points([one for one in there if isinstance(one, dict)], [one for one in there if isinstance(one, Report)])

    first = data.draw(st.integers(0, len(written)))
    before, after = told(first), told(len(written))
    assert after[: len(before)] == before
    assert len(after) == len(written)
    assert [point.step for point in after] == sorted(point.step for point in after)


def test_a_point_whose_attempts_cannot_be_read_is_not_told_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    board = SimpleNamespace(figures=lambda step, _: told.append(step), text=lambda *_: None)
    follower = Follower(a_run(folder), board, Known(folder / "known.json", "one", 0))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match="pyarrow"):
        follower.catch_up()
    monkeypatch.undo()
    follower.catch_up()
    assert told == [0, 1, 2, 2, 3, 4, 4]


def test_one_process_at_a_time_tells_a_board(folder: Path) -> None:
    a_run(folder)
    with (
        following(folder, "tensorboard", {}),
        pytest.raises(StoreError, match="by another process already"),
        following(folder, "tensorboard", {}),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--to", "nothing"), "nothing is not registered"),
        (("--to", "tensorboard", "--with", "project"), "write NAME=VALUE"),
        (("--to", "tensorboard", "--with", "colour=3"), "takes no such options"),
    ],
)
def test_a_board_that_cannot_be_filled_is_refused_in_a_sentence(
    words: tuple[str, ...], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(folder)
    assert main(["track", str(folder), *words]) == 2
    assert told in capsys.readouterr().err


FAKES = {
    "hangs": "import time\ntime.sleep(1000)",
    "fails": "raise OSError('no space left')",
    "missing": "raise ModuleNotFoundError('gone', name='tensorboardX')",
    "breaks": "import os\nos._exit(3)",
}
"""What a board's package may do, by a module that stands in its place."""


@pytest.mark.parametrize(
    ("fake", "why"), [("hangs", "not done 1 s"), ("fails", "no space left"), ("missing", "pip install"), ("breaks", "it gave no reason")]
)
def test_a_board_that_hangs_fails_or_is_missing_is_told_of_once_and_the_run_goes_on(
    fake: str, why: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "fakes").mkdir()
    (tmp_path / "fakes" / "tensorboardX.py").write_text(FAKES[fake])
    monkeypatch.syspath_prepend(tmp_path / "fakes")
    a_run(folder)
    board = Apart(folder, "tensorboard", {})
    began = time.monotonic()
    for number in range(100_000):  # more than a pipe holds
        board.event(Measured(row("stage1", number)))
    assert time.monotonic() - began < 20
    board.close(seconds=1.0 if fake == "hangs" else 60.0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert why in caplog.text
    assert f"patchgrad track {folder} --to tensorboard" in caplog.text


DYING = """
import os, signal, sys
from pathlib import Path
from tests.runs.test_boards import a_run, row
from patchgrad.runs.trackers.apart import Apart
from patchgrad.store import Run
from patchgrad.values import Measured
folder = Path(sys.argv[1])
a_run(folder)
board = Apart(folder, "tensorboard", {})
with Run.resume(folder) as run:
    run.results.write_metrics(row("stage2", 0, reward=0.75))
    run.save_state({"position": 5})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_board_of_a_run_that_was_killed_is_told_all_that_lies_in_the_folder_and_goes_on_when_it_is_resumed(folder: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert subprocess.run([sys.executable, "-c", DYING, str(folder)], check=False).returncode == -signal.SIGKILL
    board = Apart(folder, "tensorboard", {})
    with Run.resume(folder) as run:
        run.results.write_metrics(row("stage2", 1, reward=0.5))
        board.event(Measured(row("stage2", 1)))
    board.close(seconds=60.0)
    assert curve(tensorboard(folder), "reward/mean")[-2:] == [(5, 0.75), (6, 0.5)]


class Hanging:
    """Takes its first event for as long as it is not let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.told: list[Event] = []

    def event(self, event: Event) -> None:
        self.go.wait()
        self.told.append(event)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.go.set()


def test_a_tracker_that_hangs_is_not_waited_for(hanging: Hanging, caplog: pytest.LogCaptureFixture) -> None:
    beside = Beside(hanging, waiting=10)
    for number in range(100):
        beside.event(Note(str(number)))
    beside.close(seconds=0.1)
    assert len(caplog.records) == 1
    assert "10 events behind" in caplog.text


def test_a_tracker_that_is_slow_is_told_everything_in_order(hanging: Hanging, caplog: pytest.LogCaptureFixture) -> None:
    beside, events = Beside(hanging), [Note(str(number)) for number in range(100)]
    for event in events:
        beside.event(event)
    hanging.go.set()
    beside.close()
    assert hanging.told == events
    assert not caplog.records


def test_the_trackers_are_among_the_parts_that_a_recipe_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["components"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in BOARDS)
