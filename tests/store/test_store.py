"""A run's folder: exact round trips, torn writes, locks, resume, and folders that are not ours."""

from __future__ import annotations

import asyncio
import errno
import json
import math
import multiprocessing
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.errors import StoreError
from patchgrad.store import Run, files, finite, plain, value
from patchgrad.values import (
    Action,
    Call,
    Checks,
    Estimate,
    HiddenFile,
    Limits,
    Malformed,
    Observation,
    Report,
    Repository,
    Reward,
    Rollout,
    Segment,
    Snapshot,
    Task,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Usage,
    Verdict,
    floats,
    ids,
)

TASK = Task(
    "t1",
    "clamp(5, 1, 3) gives 1.",
    Repository("archive", "t1.tar", "ab" * 32),
    Checks(("tests/test_a.py::test_b[1]",), ("tests/test_a.py::test_c",), (HiddenFile("tests/test_a.py", "def test"),)),
    tags={"family": "compare"},
)

text = st.text(st.characters())  # lone surrogates included: an agent may print any byte
token_ids = st.lists(st.integers(0, 2**31 - 1), max_size=6).map(ids)
logprobs = st.lists(st.floats(max_value=0.0, allow_infinity=False, width=32), max_size=6).map(floats)  # of what was sampled
actions = st.builds(Action, token_ids, logprobs, st.integers(0, 99), text, st.sampled_from(["stop", "length"]))
calls = st.builds(Call, text, text) | st.builds(Malformed, st.just("no command"), text)
observations = st.builds(
    Observation,
    text,
    st.builds(ToolState, text, st.none() | text, st.integers(1, 99)),
    st.none() | st.integers(0, 255),
    st.booleans(),
    st.floats(0, 9),
    st.none() | st.just("timeout"),
)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    segments, parent = [], str(draw(st.uuids()))  # every attempt begins at an address of its own
    for _ in range(draw(st.integers(0, 2))):
        turns = []
        for _ in range(draw(st.integers(1, 3))):
            turn = Turn(draw(token_ids), draw(actions), draw(calls), draw(observations), draw(st.text("0a", max_size=4)), parent)
            parent = turn.address
            turns.append(turn)
        segments.append(Segment(tuple(turns)))
    ended = Trajectory(draw(st.text(min_size=1)), "t1", tuple(segments), draw(st.sampled_from(["submitted", "failed"])), draw(text))
    return replace(ended, asides=draw(st.integers(0, 3)))


verdicts = st.builds(
    Verdict,
    st.just("t1"),
    text,
    st.sampled_from([(), ("applied",), ("applied", "collected", "ran")]),
    st.lists(st.builds(TestOutcome, text, st.just("fail_to_pass"), st.sampled_from(["passed", "failed"]))).map(tuple),
    st.lists(text).map(tuple),
    st.none() | text,
    st.floats(0, 9),
)
rollouts = st.builds(
    Rollout,
    st.just(TASK),
    trajectories(),
    verdicts,
    st.builds(Reward, st.floats(-1, 1), st.dictionaries(st.text(), st.floats(-1, 1))),
)


