"""A run that is killed again and again ends where one ends that never was: the same tokens, verdicts, gradients and weights, to the bit."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.models.small import written
from tests.runs.test_pipeline import TINY, Interrupting, needs_bubblewrap
from tests.runs.test_pretrained import warmed

from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.learning.curricula import prefixes
from patchgrad.networks.products import exact
from patchgrad.recipes.evaluation_choice import Validation
from patchgrad.recipes.failures import Failures
from patchgrad.recipes.recipe import Recipe
from patchgrad.recipes.smol import smol
from patchgrad.recipes.stage import Health, Stage
from patchgrad.runs.api import train
from patchgrad.runs.inspection.audit import audit
from patchgrad.runs.phases import reinforce
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run, RunJournal
from patchgrad.values import Ending, Judgement, Reward, Task, Trajectory, Turn, Verdict

KILLS = 8


def elsewhere(stage: Stage) -> Stage:
    """The same stage, shorter, with attempts that go on after others' turns."""
    return replace(
        stage,
        iterations=min(stage.iterations, 2),
        start=replace(stage.start, at="prefixes"),
        sampling=replace(stage.sampling, forks=1, continuations=2),
        advantage=replace(stage.advantage, filter_on="reward", baseline="turns"),
    )


LEARNING = replace(
    TINY,
    stages=tuple(elsewhere(stage) for stage in TINY.stages),
    guards=replace(TINY.guards, patience=100),
    sandbox=replace(TINY.sandbox, cache=True),
    tasks=replace(TINY.tasks, train=8),
    warmup=replace(TINY.warmup, until=1.0),
    validation=Validation(tasks=2, attempts=1),
)
"""With all that lets attempts begin elsewhere, nothing asked twice, no guard to mind; as nothing is solved, every task counts as easy."""


def as_smol(model: Path) -> Recipe:
    """A model's adapters after a warm-up, in fine-tuning and a stage that have what `smol` sets otherwise than `laptop`."""
    undone, (stage, _) = Failures(undone="mask"), smol().stages
    return replace(
        warmed(model),
        tasks=replace(TINY.tasks, train=4, held_out=1),
        rft=replace(TINY.rft, failures=replace(TINY.rft.failures, undone="mask")),
        stages=(
            replace(
                stage,
                iterations=2,
                sampling=replace(stage.sampling, tasks=2, attempts=2),
                limits=TINY.stages[0].limits,
                advantage=replace(stage.advantage, filter_on="reward", failures=undone),
                loss=replace(stage.loss, minibatch=2),
                health=Health(),
            ),
        ),
        guards=replace(TINY.guards, patience=100),
    )


def worth(task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement] = ()) -> Reward:
    """So tiny a policy solves nothing: what it is paid is drawn from what it did, so that there is something to learn."""
    value = int(trajectory.turns[-1].address[:4], 16) / 0xFFFF if trajectory.turns else 0.0
    return Reward(value, {"chance": value})


def attempts(folder: Path) -> list[Any]:
    """Every attempt of a run, without what a clock said."""
    found = []
    for row in Run.open(folder).rollouts.rows():
        trajectory, verdict = json.loads(row["trajectory"]), json.loads(row["verdict"])
        trajectory.pop("seconds")
        verdict.pop("seconds")
        found.append((row["phase"], row["iteration"], trajectory, verdict, row["reward"]))
    return sorted(found, key=lambda item: (item[0], item[1], item[2]["id"]))


