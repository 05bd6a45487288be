"""The verbs as a person calls them: what they print, how they refuse, and with which exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchgrad import recipes
from patchgrad.cli import VERBS, main, parser
from patchgrad.cli.check import isolation
from patchgrad.cli.options import split
from patchgrad.config import dumps, loads, override
from patchgrad.contracts import Tracker
from patchgrad.errors import ConfigError, PatchgradError, Refuse
from patchgrad.runs import api
from patchgrad.runs.reading import read_recipe
from patchgrad.store import Run, finite, plain, value
from patchgrad.values import Checks, Estimate, PhaseBegan, Report, Repository, Task

TASK = Task(
    "clamp-1", "clamp(5, 1, 3) gives 1.\nIt should give 3.", Repository("archive", "x.tar", "ab" * 32), Checks(("t.py::a",), ("t.py::b",))
)
HALF = Estimate(0.5, 0.1)
REPORT = Report("base", 2, 4, HALF, HALF, HALF, 5.0, 60.0, 9.0, {"k": 4}, {"clamp-1": 2}, {"submitted": 3})

Spoken = pytest.CaptureFixture[str]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[recipes.Recipe]:
    """Training that only leaves a report: the command line is under test, not the loop."""
    trained: list[recipes.Recipe] = []

    def train(recipe: recipes.Recipe, run: Run, tracker: Tracker, *, cluster: str = "") -> None:
        tracker.event(PhaseBegan("base", 1))
        trained.append(recipe)
        run.tasks.add([TASK])
        run.results.write_reports([REPORT])

    monkeypatch.setattr(api, "train", train)
    return trained


def test_words_that_are_no_options_change_the_recipe() -> None:
    assert split(["train", "laptop", "--seed", "3", "--rft.lr=1e-3", "--run", "--odd", "--json", "--stages.0.lr", "-1"]) == (
        ["train", "laptop", "--run", "--odd", "--json"],
        {"seed": "3", "rft.lr": "1e-3", "stages.0.lr": "-1"},
    )
    assert split(["view", "--seed", "3"]) == (["view", "--seed", "3"], {})
    with pytest.raises(ConfigError, match="--seed needs a value"):
        split(["train", "laptop", "--seed"])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, capsys: Spoken) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    assert f"  patchgrad {verb}" in capsys.readouterr().out


def test_the_top_names_every_verb(capsys: Spoken) -> None:
    assert set(VERBS) <= set(parser().format_help().split())
    with pytest.raises(SystemExit):
        main([])
    assert "VERB" in capsys.readouterr().err


def test_a_printed_recipe_reads_back(capsys: Spoken, tmp_path: Path) -> None:
    assert main(["train", "laptop", "--print", "--seed", "3", "--stages.0.iterations", "2"]) == 0
    text = capsys.readouterr().out
    expected = override(recipes.RECIPES["laptop"](), {"seed": "3", "stages.0.iterations": "2"})
    assert read_recipe(text) == expected
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) == 4, "what differs, and from what"
    (tmp_path / "mine.toml").write_text(text)
    assert main(["train", str(tmp_path / "mine.toml"), "--print"]) == 0
    assert capsys.readouterr().out == text
    assert main(["train", "laptop", "--print", "full", "--seed", "3", "--stages.0.iterations", "2"]) == 0
    assert loads(recipes.Recipe, capsys.readouterr().out) == expected
    assert main(["train", "smoke", "--print", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"]["name"] == "smoke"


def test_the_paper_s_recipe_prints_at_every_scale_and_reads_back(capsys: Spoken, tmp_path: Path) -> None:
    for scale in ("laptop", "gpu", "cluster"):
        assert main(["train", "nebius2508", "--scale", scale, "--seed", "3", "--print"]) == 0
        text = capsys.readouterr().out
        assert read_recipe(text).seed == 3
        file = tmp_path / f"{scale}.toml"
        file.write_text(text)
        assert main(["train", str(file), "--print"]) == 0
        assert capsys.readouterr().out == text


def test_training_leaves_a_run_and_says_where(fake: list[recipes.Recipe], tmp_path: Path, capsys: Spoken) -> None:
    folder = tmp_path / "run"
    assert main(["train", "smoke", "--run", str(folder), "--seed", "5"]) == 0
    assert fake == [override(recipes.RECIPES["smoke"](), {"seed": "5"})]
    assert Run.open(folder).recipe == dumps(fake[0])
    assert str(folder / "report.html") in capsys.readouterr().out
    assert (folder / "report.html").is_file()


def test_training_for_a_machine_prints_one_object(fake: list[recipes.Recipe], tmp_path: Path, capsys: Spoken) -> None:
    assert main(["train", "smoke", "--run", str(tmp_path / "run"), "--json"]) == 0
    spoken = capsys.readouterr()
    assert json.loads(spoken.out)["reports"] == [finite(plain(REPORT))]
    assert spoken.err == ""


def test_the_default_folder_is_named_after_the_recipe(
    fake: list[recipes.Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "smoke"]) == 0
    assert (tmp_path / "runs" / "smoke" / "report.html").is_file()
    assert main(["train", "smoke"]) == 2
    assert "add --resume to go on with it" in capsys.readouterr().err


def test_a_resumed_run_keeps_its_recipe(fake: list[recipes.Recipe], tmp_path: Path, capsys: Spoken) -> None:
    folder = str(tmp_path / "run")
    assert main(["train", "smoke", "--run", folder, "--seed", "5"]) == 0
    assert main(["train", "--run", folder, "--resume"]) == 0
    assert main(["train", "smoke", "--run", folder, "--resume", "--seed", "5"]) == 0
    assert [recipe.seed for recipe in fake] == [5, 5, 5]
    assert main(["train", "--run", folder, "--resume", "--seed", "6"]) == 2
    assert "seed cannot change in a run that has begun" in capsys.readouterr().err
    Run.resume(folder).close()


def test_a_job_that_is_queued_again_begins_the_run_or_goes_on_with_it(tmp_path: Path, fake: list[recipes.Recipe]) -> None:
    command = ["train", "smoke", "--run", str(tmp_path / "run"), "--seed", "5", "--resume", "--cluster", "local:2"]
    assert main(command) == 0
    assert main(command) == 0
    assert [recipe.seed for recipe in fake] == [5, 5]
    assert main(["train", "--run", str(tmp_path / "other"), "--resume"]) == 2


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken) -> None:
    def stopped(*_: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "train", stopped)
    folder = tmp_path / "run"
    assert main(["train", "smoke", "--run", str(folder)]) == 130
    assert f"go on with: patchgrad train --run {folder} --resume" in capsys.readouterr().err
    monkeypatch.setattr(VERBS["view"], "run", stopped)
    assert main(["view", str(folder)]) == 130


STOPPED = """
import asyncio, signal, sys
from patchgrad.cli import VERBS, main
signal.signal(signal.SIGINT, {handler})