def same(one: Any, other: Any) -> bool:
    """Equality of values to the bit: arrays do not compare with `==`."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype) and one.tobytes() == other.tobytes()
    return type(one) is type(other) and plain(one) == plain(other)


def turn(number: int, parent: str = "") -> Turn:
    action = Action(ids([7, number]), floats([-0.5, -0.25]), 3, f"turn {number}", "stop")
    return Turn(ids([1, number]), action, Call("open", "a.py"), Observation("ok", ToolState(), 0), "s", parent)


def attempt(name: str, solved: bool = True, turns: int = 3) -> Rollout:
    chain: list[Turn] = []
    for number in range(turns):
        chain.append(turn(number, chain[-1].address if chain else name))
    outcome = TestOutcome("tests/test_a.py::test_b[1]", "fail_to_pass", "passed" if solved else "failed")
    trajectory = Trajectory(name, TASK.id, (Segment(tuple(chain)),), "submitted", "diff")
    verdict = Verdict(TASK.id, "diff", ("applied", "collected", "ran"), (outcome,))
    return Rollout(TASK, trajectory, verdict, Reward(float(solved), {"tests": float(solved)}))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", "seed = 1\n") as made:
        yield made


@given(rollouts)
def test_values_survive_plain_data_to_the_bit(rollout: Rollout) -> None:
    back = value(Rollout, json.loads(json.dumps(plain(rollout))))
    assert same(back, rollout)
    assert [t.address for t in back.trajectory.turns] == [t.address for t in rollout.trajectory.turns]


@given(st.dictionaries(st.text(), st.tuples(st.integers(0, 0o777), st.none() | st.binary())))
def test_snapshots_survive_plain_data(entries: dict[str, tuple[int, bytes | None]]) -> None:
    snapshot = Snapshot("a", entries)
    assert value(Snapshot, json.loads(json.dumps(plain(snapshot)))) == snapshot


@settings(max_examples=25)
@given(st.lists(rollouts, max_size=3))
def test_rollouts_survive_the_folder_to_the_bit(tmp_path_factory: pytest.TempPathFactory, given_rollouts: list[Rollout]) -> None:
    folder = tmp_path_factory.mktemp("store") / "run"
    with Run.create(folder, "") as run:
        run.rollouts.write("rft", 0, given_rollouts)
    back = Run.open(folder).rollouts.read("rft")
    assert len(back) == len(given_rollouts)
    assert all(same(one, other) for one, other in zip(back, given_rollouts, strict=True))


def test_data_of_the_wrong_shape_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="A stored Task cannot be read"):
        value(Task, {"id": "x"})
    with pytest.raises(StoreError, match="A set cannot be stored"):
        plain({1})


def test_a_row_can_be_read_without_patchgrad(run: Run) -> None:
    import pyarrow.parquet

    run.rollouts.write("stage1", 4, [attempt("t1/0"), attempt("t1/1", solved=False)])
    rows = pyarrow.parquet.read_table(run.folder / "rollouts" / "stage1-00004.parquet").to_pylist()
    assert [row["solved"] for row in rows] == [True, False]
    assert rows[0]["conversation"][1] == {
        "text": "turn 1",
        "tool": "open",
        "arguments": "a.py",
        "malformed": None,
        "observation": "ok",
        "exit_code": 0,
        "failure": None,
        "directory": "/testbed",
        "tokens": 2,
        "logprob": -0.375,
        "version": 3,
        "seconds": 0.0,
    }


def test_some_columns_are_read_whatever_kind_of_sequence_names_them(run: Run) -> None:
    run.rollouts.write("rft", 0, [attempt("t1/0")])
    assert (
        run.rollouts.rows("rft", 0, ("task", "solved"))
        == run.rollouts.rows("rft", 0, ["task", "solved"])
        == [{"task": "t1", "solved": True}]
    )


def test_bytes_that_are_no_text_stay_exact_though_a_table_cannot_hold_them(run: Run) -> None:
    odd = replace(turn(0), observation=Observation("\udcff", ToolState("/\udcfe"), failure="died"))
    rollout = attempt("t1/0")
    rollout = replace(rollout, trajectory=replace(rollout.trajectory, segments=(Segment((odd,)),), submission="\udcfd"))
    run.rollouts.write("rft", 0, [rollout])
    assert same(run.rollouts.read("rft")[0], rollout)
    assert run.rollouts.rows()[0]["conversation"][0]["directory"] == "/?"


def test_a_turn_is_written_once(run: Run) -> None:
    rollout = attempt("t1/0")
    for one in rollout.trajectory.turns:
        asyncio.run(run.journal.turn("t1/0", one))
    run.rollouts.write("rft", 0, [rollout])
    run.rollouts.write("rft", 0, [rollout])
    assert len(list(run.journal.records.entries())) == 3
    assert len(run.rollouts.rows()) == 1


def test_a_reader_sees_only_whole_turns_while_another_process_writes(run: Run) -> None:
    first, second = turn(0), turn(1)
    asyncio.run(run.journal.turn("a", first))
    reader = Run.open(run.folder)
    assert first.address in reader.journal.records
    asyncio.run(run.journal.turn("a", second))
    with (run.folder / "journal" / "00000.jsonl").open("ab") as file:
        file.write(b'{"address": "half')
    assert [entry.turn.address for entry in reader.journal.records.entries()] == [first.address, second.address]
    assert second.address in reader.journal.records


@pytest.mark.parametrize("tail", [b'{"address": "ha', b"\x00" * 500, b'{"address": "x"}\n', b"\n\n"])
def test_a_torn_tail_is_cut_on_resume(run: Run, tail: bytes) -> None:
    first = turn(0)
    asyncio.run(run.journal.turn("a", first))
    run.results.write_metrics({"phase": "rft", "iteration": 0})
    run.save_state({"position": 1})
    run.close()
    journal, metrics = run.folder / "journal" / "00000.jsonl", run.folder / "metrics.jsonl"
    before = journal.read_bytes(), metrics.read_bytes()
    for path in (journal, metrics):
        with path.open("ab") as file:
            file.write(tail.replace(b"}\n", b"\n"))
    with Run.resume(run.folder) as again:
        assert (journal.read_bytes(), metrics.read_bytes()) == before
        assert again.journal.records.turn(first.address).address == first.address


def test_damage_in_the_middle_is_reported_not_skipped(run: Run) -> None:
    for number in range(3):
        asyncio.run(run.journal.turn("a", turn(number)))
    path = run.folder / "journal" / "00000.jsonl"
    path.write_bytes(path.read_bytes().replace(b"turn 1", b"turn 9"))
    with pytest.raises(StoreError, match="damaged at byte"):
        list(Run.open(run.folder).journal.records.entries())
    with pytest.raises(StoreError, match="damaged at byte"):
        Run.open(run.folder).journal.records.turn(turn(1).address)
    with pytest.raises(StoreError, match="holds no turn"):
        run.journal.records.turn("0" * 64)


def test_a_new_journal_file_begins_when_one_is_full(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgrad.store.journal.LIMIT", 1)
    for number in range(3):
        asyncio.run(run.journal.turn("a", turn(number)))
    assert len(run.journal.records.files()) == 3
    assert [entry.turn.action.text for entry in run.journal.records.entries()] == ["turn 0", "turn 1", "turn 2"]


def saving(text: str) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        (folder / "weights").write_text(text)

    return save


def test_a_checkpoint_is_whole_or_absent(run: Run) -> None:
    def fails(folder: Path) -> None:
        saving("half")(folder)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        run.checkpoints.save(1, fails)
    assert run.checkpoints.all() == []
    kept = run.checkpoints.save(1, saving("one"))
    with pytest.raises(RuntimeError):
        run.checkpoints.save(1, fails)
    assert (kept / "weights").read_text() == "one"
    run.checkpoints.save(1, saving("two"))
    run.checkpoints.save("final", saving("end"))
    assert [(path.name, (path / "weights").read_text()) for path in run.checkpoints.all()] == [("000001", "two"), ("final", "end")]
    run.checkpoints.discard(1)
    assert [path.name for path in run.checkpoints.all()] == ["final"]


def test_a_folder_that_a_kill_left_aside_comes_back(tmp_path: Path) -> None:
    files.put_folder(tmp_path / "one", saving("one"))
    (tmp_path / "one").rename(tmp_path / ".one.old")
    (tmp_path / ".one.partial").mkdir()
    files.recover(tmp_path)
    assert [(path.name, (path / "weights").read_text()) for path in tmp_path.iterdir()] == [("one", "one")]


def test_what_was_not_committed_is_not_there_after_a_resume_but_for_turns(run: Run) -> None:
    run.checkpoints.save("one", saving("one"))
    run.checkpoints.save("kept", saving("kept"))
    run.results.write_metrics({"phase": "rft", "iteration": 0})
    run.save_state({"checkpoint": "one", "kept": ["kept"]})
    run.checkpoints.save("two", saving("two"))
    run.results.write_metrics({"phase": "rft", "iteration": 1})
    asyncio.run(run.journal.turn("a", turn(0)))
    run.close()
    (run.folder / "checkpoints" / "one").rename(run.folder / "checkpoints" / ".one.partial")  # a kill in the middle of `discard`
    (run.folder / "checkpoints" / ".one.partial").rename(run.folder / "checkpoints" / "one")
    with Run.resume(run.folder) as again:
        assert {path.name for path in again.checkpoints.all()} == {"one", "kept"}
        assert [row["iteration"] for row in again.results.metrics()] == [0]
        assert turn(0).address in again.journal.records
        again.checkpoints.discard("one")
        again.save_state({"checkpoint": "kept"})
    with Run.resume(run.folder) as again:
        assert [path.name for path in again.checkpoints.all()] == ["kept"]


def committed(folder: Path) -> list[str]:
    """A run with something of every kind, and the names of what counts as done in it."""
    with Run.create(folder, "seed = 1\n") as run:
        rollout = attempt("t1/0")
        for one in rollout.trajectory.turns:
            run.journal.states.put(Snapshot(one.state, {"a.py": (0o644, b"x = 1")}))
            asyncio.run(run.journal.turn("t1/0", one))
        run.rollouts.write("rft", 0, [rollout])
        run.results.write_metrics({"phase": "rft", "iteration": 0})
        run.checkpoints.save("rft-0", saving("weights"))
        run.save_state({"checkpoint": "rft-0"})
    return list(json.loads((folder / "state.json").read_text())["committed"])


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", ["gone", "shorter", "a bit"])
def test_a_folder_that_has_lost_or_damaged_what_was_committed_is_refused_and_left_as_it_is(tmp_path: Path, how: str) -> None:
    names = committed(tmp_path / "whole")
    kept = {"journal", "states", "tasks.jsonl", "metrics.jsonl", "rollouts", "checkpoints", "recipe.toml"}
    assert {name.split("/")[0] for name in names} == kept
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        path = folder / name
        content = bytearray(path.read_bytes())
        path.unlink()
        if how == "shorter":
            path.write_bytes(content[:-1])
        elif how == "a bit":
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        before = everything(folder)
        with pytest.raises(StoreError, match=f"{re.escape(str(path))}|{re.escape(path.name)} is missing"):
            Run.resume(folder)
        assert everything(folder) == before
    Run.resume(tmp_path / "whole").close()


def test_a_recipe_that_was_changed_is_refused_before_anything_was_done(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", "seed = 1\n").close()
    (tmp_path / "run" / "recipe.toml").write_text("seed = 2\n")
    with pytest.raises(StoreError, match=r"recipe\.toml is damaged"):
        Run.resume(tmp_path / "run")


def test_a_recipe_that_cannot_be_read_is_named(run: Run) -> None:
    (run.folder / "recipe.toml").write_text("seed = ")
    with pytest.raises(StoreError, match=r"recipe\.toml cannot be read"):
        assert run.recipe


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_what_a_machine_without_power_kept_is_whole_or_cut(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("power") / "run"
    committed(folder)
    with Run.resume(folder) as run:
        for number in range(4):
            run.journal.states.put(Snapshot.of({"b.py": (0o644, bytes([number]) * 50)}, "/testbed"))
            asyncio.run(run.journal.turn("t1/1", turn(number)))
    for path in (folder / "journal" / "00000.jsonl", folder / "states" / "00000.pack"):
        (least, _), size = json.loads((folder / "state.json").read_text())["committed"][str(path.relative_to(folder))], path.stat().st_size
        start = data.draw(st.integers(least, size - 1))
        end = data.draw(st.integers(start, size))
        content = bytearray(path.read_bytes())
        content[start:end] = bytes(end - start)  # a page that never reached the disk reads as zeros
        path.write_bytes(content)
    with Run.resume(folder) as run:
        list(run.journal.records.records())
        for number in range(4):
            snapshot = Snapshot.of({"b.py": (0o644, bytes([number]) * 50)}, "/testbed")
            run.journal.states.put(snapshot)
            assert run.journal.states.get(snapshot.address) == snapshot
            asyncio.run(run.journal.turn("t1/1", turn(number)))
            assert run.journal.records.turn(turn(number).address).address == turn(number).address
        run.save_state({"checkpoint": "rft-0"})
    Run.resume(folder).close()


def test_attempts_whose_tasks_are_gone_are_named(run: Run) -> None:
    run.rollouts.write("rft", 0, [attempt("t1/0")])
    (run.folder / "tasks.jsonl").unlink()
    with pytest.raises(StoreError, match="has no task t1"):
        Run.open(run.folder).rollouts.read("rft")


@pytest.mark.parametrize("flipped", range(8))
def test_any_bit_that_flips_in_a_line_is_damage(run: Run, flipped: int) -> None:
    asyncio.run(run.journal.turn("a", turn(0)))
    path = run.folder / "journal" / "00000.jsonl"
    line = path.read_bytes()
    for at in range(flipped, len(line) - 1, 8):
        path.write_bytes(line[:at] + bytes([line[at] ^ 1 << flipped]) + line[at + 1 :])
        try:
            found = [entry.turn.address for entry in Run.open(run.folder).journal.records.entries()]
        except StoreError:
            continue
        assert found in ([], [turn(0).address]), "the bit of a name, or the line has become two"


def test_of_two_that_create_one_run_the_second_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.new_folder

    def overtaken(path: Path, save: Callable[[Path], None]) -> bool:
        monkeypatch.setattr(files, "new_folder", real)
        Run.create(path, "first = 1\n").close()
        return real(path, save)

    monkeypatch.setattr(files, "new_folder", overtaken)
    with pytest.raises(StoreError, match="holds a run already"):
        Run.create(tmp_path / "run", "second = 1\n")
    assert Run.open(tmp_path / "run").recipe == "first = 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_is_not_made_where_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", str(tmp_path)):
        with pytest.raises(StoreError, match="where this program runs"):
            Run.create(name, "")


def test_state_metrics_and_reports(run: Run) -> None:
    assert run.state() == {}
    assert run.results.reports() == []
    run.results.write_metrics({"phase": "rft", "iteration": 0, "loss": 3.0})
    run.results.write_metrics({"phase": "rft", "iteration": 0, "loss": np.float32("nan"), "deep": [np.float64(1.5), True, 3]})
    run.save_state({"phase": "rft", "iteration": 0})
    assert run.results.metrics() == [{"phase": "rft", "iteration": 0, "loss": None, "deep": [1.5, True, 3]}]
    half = Estimate(0.5, 0.1)
    report = Report("base", 2, 4, half, half, half, 5.0, 60.0, 9.0, {"turns": 8}, {"t1": 2}, {"submitted": 3})
    run.results.write_reports([report])
    again = Run.open(run.folder)
    assert (again.state(), again.results.reports(), again.recipe) == ({"phase": "rft", "iteration": 0}, [report], "seed = 1\n")


def test_predictions_are_in_the_format_of_swe_bench(run: Run) -> None:
    run.results.write_predictions("patchgrad", [attempt("t1/0"), attempt("t1/1")])
    assert [json.loads(line) for line in (run.folder / "predictions.jsonl").read_text().splitlines()] == [
        {"instance_id": "t1", "model_name_or_path": "patchgrad", "model_patch": "diff"}
    ]


def test_tasks_are_stored_once_and_an_id_means_one_content(run: Run) -> None:
    run.tasks.add([TASK, replace(TASK, tags={}), replace(TASK, repository=replace(TASK.repository, location="elsewhere"))])
    assert Run.open(run.folder).tasks.all() == {"t1": TASK}
    with pytest.raises(StoreError, match="another content"):
        run.tasks.add([replace(TASK, limits=Limits(memory=1))])


def test_an_existing_run_is_not_overwritten(run: Run) -> None:
    with pytest.raises(StoreError, match="holds a run already; add --resume"):
        Run.create(run.folder, "")


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    uses: list[Callable[[], Run]] = [
        lambda: Run.create(tmp_path, ""),
        lambda: Run.resume(tmp_path),
        lambda: Run.open(tmp_path),
    ]
    for use in uses:
        with pytest.raises(StoreError, match="no run of patchgrad's"):
            use()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"program": "patchgrad", "format": 99, "version": "9.0"}', "has format 99, written by patchgrad 9.0"),
        ('{"program": "other"}', "written by another program"),
        ("[]", "written by another program"),
        ('{"progr', "cannot be read, so this run is damaged"),
    ],
)
def test_a_folder_of_another_kind_is_named(run: Run, content: str, words: str) -> None:
    run.close()
    (run.folder / "run.json").write_text(content)
    for use in (Run.resume, Run.open):
        with pytest.raises(StoreError, match=words):
            use(run.folder)


def test_a_half_written_folder_is_named(run: Run) -> None:
    run.close()
    (run.folder / "recipe.toml").unlink()
    with pytest.raises(StoreError, match=r"only half there: recipe\.toml is missing"):
        Run.resume(run.folder)


def test_creation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Run.create(tmp_path / "file" / "run", "")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_writers_refuse_each_other_and_a_reader_cannot_write(run: Run) -> None:
    with pytest.raises(StoreError, match="Another process is writing"):
        Run.resume(run.folder)
    with pytest.raises(StoreError, match="opened for reading"):
        Run.open(run.folder).save_state({})
    run.close()
    Run.resume(run.folder).close()


def _write_until_killed(folder: Path) -> None:
    run = Run.resume(folder)
    asyncio.run(run.journal.turn("a", turn(0)))
    os.kill(os.getpid(), 9)


def test_a_killed_writer_leaves_its_turns_and_no_lock(run: Run) -> None:
    run.close()
    process = multiprocessing.get_context("spawn").Process(target=_write_until_killed, args=(run.folder,))
    process.start()
    process.join(60)
    assert process.exitcode == -9
    with Run.resume(run.folder) as again:
        assert [entry.turn.action.text for entry in again.journal.records.entries()] == ["turn 0"]


def test_turns_reach_the_disk_together_once_in_a_window_and_states_before_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, now = list[str](), [1000.0]
    monkeypatch.setattr("patchgrad.store.run_journal.time.monotonic", lambda: now[0])
    monkeypatch.setattr(files, "sync", lambda path: synced.append(path.name))
    run.journal.sync()
    synced.clear()
    run.journal.states.put(Snapshot.of({"a.py": (0o100644, b"x")}))
    for number, (seconds, expected) in enumerate([(1.0, []), (3.9, []), (0.2, ["00000.pack", "00000.jsonl"]), (4.9, [])]):
        now[0] += seconds
        synced.clear()
        asyncio.run(run.journal.turn(f"t/{number}", turn(number)))
        assert [name for name in synced if name != "journal"] == expected  # a folder's list of names, where a file is new


def test_a_full_disk_is_one_sentence(run: Run) -> None:
    for name in ("metrics.jsonl", ".state.json.partial"):
        (run.folder / name).symlink_to("/dev/full")
    with pytest.raises(StoreError, match="No space is left on the disk that holds"):
        run.results.write_metrics({"phase": "rft"})
    (run.folder / "metrics.jsonl").unlink()
    with pytest.raises(StoreError, match="No space is left on the disk that holds"):
        run.save_state({"phase": "rft"})
    assert run.state() == {}


def test_a_damaged_table_is_named(run: Run) -> None:
    (run.folder / "rollouts" / "rft-00000.parquet").write_bytes(b"not a table")
    with pytest.raises(StoreError, match="not a table that patchgrad wrote"):
        run.rollouts.rows()


def test_what_came_later_may_be_missing_and_what_is_not_known_comes_back_as_such() -> None:
    half = Estimate(0.5, 0.1)
    made = Report("base", 1, 1, Estimate(1.0, math.nan), half, half, 5.0, 60.0, 9.0, {}, {"t1": 1}, {}, outcomes={"t1": (True, None)})
    kept = json.loads(json.dumps(finite(plain(made))))
    assert kept["pass_at_1"] == {"mean": 1.0, "error": None, "low": None, "high": None}
    assert value(Report, kept) == made
    for name in ("outcomes", "over_runs", "sampling", "about", "best_at_n", "worst", "best", "context_tokens", "failures", "faults"):
        del kept[name]
    older = value(Report, kept | {"pass_at_k": {"mean": 0.5, "error": 0.1}})
    assert (older.outcomes, older.pass_at_k, older.faults) == ({}, half, 0)
    with pytest.raises(StoreError, match="KeyError 'tasks'"):
        value(Report, {name: item for name, item in kept.items() if name != "tasks"})


def test_an_action_without_usage_has_the_address_that_it_always_had() -> None:
    """Journals of older runs hold actions without the field, under addresses that were made without it."""
    turn = Turn(
        ids([5, 6]), Action(ids([7]), floats([-0.5]), 3, "ls", "stop"), Call("shell", "ls"), Observation("a.py", ToolState()), "s", "p"
    )
    assert turn.address == "440672fedc240308371035a47258503320dc6274848a529d3c6f9ab80914c5cd"
    kept = plain(turn)
    del kept["action"]["usage"]
    assert value(Turn, kept).address == turn.address
    told = replace(turn, action=replace(turn.action, usage=Usage(3, 2)))
    assert told.address != turn.address
    assert value(Turn, plain(told)).address == told.address


def test_a_log_that_lost_what_was_committed_is_refused_and_left_as_it_is(run: Run) -> None:
    asyncio.run(run.journal.turn("t/0", turn(1)))
    run.save_state({"position": 1})
    run.close()
    (journal,) = run.journal.records.files()
    os.truncate(journal, journal.stat().st_size - 1)
    left = journal.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match="shorter than when the run last said what is done; restore it from a copy"):
            Run.resume(run.folder)
    assert journal.read_bytes() == left


def test_a_run_without_its_state_is_refused_and_not_begun_again(run: Run) -> None:
    run.save_state({"position": 1})
    run.close()
    (run.folder / "state.json").unlink()
    with pytest.raises(StoreError, match=r"state\.json is gone; restore it from a copy"):
        Run.resume(run.folder)


def test_a_folder_that_cannot_take_its_place_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put_folder(tmp_path / "one", lambda folder: (folder / "a").touch())
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == ".one.partial":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StoreError, match="cannot be written"):
        files.put_folder(tmp_path / "one", lambda folder: (folder / "b").touch())
    assert [path.name for path in tmp_path.rglob("*")] == ["one", "a"]


def test_what_went_to_an_earlier_file_is_on_the_disk_before_a_new_one_begins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr("patchgrad.store.journal.LIMIT", 1)
    monkeypatch.setattr("patchgrad.store.packs.LIMIT", 1)
    monkeypatch.setattr(files, "sync", lambda path: synced.append(path.name))
    for number in (1, 2):
        run.journal.states.put(Snapshot.of({"a.py": (0o644, b"x" * number)}))
        asyncio.run(run.journal.turn("t/0", turn(number)))
    assert {"00000.pack", "00000.jsonl", "states", "journal"} <= set(synced)
