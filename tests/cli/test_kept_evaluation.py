"""A folder that `evaluate --out` wrote: a page, its attempts, how it goes on; other verbs say what it is, and advice works."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.viewer.synthetic import RECIPE, episode, policy

from patchgrad import recipes
from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.recipes import Evaluation
from patchgrad.recipes.evaluation import TaskChoice
from patchgrad.store import Run
from patchgrad.viewer import comparison

Spoken = pytest.CaptureFixture[str]
Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: Spoken) -> Refused:
    """The one sentence with which a call is refused."""

    def call(*words: str) -> str:
        assert main(list(words)) == 2
        text = capsys.readouterr().err
        assert "Traceback" not in text
        return text.strip().splitlines()[-1].removeprefix("patchgrad: ")

    return call


def kept(folder: Path, evaluation: Evaluation) -> Path:
    with Run.create(folder, dumps(evaluation), "--out") as run:
        run.rollouts.write("evaluate", 0, [episode("evaluate/m/0/0", True), episode("evaluate/m/0/1", False)])
        run.results.write_reports([policy("m", 0.126, 0.33, 0.55, 5.4, 1.6)])
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a model behind an address."""
    return kept(tmp_path / "kept", Evaluation("http://127.0.0.1:1/v1", "m", tasks=TaskChoice("sets/mine")))


def test_its_page_is_about_an_evaluation(folder: Path, capsys: Spoken) -> None:
    shutil.rmtree(folder / "checkpoints")  # a copy, as by git, has no empty folders
    assert main(["view", str(folder)]) == 0
    text = (folder / "report.html").read_text()
    assert "12.6 % of 200 tasks solved" in text
    assert "The evaluation, as it can be run again" in text
    assert "Two attempts to read" in text


def test_one_that_is_on_its_way_and_one_on_a_gpu_have_pages(tmp_path: Path) -> None:
    with Run.create(tmp_path / "kept", dumps(Evaluation("models/mine", gpus=1)), "--out") as run:
        run.results.write_metrics({"phase": "evaluate", "iteration": 0, "seconds": {"sampling": 1.0, "wall": 2.0}})
    assert main(["view", str(tmp_path / "kept")]) == 0
    assert "An evaluation that is still on its way" in (tmp_path / "kept" / "report.html").read_text()


def test_several_are_compared(tmp_path: Path) -> None:
    names = [str(kept(tmp_path / name, Evaluation(f"models/{name}"))) for name in ("one", "two")]
    assert "from one" in comparison(names, tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "FOLDER"),
        ("fork", "FOLDER", "evaluate/m/0/0", "--turn", "1"),
        ("evaluate", "FOLDER"),
        ("train", "--run", "FOLDER", "--resume"),
    ],
)
def test_a_verb_about_training_says_what_it_is(folder: Path, refused: Refused, words: tuple[str, ...]) -> None:
    said = refused(*(str(folder) if word == "FOLDER" else word for word in words))
    assert said.startswith(f"{folder} holds an evaluation, in which nothing is trained: name a run that `patchgrad train` made")


def test_its_attempts_have_names(folder: Path, refused: Refused) -> None:
    assert "there are evaluate/m/0/1, evaluate/m/0/0" in refused("replay", str(folder), "x")


def test_the_advice_about_a_folder_that_is_taken_is_of_what_was_asked(folder: Path, refused: Refused, tmp_path: Path) -> None:
    again = refused("evaluate", "--policy", "http://127.0.0.1:1/v1", "--model", "m", "--tasks", "sets/mine", "--out", str(folder))
    assert again == (
        f"{folder} holds an evaluation already; go on with it by the same evaluate with --resume, or name another folder with --out."
    )
    assert refused("train", "smoke", "--run", str(folder)).endswith("or name another folder with --run.")
    Run.create(tmp_path / "run", dumps(recipes.RECIPES["smoke"]())).close()
    asked = refused("evaluate", "--policy", "x", "--tasks", "sets/mine", "--out", str(tmp_path / "run"))
    assert asked == f"{tmp_path / 'run'} holds a run already; name another folder with --out."
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").touch()
    assert refused("evaluate", "--policy", "x", "--tasks", "s", "--out", str(tmp_path / "thesis")).endswith(
        "name another folder with --out."
    )


def test_it_goes_on_by_its_folder_alone(folder: Path, refused: Refused, tmp_path: Path) -> None:
    """Which is read: what is refused here is its set, which is not there. A folder that does not say all of it is told apart."""
    assert "sets/mine/tasks.jsonl does not exist" in refused("evaluate", "--out", str(folder), "--resume")
    assert "One thing is evaluated at a time" in refused("evaluate", "--out", str(folder))
    assert "--tasks has no meaning with --resume" in refused("evaluate", "--out", str(folder), "--resume", "--tasks", "sets/mine")
    with Run.create(tmp_path / "run", RECIPE) as run:
        checkpoint = run.checkpoints.save("rft-0", lambda place: (place / "model").touch())
    held_out = kept(tmp_path / "held-out", Evaluation(str(checkpoint), tasks=TaskChoice("sets/mine")))
    assert refused("evaluate", "--out", str(held_out), "--resume") == (
        f"{held_out} measures a checkpoint of {tmp_path / 'run'}: go on with it by the line that began it, with --resume added."
    )
    assert "holds a run and no evaluation" in refused("evaluate", "--out", str(tmp_path / "run"), "--resume")


@pytest.mark.parametrize("bad", ["metrics.jsonl", "tasks.jsonl", "rollouts/rft-00000.parquet"])
def test_a_damaged_part_of_a_run_is_told_and_the_page_is_made_of_the_others(tmp_path: Path, capsys: Spoken, bad: str) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        for iteration in range(2):
            run.results.write_metrics({"phase": "rft", "iteration": iteration, "entropy": 0.5})
            run.rollouts.write("rft", iteration, [episode(f"x/{iteration}", True)])
    path = tmp_path / "run" / bad
    path.write_bytes(b"torn\n" + path.read_bytes())
    assert main(["view", str(tmp_path / "run")]) == 1
    (sentence,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("patchgrad: ")]
    assert path.name in sentence
    text = (tmp_path / "run" / "report.html").read_text()
    assert "One attempt to read" in text
    assert "Entropy" in text


def test_of_several_runs_one_that_cannot_be_read_is_left_out(tmp_path: Path, capsys: Spoken) -> None:
    names = [str(kept(tmp_path / name, Evaluation(f"models/{name}"))) for name in ("one", "two", "three")]
    (tmp_path / "two" / "report.json").write_text("{")
    assert main(["view", *names, "--out", str(tmp_path / "page.html")]) == 1
    assert "two/report.json cannot be read" in capsys.readouterr().err
    assert "from one" in (tmp_path / "page.html").read_text()
