"""`action.yml`: its steps run here as a runner runs them, in a repository whose change makes another policy; `gh` is written down."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guests.shop import shop
from tests.models.small import written

from patchgrad.evaluation import comment, from_outcomes
from patchgrad.tasks.sets import Member, save

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
PROJECT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((PROJECT / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
EVALUATION = """policy = "model"
tasks = {folder = "set"}
agent = {prompts = "brief", action_tokens = 8}
sandbox = {concurrency = 2}
evaluation = {attempts = 2, limits = {turns = TURNS, context = 2048}}
"""
GH = """#!/bin/sh
echo "$@" >> "$HOME/gh.log"
case "$*" in *--paginate*) cat "$HOME/known" 2>/dev/null;; esac
exit 0
"""


def git(folder: Path, *words: str) -> str:
    own = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(["git", *words], cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Runner:
    """What runs the steps: a repository, a folder for files that nobody keeps, and the inputs."""

    def __init__(self, folder: Path) -> None:
        self.home, self.repository = folder, folder / "repository"
        self.inputs = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        self.output, self.summary = folder / "output", folder / "summary"
        for name, text in (
            ("gh", GH),
            ("patchgrad", f'#!/bin/sh\nexec {sys.executable} -c "import sys; from patchgrad.cli import main; sys.exit(main())" "$@"\n'),
        ):
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def told(self, text: str) -> str:
        """An expression of an action, filled in."""
        known = {f"inputs.{name}": value for name, value in self.inputs.items()}
        known |= {"github.repository": "some/where", "github.event.pull_request.number": "7"}
        return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: known[found[1]], text)

    def run(self, name: str) -> str:
        """A step, by the shell that an action takes; what it said."""
        env = {key: self.told(value) for key, value in STEPS[name].get("env", {}).items()}
        files = {"RUNNER_TEMP": str(self.home / "temp"), "GITHUB_OUTPUT": str(self.output), "GITHUB_STEP_SUMMARY": str(self.summary)}
        path = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        whole = {
            **os.environ,
            **env,
            **files,
            "PATH": path,
            "HOME": str(self.home),
            "PYTHONPATH": str(PROJECT / "src"),
            "OMP_NUM_THREADS": "1",
        }
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
        done = subprocess.run(shell, cwd=self.repository, env=whole, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A repository with a model, tasks and an evaluation, whose last commit lets attempts take another turn."""
    folder = tmp_path_factory.mktemp("action")
    made = Runner(folder)
    written(made.repository / "model", context=2048)
    tasks = [shop(made.repository / "set", name) for name in ("one", "other")]
    save(made.repository / "set", [Member(task, {"report": task.instruction}, "") for task in tasks])
    git(made.repository, "init", "-q", "-b", "main")
    made.inputs["evaluation"] = "evaluation.toml"
    for turns in (1, 2):
        (made.repository / "evaluation.toml").write_text(EVALUATION.replace("TURNS", str(turns)))
        git(made.repository, "add", "-A")
        git(made.repository, "commit", "-qm", f"{turns} turns")
    made.inputs["base"] = git(made.repository, "rev-parse", "HEAD~1")
    return made


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_the_steps_measure_both_commits_compare_them_and_write_a_comment(runner: Runner) -> None:
    for name in ("Measure this branch", "Measure the base", "Compare", "Comment"):
        runner.run(name)
    text = (runner.home / "temp" / "patchgrad" / "comment.md").read_text()
    assert text.startswith("<!-- patchgrad -->\n### Pass@1 0.0 % before, 0.0 % now\n")
    assert "No difference was shown" in text
    assert "on the same 2 tasks" in text
    assert "> Their limits differ (turns 1 and 2)" in text
    assert runner.summary.read_text() == text
    assert runner.output.read_text() == f"markdown={runner.home / 'temp' / 'patchgrad' / 'comment.md'}\n"
    assert git(runner.repository, "status", "--porcelain") == ""
    assert "pr comment 7 --repo some/where --body-file" in (runner.home / "gh.log").read_text()
    (runner.home / "known").write_text("123\n")
    runner.run("Comment")
    assert "--method PATCH repos/some/where/issues/comments/123" in (runner.home / "gh.log").read_text().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_without_a_base_or_with_other_tasks_the_comment_has_the_figures_and_the_reason(runner: Runner) -> None:
    place = runner.home / "temp" / "patchgrad"
    base, runner.inputs["base"] = runner.inputs["base"], ""
    runner.run("Measure this branch")
    runner.run("Measure the base")
    runner.run("Compare")
    text = (place / "comment.md").read_text()
    assert "There is nothing to compare with." in text
    assert "| policy | Pass@1 |" in text
    runner.inputs["base"] = base
    tasks = [shop(runner.repository / "set", name) for name in ("one", "third")]
    shutil.rmtree(runner.repository / "set")
    tasks = [shop(runner.repository / "set", name) for name in ("one", "third")]
    save(runner.repository / "set", [Member(task, {"report": task.instruction}, "") for task in tasks])
    runner.run("Measure this branch")
    runner.run("Measure the base")
    runner.run("Compare")
    assert "were measured on other tasks (2 are in one of them only" in (place / "comment.md").read_text()


def test_every_step_is_sound_shell_and_takes_what_others_say_as_variables() -> None:
    for name, step in STEPS.items():
        assert "${{" not in step["run"], f"{name} pastes text of others into its program"
        subprocess.run(["bash", "-n", "-c", step["run"]], check=True)
    used = set(re.findall(r"inputs\.(\w+)", (PROJECT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def test_a_comment_tells_what_moved_and_by_how_much() -> None:
    before = {f"t{number}": (False, False) for number in range(12)}
    now = dict.fromkeys(before, (True, True)) | {"t0": (False, False)}
    text = comment(from_outcomes("mine", before, 1, 0.0), from_outcomes("mine", now, 1, 0.0))
    assert "### Pass@1 0.0 % before, 91.7 % now" in text
    assert "mine, now solves 91.7 points more than mine, before" in text
    assert text.count("| 0 % | 100 % |") == 11
    assert "`t0`" not in text
    same = comment(from_outcomes("a", before, 1, 0.0), from_outcomes("b", before, 1, 0.0))
    assert "No difference was shown: b solves 0.0 points more than a" in same
    assert "No task is solved more or less often than before." in same
