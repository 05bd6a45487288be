"""A folder that holds something else than what was trained is found out, attempt by attempt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.errors import StoreError
from patchgrad.recipes import laptop
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.loss import ImportanceCorrection, LossChoice
from patchgrad.runs.inspection.audit import Audited, audit
from patchgrad.runs.inspection.replay import find
from patchgrad.store import Run
from patchgrad.values import (
    Action,
    Call,
    Checks,
    Ending,
    Observation,
    Origin,
    Repository,
    Reward,
    Rollout,
    Segment,
    Task,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
    root_address,
    stream_digest,
)

TASK = Task("t", "fix it", Repository("archive", "", ""), Checks(("a",), ()))
TOKENS = 2 * 3 * 2  # of turns, of tokens a turn, of attempts: what an iteration below trains


def attempt(name: str, solved: bool, version: int, turns: int = 2) -> Rollout:
    chain: list[Turn] = []
    for number in range(turns):
        context = ids([1, number])
        stream = [token for turn in chain for token in (*turn.context, *turn.action.token_ids)]
        origin = Origin(stream_digest(ids([*stream, *context])), "fingerprint")
        action = Action(ids([7, 8, len(name)]), floats([-0.5, -0.25, -1.0]), version, str(number), "stop", origin=origin)
        parent = chain[-1].address if chain else root_address(TASK, name)
        chain.append(Turn(context, action, Call("shell", f"{name} {number}"), Observation("", ToolState(), 0), "s", parent))
    outcome = TestOutcome("a", "fail_to_pass", "passed" if solved else "failed")
    trajectory = Trajectory(name, TASK.id, (Segment(tuple(chain)),), "submitted", "")
    return Rollout(TASK, trajectory, Verdict(TASK.id, "", ("ran",), (outcome,)), Reward(float(solved), {}))


def pair(label: str, version: int) -> list[Rollout]:
    """A group that has something to teach."""
    return [attempt(f"{label}/0/{number}", number == 0, version) for number in (0, 1)]


def folder(
    path: Path, iterations: Iterable[list[Rollout]], updates: int = 4, trained: int = TOKENS, loss: LossChoice | None = None
) -> Path:
    """A run of some iterations of the first stage, each with as many updates, as its record says."""
    recipe = laptop()
    first = recipe.stages[0]
    plain = replace(first, advantage=AdvantageChoice(failures=first.advantage.failures), loss=loss or first.loss)
    with Run.create(path, dumps(replace(recipe, stages=(plain, recipe.stages[1])))) as run:
        run.tasks.add([TASK])
        for iteration, rollouts in enumerate(iterations):
            for rollout in rollouts:
                for turn in rollout.trajectory.turns:
                    asyncio.run(run.journal.turn(rollout.trajectory.id, turn))
                ending = Ending(turn.address, rollout.trajectory.stop, rollout.trajectory.submission, rollout.verdict)
                asyncio.run(run.journal.ending(rollout.trajectory.id, ending))
            run.rollouts.write("stage1", iteration, rollouts)
            run.results.write_metrics({"phase": "stage1", "iteration": iteration, "updates": updates, "trained": float(trained)})
    return path


def audited(path: Path) -> list[Audited]:
    return audit(Run.open(path))


def test_what_a_run_trained_is_proved_from_its_folder(tmp_path: Path) -> None:
    found = audited(folder(tmp_path / "run", [pair("stage1/0", 10), pair("stage1/1", 14)]))
    assert [(one.current, dict(one.versions), one.sound) for one in found] == [(10, {10: TOKENS}, True), (14, {14: TOKENS}, True)]


CORRECTED = LossChoice(old="recomputed", epochs=2, correction=ImportanceCorrection(truncate_token=2.0))


@pytest.mark.parametrize("loss", [LossChoice(epochs=2), CORRECTED])
def test_a_token_is_recorded_in_each_epoch_of_a_stage_and_a_correction_that_only_weighs_leaves_none_out(
    loss: LossChoice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = audited(folder(tmp_path / "run", [pair("stage1/0", 10)], trained=2 * TOKENS, loss=loss))
    assert (one.sound, one.trained, one.recorded) == (True, TOKENS, 2 * TOKENS)
    less = folder(tmp_path / "less", [pair("stage1/0", 10)], trained=TOKENS, loss=loss)
    assert main(["audit", str(less)]) == 1
    assert f"{TOKENS} tokens were trained by the record, {2 * TOKENS} by the attempts." in capsys.readouterr().out


def test_what_a_correction_masks_is_known_to_the_trainer_alone(tmp_path: Path) -> None:
    masking = replace(CORRECTED, correction=ImportanceCorrection(mask_token=(0.5, 2.0)))
    (one,) = audited(folder(tmp_path / "run", [pair("stage1/0", 10)], trained=TOKENS - 1, loss=masking))
    assert (one.sound, one.recorded) == (True, None)


def test_forks_streams_and_what_was_asked_aside_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = pair("stage1/0", 10)
    asked = replace(first, trajectory=replace(first.trajectory, asides=3))
    parts = tuple(Segment((turn,)) for turn in second.trajectory.turns)
    path = folder(tmp_path / "run", [[asked, replace(second, trajectory=replace(second.trajectory, segments=parts))]])
    (one,) = audited(path)
    assert (one.forks, one.restarted, one.streams, one.asides) == (0, 1, 3, 3)
    main(["audit", str(path)])
    told = capsys.readouterr().out
    assert (
        "1 attempts told their policy another story on the way, or went back to an earlier turn; all attempts have 3 token streams." in told
    )
    assert "3 questions of programs were answered aside from the turns, and not trained." in told
    assert "forks" not in told


@pytest.mark.parametrize("version", [10, 13, 15])
def test_tokens_of_another_version_than_was_trained_are_found(tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "run", [pair("stage1/0", 10), pair("stage1/1", version)])
    first, second = audited(path)
    assert first.sound
    assert (second.sound, dict(second.behind)) == (False, {14 - version: TOKENS})
    assert main(["audit", str(path)]) == 1
    assert f"{TOKENS} are {14 - version} updates behind" in capsys.readouterr().out


def test_an_attempt_that_is_there_twice_is_found(tmp_path: Path) -> None:
    first, again = audited(folder(tmp_path / "run", [pair("stage1/0", 10), pair("stage1/0", 10)], updates=0))
    assert len(first.flaws) == len(again.flaws) == 2
    assert "it is there twice" in again.flaws[0]


def test_a_turn_that_was_changed_after_it_was_sampled_is_found(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", [pair("stage1/0", 10)])
    honest = pair("stage1/0", 10)
    turn = honest[1].trajectory.turns[1]
    other = replace(turn, action=replace(turn.action, logprobs=floats([-0.1, -0.1, -0.1])))
    forged = replace(honest[1].trajectory, segments=(Segment((honest[1].trajectory.turns[0], other)),))
    table = Run.create(tmp_path / "other", dumps(laptop()))
    with table:
        table.tasks.add([TASK])
        for one in (*honest[0].trajectory.turns, *forged.turns):
            asyncio.run(table.journal.turn("x", one))
        table.rollouts.write("stage1", 0, [honest[0], replace(honest[1], trajectory=forged)])
    (tmp_path / "other" / "rollouts" / "stage1-00000.parquet").replace(path / "rollouts" / "stage1-00000.parquet")
    (found,) = audited(path)
    assert (found.attempts, found.trained, len(found.flaws)) == (2, 0, 1)
    assert found.flaws[0].startswith("The attempt stage1/0/0/1 cannot be read: "), "what is not in the journal cannot be read"
    assert main(["audit", str(path)]) == 1


def test_a_damaged_turn_is_a_flaw_of_its_attempt_and_the_others_are_audited_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder(tmp_path / "run", [pair("stage1/0", 10), pair("stage1/1", 14)])
    (journal,) = (path / "journal").iterdir()
    lines = journal.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'"text": "1"', b'"text": "2"')
    journal.write_bytes(b"\n".join(lines))
    first, second = audited(path)
    assert [len(first.flaws), len(second.flaws), second.trained] == [1, 0, TOKENS]
    assert first.flaws[0].startswith("The attempt stage1/0/0/0 cannot be read: ")
    assert main(["audit", str(path)]) == 1
    assert "3 of 4 chains verify" in capsys.readouterr().out
    assert find(Run.open(path), "stage1/0/0/1").trajectory.id == "stage1/0/0/1"
    with pytest.raises(StoreError, match="stage1/0/0/0 cannot be read"):
        find(Run.open(path), "stage1/0/0/0")


def test_a_record_of_other_tokens_than_the_attempts_have_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path / "run", [pair("stage1/0", 10)], trained=TOKENS - 1)
    assert not audited(path)[0].sound
    assert main(["audit", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["sound"] is False
