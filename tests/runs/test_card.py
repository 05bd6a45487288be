"""The card of a policy: the hub reads it, and it says what the run's folder says and nothing else."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.models.small import written
from tests.runs.test_pipeline import TINY

from patchgrad.cli import main
from patchgrad.cli.options import split
from patchgrad.config import dumps, flat, override, parsed
from patchgrad.evaluation import lines
from patchgrad.recipes import Evaluation
from patchgrad.recipes.recipe import PolicyChoice, SandboxChoice
from patchgrad.runs.api import train
from patchgrad.runs.exports.card import Base, Carded, base_of, card, run_of
from patchgrad.runs.inspection.audit import audit
from patchgrad.runs.printing import nearest
from patchgrad.runs.reading import read_recipe
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
KNOWN = Base("some/model", "apache-2.0")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small run that is over."""
    folder = tmp_path_factory.mktemp("carded") / "run"
    with Run.create(folder, dumps(TINY)) as made:
        train(TINY, made, Silent())
    return Run.open(folder)


def last(run: Run, base: Base = KNOWN) -> Carded:
    return Carded(run, run.checkpoints.find().name, base)


def block(text: str, language: str) -> str:
    return text.partition(f"```{language}\n")[2].partition("\n```")[0]


def test_the_hub_reads_the_card(run: Run) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    read = hub.ModelCard(card(last(run), "mine"))
    assert read.data.license == "apache-2.0"
    assert read.data.base_model == "some/model"
    assert read.data.library_name == "transformers"
    assert {"patchgrad", "reinforcement-learning"} <= set(read.data.tags)
    assert read.text.lstrip().startswith("# mine\n")
    bare = hub.ModelCard(card(last(run, Base()), "mine")).data.to_dict()
    assert not {"license", "base_model"} & set(bare), "what is not known is left out"


def test_figures_are_those_of_the_reports_with_their_errors_and_intervals(run: Run) -> None:
    text = card(last(run), "mine")
    for row in lines(run.results.reports()):
        assert "| " + " | ".join(row) + " |" in text


def test_the_recipe_reads_back_as_that_of_the_run(run: Run) -> None:
    preset = nearest(TINY)
    assert read_recipe(f"{preset.toml}{block(card(last(run), 'mine'), 'toml')}") == TINY


def test_the_data_are_counted_in_the_tables(run: Run) -> None:
    rows = run.rollouts.rows(columns=["phase", "task", "solved"])
    text = card(last(run), "mine")
    for phase in {row["phase"] for row in rows}:
        own = [row for row in rows if row["phase"] == phase]
        solved = sum(row["solved"] for row in own)
        assert f"| {phase} | {len({row['task'] for row in own})} | {len(own)} | {solved} |" in text
    assert "2 held-out ones in evaluations, and none is in both." in text


def test_the_audit_is_that_of_the_folder_and_one_that_fails_is_told(run: Run, tmp_path: Path) -> None:
    found = audit(run)
    chains, trained = sum(one.attempts for one in found), sum(one.trained for one in found)
    text = card(last(run), "mine")
    assert f"- {chains:,} of {chains:,} chains verify." in text
    assert f"{trained:,} of them trained." in text
    assert "## Audit" not in card(replace(last(run), audited=False), "mine")
    shutil.copytree(run.folder, tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    told = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**one, "trained": one.get("trained", 0) + 1}) + "\n" for one in told))
    assert "It does not hold for rft, iteration 1" in card(last(Run.open(tmp_path / "run")), "mine")


def test_the_command_of_the_card_measures_under_the_limits_of_the_run(run: Run) -> None:
    words, changes = split(shlex.split(block(card(last(run), "mine"), "bash"))[1:])
    assert words == ["evaluate", "--policy", "./mine", "--tasks", "generated"]
    asked = override(Evaluation(policy="mine"), changes)
    assert asked.evaluation.limits.turns == TINY.evaluation.limits.turns
    assert asked.evaluation.limits.context == TINY.evaluation.limits.context
    assert (asked.agent.prompts, asked.agent.longest) == (TINY.agent.prompts, TINY.agent.longest)


def test_no_place_on_this_machine_is_told(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "run")
    own = replace(TINY, policy=PolicyChoice(model=str(tmp_path / "secret" / "model")), sandbox=SandboxChoice(concurrency=2))
    (tmp_path / "run" / "recipe.toml").write_text(dumps(own))
    text = card(last(Run.open(tmp_path / "run"), Base()), "mine")
    assert "It begins with the model `model`." in text
    assert flat(parsed(block(text, "toml")))["policy.model"] == "model"
    assert str(tmp_path) not in text


def test_the_licence_is_that_of_the_base_model_where_its_folder_says_one(tmp_path: Path) -> None:
    written(tmp_path / "model")
    assert base_of(str(tmp_path / "model")) == Base()
    (tmp_path / "model" / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    assert base_of(str(tmp_path / "model")) == Base("", "mit")
    (tmp_path / "model" / "README.md").write_text("---\nlicense: unknown\n---\nlicense: gpl\n")
    assert base_of(str(tmp_path / "model")) == Base()
    assert base_of("models/of-another-place") == Base(), "what was never downloaded is no id of the hub"


def test_a_policy_is_exported_with_its_card_and_another_model_without(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = next(path for path in run.checkpoints.all() if path != run.checkpoints.find())
    assert main(["models", "export", str(run.folder), "--out", str(tmp_path / "mine"), "--licence", "mit"]) == 0
    text = (tmp_path / "mine" / "README.md").read_text()
    assert text.startswith('---\nlicense: "mit"\nlibrary_name: "transformers"\n')
    assert f"It is the checkpoint `{run.checkpoints.find().name}` of the run." in text
    assert main(["models", "export", str(step), "--out", str(tmp_path / "before"), "--no-audit"]) == 0
    assert f"`{step.name}` of the run, whose last one is" in (tmp_path / "before" / "README.md").read_text()
    assert main(["models", "export", str(tmp_path / "mine"), "--out", str(tmp_path / "again")]) == 0
    assert not (tmp_path / "again" / "README.md").exists()
    assert run_of(tmp_path / "mine") is None
    capsys.readouterr()
