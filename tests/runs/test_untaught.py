"""A recipe says where its model begins untaught with what is for a network from scratch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.models.small import written
from tests.runs.test_pipeline import TINY, Interrupting, needs_bubblewrap

from patchgrad.cli import main
from patchgrad.config import dumps, override
from patchgrad.recipes import RECIPES, Recipe
from patchgrad.runs.api import train
from patchgrad.runs.reading import read_recipe
from patchgrad.runs.untaught import notes
from patchgrad.store import Run
from patchgrad.values import Event, Note

MODEL = {"policy.model": "models/mine"}
CONTEXTS = ("policy.context", *(f"{phase}.limits.context" for phase in ("rft", "stages.0", "stages.1", "evaluation")))
LONG = dict.fromkeys(CONTEXTS, "4096")
FULL, STEPS = {"agent.prompts": "full"}, {"optimiser.name": "adamw", "optimiser.rank": "16"}


def laptop(*changes: dict[str, str]) -> Recipe:
    return override(RECIPES["laptop"](), {name: value for change in changes for name, value in change.items()})


@pytest.mark.parametrize("name", RECIPES)
def test_a_preset_has_no_note(name: str) -> None:
    assert notes(RECIPES[name]()) == ()


def test_every_setting_that_is_for_a_network_from_scratch_is_named_and_what_to_set_instead() -> None:
    (note,) = notes(laptop(MODEL))
    assert note.startswith("Nothing warms up models/mine, and these settings are for a network from scratch: ")
    for setting in (
        "agent.prompts brief",
        "optimiser.name muon",
        "a learning rate of 0.0005 for all parameters",
        "contexts of 1,536 tokens",
    ):
        assert setting in note
    for words in (
        "patchgrad train smol --policy.model models/mine",
        "--agent.prompts full",
        "--optimiser.name adamw",
        "--optimiser.rank 16",
    ):
        assert words in note


def test_with_what_the_note_says_there_is_none() -> None:
    assert notes(laptop(MODEL, FULL, STEPS, LONG)) == ()
    assert notes(laptop(MODEL, {"warmup.pretrained": "true"})) == ()
    assert (
        notes(laptop(MODEL, FULL, LONG, STEPS, {"optimiser.rank": "0", "rft.lr": "5e-6", "stages.0.lr": "1e-6", "stages.1.lr": "1e-6"}))
        == ()
    )


@pytest.mark.parametrize(
    ("left", "named"),
    [
        ({"agent.prompts": "brief"}, "scratch: agent.prompts brief, which say nothing of the protocol."),
        ({"optimiser.name": "muon"}, "scratch: optimiser.name muon."),
        ({"optimiser.rank": "0"}, "scratch: a learning rate of 0.0005 for all parameters."),
        ({"rft.limits.context": "2048"}, "scratch: contexts of 2,048 tokens, of which full prompts take some 1,000."),
    ],
)
def test_one_of_them_alone_is_named_alone(left: dict[str, str], named: str) -> None:
    (note,) = notes(laptop(MODEL, FULL, STEPS, LONG, left))
    assert named in note


class Heard(Interrupting):
    """Hears what stays, and stops when the first phase begins."""

    def __init__(self) -> None:
        super().__init__("rejection")
        self.notes = list[str]()

    def event(self, event: Event) -> None:
        if isinstance(event, Note) and event.stays:
            self.notes.append(event.text)
        super().event(event)


@needs_bubblewrap
def test_a_run_says_it_when_it_begins_and_not_when_it_goes_on(tmp_path: Path) -> None:
    written(tmp_path / "model", context=2048)
    recipe = replace(TINY, policy=replace(TINY.policy, model=str(tmp_path / "model")), stages=())
    begun, again = Heard(), Heard()
    with pytest.raises(KeyboardInterrupt), Run.create(tmp_path / "run", dumps(recipe)) as run:
        train(recipe, run, begun)
    with pytest.raises(KeyboardInterrupt), Run.resume(tmp_path / "run") as run:
        train(recipe, run, again)
    assert notes(recipe)[0] in begun.notes
    assert notes(recipe)[0] not in again.notes


def test_a_recipe_that_is_printed_or_planned_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "model", context=2048)
    asked = ["laptop", "--policy.model", str(tmp_path / "model")]
    for much in ((), ("full",)):
        assert main(["train", *asked, "--print", *much]) == 0
        told = capsys.readouterr().out
        assert told.startswith("# Nothing warms up ")
        assert read_recipe(told) == override(RECIPES["laptop"](), {"policy.model": str(tmp_path / "model")})
        assert "the warm-up taught" not in told
    main(["plan", *asked])
    assert "\nNothing warms up " in capsys.readouterr().out
    main(["plan", *asked, "--json"])
    assert json.loads(capsys.readouterr().out)["notes"][0].startswith("Nothing warms up ")