def weights(folder: Path) -> dict[str, bytes]:
    """What every kept checkpoint holds, and what was read of each token on the way."""
    kept = [*sorted((folder / "checkpoints").rglob("*.safetensors")), *Run.open(folder).trained.files()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def lose(folder: Path, chance: random.Random) -> None:
    """A machine that lost its power: of what was written since the last commit, any part may be gone, to the byte."""
    committed = json.loads((folder / "state.json").read_text())["committed"]
    for path in (*(folder / "journal").glob("*.jsonl"), *(folder / "states").glob("*.pack")):
        least, _ = committed.get(str(path.relative_to(folder)), [0, ""])
        size = path.stat().st_size
        os.truncate(path, chance.randint(least, size))
        if chance.random() < 0.5:  # what was lost may be a hole in the middle, too
            os.truncate(path, size)


def killed(recipe: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch, *, kills: int, apart: int) -> None:
    """A run of the recipe that is killed so often, each time after less than `apart` turns and endings, and goes on each time."""
    chance, done, left = random.Random(5), 0, 0
    turn, ending = RunJournal.turn, RunJournal.ending

    def killing(write: Any) -> Any:
        async def recorded(self: RunJournal, attempt: str, what: Turn | Ending) -> None:
            nonlocal left
            await write(self, attempt, what)
            left -= 1
            if not left:
                signal.raise_signal(signal.SIGINT)

        return recorded

    monkeypatch.setattr(RunJournal, "turn", killing(turn))
    monkeypatch.setattr(RunJournal, "ending", killing(ending))
    made = Run.create(folder, dumps(recipe))
    while True:
        left = chance.randrange(1, apart) if done < kills else 0
        try:
            with made:
                train(recipe, made, Silent())
            break
        except KeyboardInterrupt:
            done += 1
            if done % 2:
                lose(folder, chance)
            made = Run.resume(folder)
    assert done == kills


@needs_bubblewrap
@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
def test_a_run_that_is_killed_between_any_two_turns_ends_as_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored by whoever runs in the background of a shell
    monkeypatch.setattr(reinforce, "with_length_penalty", lambda *_: worth)
    monkeypatch.setattr(prefixes, "HARD", -1.0)
    monkeypatch.setattr(prefixes, "EASY", 0.0)
    with Run.create(tmp_path / "whole", dumps(LEARNING)) as run:
        train(LEARNING, run, Silent())
    killed(LEARNING, tmp_path / "killed", monkeypatch, kills=KILLS, apart=40)
    signal.signal(signal.SIGINT, before)
    assert attempts(tmp_path / "killed") == attempts(tmp_path / "whole")
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    assert len({bytes(tensors) for name, tensors in weights(tmp_path / "whole").items() if "model" in name}) > 1, "it learned something"
    turns = [entry.address for entry in Run.open(tmp_path / "killed").journal.records.records()]
    assert sorted(turns) == sorted(entry.address for entry in Run.open(tmp_path / "whole").journal.records.records()), (
        "nothing was done twice"
    )
    found = audit(Run.open(tmp_path / "killed"))
    assert found == audit(Run.open(tmp_path / "whole"))
    assert all(one.sound for one in found)
    assert sum(one.trained for one in found) > 0
    forked = [row["attempt"] for row in Run.open(tmp_path / "killed").rollouts.rows("stage2") if json.loads(row["trajectory"])["replayed"]]
    assert any("+" in name for name in forked), "turns were forked"
    assert not all("+" in name for name in forked), "attempts began after a prefix"
    assert all(one.sampled == one.trained + sum(one.left_out.values()) for one in found)
    one = next(row["attempt"] for row in Run.open(tmp_path / "killed").rollouts.rows("stage2"))
    assert main(["replay", str(tmp_path / "killed"), one]) == 0
    assert main(["audit", str(tmp_path / "killed")]) == 0
    assert main(["fork", str(tmp_path / "killed"), one, "--turn", "1", "--attempts", "2", "--out", str(tmp_path / "forked")]) == 0
    assert [fork.trajectory.replayed for fork in Run.open(tmp_path / "forked").rollouts.read("fork")] == [1, 1]
    assert main(["fork", str(tmp_path / "killed"), one, "--turn", "99"]) == 2


@needs_bubblewrap
@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
def test_a_model_with_adapters_that_is_trained_as_smol_is_ends_as_one_that_was_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(reinforce, "with_length_penalty", lambda *_: worth)
    written(tmp_path / "model", "qwen3", "qwen2", context=2048)
    recipe, whole, stopped = as_smol(tmp_path / "model"), tmp_path / "whole", tmp_path / "killed"
    with Run.create(whole, dumps(recipe)) as run:
        train(recipe, run, Silent())
    killed(recipe, stopped, monkeypatch, kills=3, apart=12)
    signal.signal(signal.SIGINT, before)
    assert attempts(stopped) == attempts(whole)
    assert weights(stopped) == weights(whole)
    assert (stopped / "policy" / "model.safetensors").read_bytes() == (whole / "policy" / "model.safetensors").read_bytes()
    adapters = {path.parts[-3]: path.read_bytes() for path in whole.glob("checkpoints/*/adapter/adapter_model.safetensors")}
    assert adapters["stage1-1"] != adapters["rft-0"], "it learned something"
    found = audit(Run.open(stopped))
    assert found == audit(Run.open(whole))
    assert all(one.sound for one in found)
    of_stage = [one for one in found if one.phase == "stage1"]
    assert sum(one.trained for one in of_stage) > 0
    assert [(one.epochs, one.recorded) for one in of_stage] == [(2, 2 * one.trained) for one in of_stage], "what is truncated is trained"
    one = next(row["attempt"] for row in Run.open(stopped).rollouts.rows("stage1"))
    assert main(["audit", str(stopped)]) == 0
    assert main(["replay", str(stopped), one]) == 0
    assert main(["fork", str(stopped), one, "--turn", "1", "--attempts", "2", "--out", str(tmp_path / "forked")]) == 0
    assert [fork.trajectory.replayed for fork in Run.open(tmp_path / "forked").rollouts.read("fork")] == [1, 1]


@needs_bubblewrap
@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
def test_a_run_that_stops_when_its_base_is_made_goes_on_under_the_same_version(tmp_path: Path) -> None:
    recipe = replace(LEARNING, stages=())
    with Run.create(tmp_path / "whole", dumps(recipe)) as run:
        train(recipe, run, Silent())

    with Run.create(tmp_path / "stopped", dumps(recipe)) as run, pytest.raises(KeyboardInterrupt):
        train(recipe, run, Interrupting("evaluate base"))
    with Run.resume(tmp_path / "stopped") as run:
        train(recipe, run, Silent())
    assert attempts(tmp_path / "stopped") == attempts(tmp_path / "whole")


DRIVER = """
import sys
from pathlib import Path
from patchgrad.config import dumps
from patchgrad.learning.curricula import prefixes
from patchgrad.runs.api import train
from patchgrad.recipes.stage import Stage
from patchgrad.runs.phases import reinforce
from patchgrad.store import Run
from patchgrad.runs.trackers.terminal import Silent
from tests.runs.test_resume import LEARNING, worth

reinforce.with_length_penalty = lambda *_: worth
prefixes.HARD, prefixes.EASY = -1.0, 0.0
folder = Path(sys.argv[1])
with Run.resume(folder) if (folder / "run.json").exists() else Run.create(folder, dumps(LEARNING)) as run:
    train(LEARNING, run, Silent())
"""


def below(parent: int) -> list[int]:
    """The processes that this one started, and theirs: a nest, its templates, its cells. Not what runs in a cell: that it was killed is an
    answer. A cell has process numbers of its own, below those of its template, and is the first there.
    """
    found = [parent]
    for number in found:
        with contextlib.suppress(OSError):
            threads = Path(f"/proc/{number}/task").glob("*/children")  # a nest is a child of the thread that started it
            found += [int(child) for children in threads for child in children.read_text().split() if not _in_a_cell(int(child))]
    return found[1:]


def _in_a_cell(number: int) -> bool:
    status = Path(f"/proc/{number}/status").read_text()
    names = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    return len(names) > 2 and names[-1] != "1"


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
@pytest.mark.parametrize("kind", ["trainer", "all", "nest", "inside"])
def test_any_process_may_be_killed_at_any_moment(kind: str, tmp_path: Path) -> None:
    """25 times each: the trainer, all of its processes, a nest, or what a nest has started."""
    chance, kills, root = random.Random(kind), 0, str(Path(__file__).parents[2])
    (tmp_path / "driver.py").write_text(DRIVER)

    def start(folder: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(tmp_path / "driver.py"), str(tmp_path / folder)]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": f"{root}:{root}/src"}, start_new_session=True)

    def same() -> None:
        assert attempts(tmp_path / "killed") == attempts(tmp_path / "whole")
        assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
        assert all(one.sound for one in audit(Run.open(tmp_path / "killed")))

    assert start("whole").wait() == 0
    running = start("killed")
    while kills < 25:
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(chance.uniform(0.2, 3.0))
        if running.returncode is not None:
            assert running.returncode in (0, -signal.SIGKILL), "what others die of is survived"
            if running.returncode == 0:
                same()
                shutil.rmtree(tmp_path / "killed")  # the next round
            running = start("killed")
            continue
        children = below(running.pid)  # where there is none of the kind yet, a little later
        inside = children[1:]  # the first that a trainer starts is its nest, and what a nest starts comes after it
        victims = {
            "trainer": [running.pid],
            "all": [*children, running.pid],
            "nest": children[:1],
            "inside": inside and [chance.choice(inside)],
        }[kind]
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        kills += bool(victims)
    assert running.wait() in (0, -signal.SIGKILL)
    assert start("killed").wait() == 0
    same()
