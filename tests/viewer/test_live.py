"""An attempt that is under way is listed and can be opened, and grows in the open page; once a table has it, that shows all of it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.viewer.serving import asked, browser, served, violations
from tests.viewer.synthetic import RECIPE, episode

from patchgrad.store import Run, files
from patchgrad.store.journal import Ended, Entry
from patchgrad.values import Ending, Rollout, Segment, Turn, chain, root_address
from patchgrad.viewer.site.live import Live
from patchgrad.viewer.site.recent import Recent

pytest.importorskip("starlette")


def rooted(name: str, solved: bool = True, turns: int = 6, after: str = "") -> Rollout:
    """An attempt whose chain begins as the loop begins one, or after the turn of this address."""
    plain = episode(name, solved, turns=turns)
    parent, made = after or root_address(plain.task, name), list[Turn]()
    for turn in plain.trajectory.turns:
        made.append(replace(turn, parent=parent))
        parent = made[-1].address
    return replace(plain, trajectory=replace(plain.trajectory, segments=(Segment(tuple(made)),)))


def takes(run: Run, rollout: Rollout, first: int, last: int) -> None:
    """The attempt makes these turns."""
    for turn in rollout.trajectory.turns[first:last]:
        run.journal.records.append(Entry(rollout.trajectory.id, turn))


def ends(run: Run, rollout: Rollout) -> None:
    """It ends, and is judged."""
    trajectory = rollout.trajectory
    ending = Ending(trajectory.turns[-1].address, trajectory.stop, trajectory.submission, rollout.verdict, 3.2)
    run.journal.records.append(Ended(trajectory.id, ending))


def looked(recent: Recent, live: Live) -> dict[str, dict[str, Any]]:
    recent.look()
    return live.rows()


def test_an_attempt_is_told_from_its_first_turn_until_a_table_has_it(tmp_path: Path) -> None:
    one = rooted("stage1/2/0/1")
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.tasks.add([one.task])
        live = Live(seen := Recent(Run.open(run.folder)))
        assert looked(seen, live) == {}
        takes(run, one, 0, 2)
        row = looked(seen, live)["stage1/2/0/1"]
        assert (row["task"], row["phase"], row["iteration"]) == (one.task.id, "stage1", 2)
        assert (row["turns"], row["stop"], row["solved"], row["seconds"]) == (2, "running", None, None)
        takes(run, one, 2, 6)
        ends(run, one)
        row = looked(seen, live)["stage1/2/0/1"]
        assert (row["turns"], row["stop"], row["solved"], row["seconds"]) == (6, "submitted", True, 3.2)
        run.rollouts.write("stage1", 2, [one])
        assert looked(seen, live) == {}


def test_what_a_look_has_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, lines = list[int](), files.lines

    def counted(path: Path, offset: int = 0) -> Any:
        for place, line in lines(path, offset):
            read.append(len(line))
            yield place, line

    with Run.create(tmp_path / "run", RECIPE) as run:
        one, other = rooted("rft/0/0/0"), rooted("stage1/0/0/0")
        takes(run, one, 0, 6)
        run.save_state({"step": "rft-0"})
        monkeypatch.setattr(files, "lines", counted)
        seen = Recent(Run.open(run.folder))
        seen.look()
        assert read == []  # what is committed is not read
        for turn in range(6):
            takes(run, other, turn, turn + 1)
            seen.look()
            seen.look()
        assert len(read) == 6


def test_attempts_that_were_begun_ahead_are_still_under_way_after_a_commit(tmp_path: Path) -> None:
    early, late = rooted("stage1/0/0/0"), rooted("stage1/1/0/0")
    with Run.create(tmp_path / "run", RECIPE) as run:
        seen = Recent(Run.open(run.folder))
        takes(run, early, 0, 6)
        takes(run, late, 0, 3)
        seen.look()
        ends(run, early)
        run.rollouts.write("stage1", 0, [early])
        run.save_state({"step": "stage1-0", "ahead": {"batches": [{"label": "stage1/1", "tasks": [], "since": 0}], "published": []}})
        for one in (seen, Recent(Run.open(run.folder))):
            one.look()
            assert {name: len(going.turns) for name, going in one.going.items()} == {"stage1/1/0/0": 3}


def test_a_journal_that_was_cut_is_read_as_it_is_now(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        one = rooted("rft/0/0/0")
        takes(run, one, 0, 3)
        seen = Recent(Run.open(run.folder))
        seen.look()
        path = run.journal.records.files()[0]
        path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:1]))
        seen.look()
        assert len(seen.going["rft/0/0/0"].turns) == 1


def test_what_stands_behind_a_commit_is_noted_once(tmp_path: Path) -> None:
    ahead, later = rooted("stage1/1/0/0"), rooted("stage1/2/0/0")
    with Run.create(tmp_path / "run", RECIPE) as run:
        seen = Recent(Run.open(run.folder))
        takes(run, ahead, 0, 2)
        seen.look()
        run.save_state({"step": "stage1-0", "ahead": {"batches": [{"label": "stage1/1", "tasks": [], "since": 0}], "published": []}})
        committed = (run.folder / "state.json").read_bytes()
        (run.folder / "state.json").unlink()  # which a reader sees later than the journal's next lines
        takes(run, ahead, 2, 5)
        takes(run, later, 0, 1)
        with contextlib.suppress(OSError):
            seen.look()
        seen._look_at_journal()
        (run.folder / "state.json").write_bytes(committed)
        for one in (seen, Recent(Run.open(run.folder))):
            one.look()
            assert {name: len(going.turns) for name, going in one.going.items()} == {"stage1/1/0/0": 5, "stage1/2/0/0": 1}


def test_a_journal_that_was_cut_is_read_from_the_commit_on_with_attempts_that_were_begun_ahead(tmp_path: Path) -> None:
    ahead, torn = rooted("stage1/1/0/0"), rooted("stage1/2/0/0")
    with Run.create(tmp_path / "run", RECIPE) as run:
        seen = Recent(Run.open(run.folder))
        takes(run, ahead, 0, 2)
        run.save_state({"step": "stage1-0", "ahead": {"batches": [{"label": "stage1/1", "tasks": [], "since": 0}], "published": []}})
        takes(run, torn, 0, 2)
        seen.look()
        path = run.journal.records.files()[-1]
        path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:-1]))
        seen.look()
        assert {name: len(going.turns) for name, going in seen.going.items()} == {"stage1/1/0/0": 2, "stage1/2/0/0": 1}


@pytest.mark.parametrize("content", [None, "{"])
def test_what_tables_have_is_shown_although_what_goes_on_cannot_be_read(content: str | None, tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place:
        run.rollouts.write("stage1", 0, [one := rooted("stage1/0/0/0")])
        run.save_state({"step": "stage1-0"})
        state = run.folder / "state.json"
        state.unlink() if content is None else state.write_text(content)
        assert asked(place, "/data/0/attempt?id=stage1/0/0/0")[1]["id"] == "stage1/0/0/0"
        assert asked(place, "/data/0/observation?id=stage1/0/0/0&turn=2")[1] == one.trajectory.turns[1].observation.content


def test_a_fork_shows_the_turns_that_it_replays(tmp_path: Path) -> None:
    whole = rooted("stage1/0/0/0")
    left = rooted("stage1/0/0/0+2.0", turns=3, after=whole.trajectory.turns[1].address)
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.tasks.add([whole.task])
        takes(run, whole, 0, 6)
        takes(run, left, 0, 1)
        live = Live(Recent(Run.open(run.folder)))
        told = live.shown("stage1/0/0/0+2.0")
        assert told is not None
        assert [turn["replayed"] for turn in told["turns"]] == [True, True, False]
        assert (told["task"], told["origin"]) == (whole.task.id, "stage1/0/0/0")
        assert live.rows()["stage1/0/0/0+2.0"]["turns"] == 3


def test_only_the_turns_after_a_known_one_are_sent_and_all_where_that_was_taken_back(tmp_path: Path) -> None:
    one = rooted("rft/0/0/0")
    turns = one.trajectory.turns
    with Run.create(tmp_path / "run", RECIPE) as run:
        takes(run, one, 0, 3)
        live = Live(Recent(Run.open(run.folder)))
        told = live.shown("rft/0/0/0", turns[1].address)
        assert told is not None
        assert (told["from"], [turn["number"] for turn in told["turns"]]) == (2, [3])
        again = replace(turns[2], action=replace(turns[2].action, text="Another."))
        run.journal.records.append(Entry("rft/0/0/0", again))  # its sandbox broke, and the turn was made anew
        told = live.shown("rft/0/0/0", turns[2].address)
        assert told is not None
        assert (told["from"], [turn["text"] for turn in told["turns"]][2]) == (0, "Another.")
        assert chain([*turns[:2], again], turns[0].parent)[0] == (*turns[:2], again)


def test_the_list_shows_an_attempt_that_is_under_way_and_its_turns_appear_in_the_open_page(tmp_path: Path) -> None:
    before, one = rooted("stage1/0/0/0"), rooted("stage1/1/0/0")
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place, browser() as page:
        run.rollouts.write("stage1", 0, [before])
        run.save_state({"step": "stage1-0"})
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        page.wait_for_selector(".body .row")
        takes(run, one, 0, 2)
        page.wait_for_selector(".body .row:has-text('… not ended')")
        assert violations(page) == []
        page.click(".body .row a:has-text('stage1/1/0/0')")
        page.wait_for_selector("#turn-2 .token")
        page.mouse.move(0, 0)  # off the tokens, whose tip is no part of the page
        assert "It has not ended" in page.inner_text("main")
        page.evaluate("document.getElementById('turn-2').scrollIntoView()")
        page.evaluate("window.held = document.getElementById('turn-2')")
        top = page.evaluate("() => held.getBoundingClientRect().top")
        takes(run, one, 2, 5)
        page.wait_for_selector("#turn-5")
        takes(run, one, 5, 6)
        ends(run, one)
        page.wait_for_selector("text=It has ended; its reward is told")
        assert page.locator(".turn").count() == 6
        assert "All 2 tests hold." in page.inner_text("main")
        assert violations(page) == []
        run.rollouts.write("stage1", 1, [one])
        page.wait_for_function("() => !document.querySelector('main').innerText.includes('its reward is told')")
        assert page.evaluate(f"() => held.isConnected && Math.abs(held.getBoundingClientRect().top - {top}) < 2")
        assert "stage1%2F1%2F0%2F0" in page.url
        page.keyboard.press("e")
        assert page.evaluate("() => document.activeElement.id") == "turn-6"
        page.keyboard.press("Escape")
        page.wait_for_function("() => document.querySelectorAll('.body .row').length == 2")
        assert "running" not in page.inner_text(".body")


def test_the_row_that_is_read_stays_where_it_is_when_others_come_before_it(tmp_path: Path) -> None:
    tabled = [episode(f"stage1/0/{number}/0", True, turns=1) for number in range(80)]
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place, browser() as page:
        run.rollouts.write("stage1", 0, tabled)
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0?sort=-turns")
        page.wait_for_selector(".body .row")
        page.evaluate("document.querySelector('.scroll').scrollTop = 28 * 30 + 9")
        page.wait_for_timeout(100)
        row = page.locator(".body .row:has-text('stage1/0/40/0')")
        top = row.bounding_box()["y"]
        takes(run, rooted("stage1/1/0/0"), 0, 4)
        page.wait_for_selector(".filters:has-text('81 of 81')")
        assert row.bounding_box()["y"] == top


def test_a_list_that_is_filtered_and_sorted_follows_what_attempts_do(tmp_path: Path) -> None:
    one, other = rooted("stage1/1/0/0"), rooted("stage1/1/1/0")
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place, browser() as page:
        takes(run, one, 0, 2)
        takes(run, other, 0, 1)
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0?solved=null&sort=-turns")
        page.wait_for_selector(".filters:has-text('2 of 2')")
        takes(run, other, 1, 5)
        page.wait_for_selector(".body .row[aria-rowindex='2']:has-text('stage1/1/1/0')")
        takes(run, one, 2, 6)
        ends(run, one)
        page.wait_for_selector(".filters:has-text('1 of 2')")
        assert page.locator("select[aria-label=stop] option").all_inner_texts() == ["any end", "not ended", "submitted"]
        takes(run, left := rooted("evaluate/stage1/0/0/0"), 0, 6)
        ends(run, left)
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        page.wait_for_selector(".body .row:has-text('evaluate/stage1/0/0/0') .reward:has-text('not kept')")
        page.goto(f"http://127.0.0.1:{place.port}/#/pair?one=0:stage1/1/0/0&two=0:stage1/1/1/0")
        page.wait_for_selector("text=… not ended")
        assert "✓ solved · submitted" in page.inner_text("main")


def test_an_attempt_that_no_table_will_have_is_said_to_be_not_kept(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place:
        for name, kept in {
            "evaluate/stage1/0/0/0": False,
            "evaluate/stage1-0/0/0": False,
            "evaluate/+ RFT/0/0": True,
            "rft/0/0/0": True,
        }.items():
            takes(run, one := rooted(name), 0, 6)
            ends(run, one)
            assert asked(place, f"/data/0/attempt?id={quote(name)}")[1]["kept"] == kept
        run.save_state({"step": "stage1-0"})
        status, told, _ = asked(place, "/data/0/attempt?id=evaluate/stage1/0/0/0")
        assert (status, told["error"].partition(":")[0]) == (404, "evaluate/stage1/0/0/0 is not kept")


def test_an_attempt_that_nobody_has_is_named_although_others_are_under_way(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place:
        takes(run, rooted("stage1/1/0/0"), 0, 4)
        assert asked(place, "/data/0/attempt?id=stage1/1/0/0")[1]["live"] == "running"
        status, told, _ = asked(place, "/data/0/attempt?id=stage1/1/0/7")
        assert (status, "has no attempt stage1/1/0/7" in told["error"]) == (404, True)
        observed = one_turn(run, "stage1/1/0/0", 3).observation.content
        assert asked(place, "/data/0/observation?id=stage1/1/0/0&turn=3")[1] == observed


def one_turn(run: Run, attempt: str, number: int) -> Turn:
    """As the journal has it."""
    return [entry.turn for entry in run.journal.records.entries() if entry.trajectory == attempt][number - 1]