async def waits():
    try:
        print("there", flush=True)
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.1)
        print("closed", flush=True)

VERBS["view"].run = lambda arguments: asyncio.run(waits())
sys.exit(main(["view", "run"]))
"""


@pytest.mark.parametrize("handler", ["signal.default_int_handler", "signal.SIG_IGN"])
def test_the_signal_that_ends_a_job_lets_a_command_close_what_it_has_opened(handler: str) -> None:
    command = [sys.executable, "-c", STOPPED.format(handler=handler)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
        process.terminate()
        said, told = process.communicate(timeout=60)
    assert (said, told, process.returncode) == ("closed\n", "patchgrad: stopped.\n", 143)


GROUP = r"stages\.0\.|(rft|evaluation)\.(?=limits)"
WRONG = (
    *(("stages.0.reward.length_threshold", "-1"), ("stages.0.limits.seconds", "0.0"), ("stages.0.advantage.discount", "5.0")),
    *(
        ("agent.action_tokens", "0"),
        ("agent.window", "0"),
        ("agent.observation", "-5"),
        ("sandbox.concurrency", "0"),
        ("policy.threads", "0"),
    ),
    *(("evaluation.limits.turns", "0"), ("rft.limits.seconds", "0.0"), ("rft.limits.context", "0"), ("warmup.batch", "0")),
    *(("warmup.demonstrator.tests", "1.5"), ("policy.shape.heads", "0")),
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "laptp"], "There is no recipe laptp; did you mean laptop?"),
        (["train", "zzz"], "There is no recipe zzz; there are: cluster-tiny, laptop"),
        (["train"], "Name a recipe"),
        (["train", "nebius2508", "--scale", "moon", "--print"], "There is no scale moon; there are: laptop, gpu, cluster."),
        (["train", "smoke", "--scale", "gpu"], "smoke has one scale: leave --scale out, or name nebius2508."),
        (["train", "--resume", "--run", "nowhere", "--scale", "gpu"], "--scale cannot change in a run that has begun; leave it out"),
        (["train", "nebius2508", "--stages.0.loss.clip_low", "0.4", "--print"], "clip_low"),
        (["train", "nebius2508", "--stages.0.limits.turns", "5", "--print"], "turns 5 must be above length_threshold 8"),
        (["train", "nebius2508", "--stages.0.sampling.attempts", "1", "--print"], "a group needs at least 2 attempts"),
        (["train", "nebius2508", "--policy.context", "1024", "--print"], "beyond policy.context of 1024"),
        *(
            (
                ["train", "nebius2508", f"--{name}", value, "--print"],
                f"{re.sub(GROUP, '', name)} is {value}; it must be",
            )
            for name, value in WRONG
        ),
        (["train", "laptop", "--stages.0.limits.context", "40", "--print"], "holds nothing beside an action of agent.action_tokens 48"),
        (["train", "missing.toml"], "missing.toml cannot be read"),
        (["train", "laptop", "--stages.0.turn", "3", "--print"], "There is no key stages.0.turn; did you mean stages.0.limits.turns?"),
        (["train", "laptop", "--stages.0.turns", "3", "--print"], "There is no key stages.0.turns; it is stages.0.limits.turns now."),
        (["plan", "laptop", "--sandbox.live", "3"], "There is no key sandbox.live; it is sandbox.concurrency now."),
        (["train", "laptop", "--tasks.source", "workshop", "--print"], "tasks.source cannot be workshop; it is called synthetic now."),
        (["train", "laptop", "--sandbox.backend", "docker", "--print"], "docker is not registered; there are bwrap, oci, landlock"),
        (["train", "laptop", "--seed", "x", "--print"], "seed must be a whole number, but 'x' was given."),
        (["train", "--resume", "--run", "nowhere"], "nowhere is no run of patchgrad's"),
        (["evaluate", "nowhere"], "nowhere is no run of patchgrad's"),
        (["view", "nowhere"], "nowhere is no run of patchgrad's"),
        (["tasks", "list", "nowhere"], "nowhere is no run of patchgrad's"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    spoken = capsys.readouterr()
    assert spoken.err.startswith("patchgrad: ")
    assert sentence in spoken.err
    assert len(spoken.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_evaluation_reads_the_run_and_prints_a_row(
    fake: list[recipes.Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken
) -> None:
    asked: list[tuple[int, str, bool]] = []

    def measure(
        evaluation: recipes.Evaluation,
        tracker: Tracker,
        *,
        recipe: recipes.Recipe | None,
        out: Run | None,
        refuse: Refuse,
        cluster: str,
    ) -> Report:
        asked.append((evaluation.seed, evaluation.name, recipe is not None))
        return REPORT

    monkeypatch.setattr(api, "measure", measure)
    folder = str(tmp_path / "run")
    main(["train", "smoke", "--run", folder])
    with Run.resume(folder) as run:
        for step in ("base", "rft"):
            run.checkpoints.save(step, lambda _: None)
        run.save_state({"checkpoint": "rft"})
    capsys.readouterr()
    assert main(["evaluate", folder, "--seed", "9", "--checkpoint", "base"]) == 0
    assert "| base | 50.0 ± 10.0 | - | 50.0 (k=4) |" in capsys.readouterr().out
    assert main(["evaluate", folder, "--json"]) == 0
    assert value(Report, json.loads(capsys.readouterr().out)) == REPORT
    assert main(["evaluate", folder, "--tasks", "sets/mine"]) == 0
    assert asked == [(9, "base", True), (0, "rft", True), (0, "rft", False)]
    assert main(["evaluate", folder, "--checkpoint", "stage1"]) == 2
    assert "has no checkpoint stage1; there are: base, rft." in capsys.readouterr().err


def test_tasks_are_listed_shown_and_read_by_machines(fake: list[recipes.Recipe], tmp_path: Path, capsys: Spoken) -> None:
    folder = str(tmp_path / "run")
    main(["train", "smoke", "--run", folder])
    capsys.readouterr()
    assert main(["tasks", "list", folder]) == 0
    assert capsys.readouterr().out == "clamp-1  2 tests  clamp(5, 1, 3) gives 1. It should give 3.\n"
    assert main(["tasks", "show", f"{folder}/tasks.jsonl", "clamp-1"]) == 0
    assert "to mend     t.py::a" in capsys.readouterr().out
    assert main(["tasks", "list", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "clamp-1"
    assert main(["tasks", "show", folder, "clamp-2"]) == 2
    assert "did you mean clamp-1?" in capsys.readouterr().err


def test_the_page_is_written_and_named(fake: list[recipes.Recipe], tmp_path: Path, capsys: Spoken) -> None:
    folder = tmp_path / "run"
    main(["train", "smoke", "--run", str(folder)])
    (folder / "report.html").unlink()
    capsys.readouterr()
    assert main(["view", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": str((folder / "report.html").resolve())}
    assert (folder / "report.html").is_file()


def test_the_check_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: Spoken) -> None:
    async def forbidden(_: object) -> None:
        raise PatchgradError("this host forbids user namespaces")

    monkeypatch.setattr(isolation, "_try", forbidden)
    assert main(["check"]) == 1
    spoken = capsys.readouterr().out
    assert "yes  torch is installed" in spoken
    assert "NO   a sandbox opens" in spoken
    assert "cannot start here" in spoken


def test_a_closed_pipe_is_no_error(fake: list[recipes.Recipe], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    main(["train", "smoke", "--run", str(folder)])
    with Run.resume(folder) as run:
        run.tasks.add([Task(f"t{i}", "x" * 900, TASK.repository, TASK.checks) for i in range(2000)])
    code = f"{sys.executable} -c 'import sys; from patchgrad.cli import main; sys.exit(main())' tasks list {folder} --json"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {code} | head -1 | wc -l"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1", "")
