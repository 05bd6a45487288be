"""What a run is at is told from its files: no more than they say, and as soon as they say it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.viewer.serving import browser, opened, served, violations
from tests.viewer.synthetic import RECIPE, episode

from patchgrad.store import Run
from patchgrad.store.journal import Ended, Entry
from patchgrad.values import Ending
from patchgrad.viewer.site.now import Now
from patchgrad.viewer.site.recent import Recent

PLANNED = f"{RECIPE}\n[stages.sampling]\ntasks = 2\nattempts = 4\n"


def begins(run: Run, name: str, ends: bool) -> None:
    """An attempt's turns, and its ending, in the journal alone."""
    rollout = episode(name, True)
    for turn in rollout.trajectory.turns:
        run.journal.records.append(Entry(name, turn))
    if ends:
        run.journal.records.append(Ended(name, Ending(turn.address, "submitted", "", rollout.verdict)))


def test_attempts_are_counted_since_the_last_commit(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", PLANNED) as run:
        now = Now(Recent(run))
        assert now.told()["said"] == "No attempt has begun."
        begins(run, "rft/0/0/0", ends=True)
        assert now.told()["said"] == "rft/0: 1 attempt ended."
        run.save_state({"step": "rft-0"})
        assert now.told()["said"] == "No attempt has begun since rft-0 was committed."
        for number, ends in enumerate((True, True, False)):
            begins(run, f"stage1/0/1/{number}", ends)
        begins(run, "stage1/0/1/0+2.0", ends=True)
        said = "stage1/0: 2 of 8 attempts ended, 1 fork ended, 1 more begun since rft-0 was committed."
        assert now.told()["said"] == said
        assert Now(Recent(run)).told()["said"] == said


def test_attempts_in_a_table_have_ended_and_a_run_at_its_end_waits_for_nothing(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", PLANNED) as run:
        now = Now(Recent(run))
        run.save_state({"step": "stage1-7"})
        run.rollouts.write("evaluate-1", 0, [episode(f"evaluate/base/{place}/0", True) for place in range(3)])
        assert now.told()["said"] == "evaluate/base: 3 attempts ended since stage1-7 was committed."
        run.save_state({"step": "evaluate-stage1"})
        assert now.told() == {"said": "Its last phase, evaluate-stage1, is committed.", "newest": None, "age": None}


def test_the_age_is_that_of_the_newest_file(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        begins(run, "rft/0/0/0", ends=False)
        for path in (run.folder / "state.json", run.folder / "rollouts", *run.journal.records.files()):
            os.utime(path, (time.time() - 90, time.time() - 90))
        assert 89 < Now(Recent(run)).told()["age"] < 100


def test_files_that_cannot_be_read_are_said_to_be_so(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", RECIPE)
    run.close()
    (run.folder / "state.json").write_text("{")
    assert Now(Recent(run)).told()["said"] == "Its files cannot be read just now."


def test_a_page_tells_what_goes_on_and_how_old_that_is(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", PLANNED) as run, served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/")
        page.wait_for_selector("#now:has-text('No attempt has begun.')")
        begins(run, "stage1/0/0/0", ends=True)
        begins(run, "stage1/0/0/1", ends=False)
        page.wait_for_selector("#now:has-text('stage1/0: 1 of 8 attempts ended, 1 more begun. Its newest file is')")
        before = page.inner_text("#now")
        page.wait_for_timeout(2500)
        assert page.inner_text("#now") != before  # the seconds go on
        assert violations(page) == []


@pytest.mark.parametrize("way", ["by a server of files", "by a double click"])
def test_a_folder_tells_what_went_on_when_it_was_written(way: str, tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", PLANNED) as run:
        attempts = [replace(episode("stage1/0/0/0", True))]
        run.rollouts.write("stage1", 0, attempts)
    with opened([run.folder], way, tmp_path / "page") as address, browser() as page:
        page.goto(address)
        page.wait_for_selector("#now:has-text('When this page was written, its newest file was')")
        assert "stage1/0: 1 of 8 attempts ended." in page.inner_text("#now")
