"""The page in a browser: what it shows is what lies in the run, whatever an agent wrote, and nobody else reads it."""

from __future__ import annotations

import difflib
import io
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.viewer.serving import asked, browser, plain, served, until, violations
from tests.viewer.synthetic import RECIPE, episode, make

from patchgrad.errors import ConfigError, StoreError
from patchgrad.links.listening import Place
from patchgrad.store import Run
from patchgrad.values import Observation, Repository, Snapshot, Turn
from patchgrad.viewer.site import changes as changing
from patchgrad.viewer.site import listed
from patchgrad.viewer.site.server import app
from patchgrad.viewer.site.written import write

pytest.importorskip("starlette")

HOSTILE = (
    "<script>window.ran = true</script><img src=x onerror='window.ran = true'>",
    "\x1b[2J\x1b]0;title\x07 \u202egnp.exe \u2066x\u2069",
    "'\"><svg onload=window.ran=true> javascript:window.ran=true",
    b"\xff\xfe not utf-8 \x80".decode(errors="surrogateescape"),
    "</pre></section><iframe srcdoc='<script>parent.ran=true</script>'>",
)
"""What an agent or a repository may put before a reader."""


def hostile(name: str) -> Any:
    """An attempt each of whose texts is hostile."""
    plain = episode(name, True)
    turns, parent = list[Turn](), ""
    for number, turn in enumerate(plain.trajectory.turns):
        bad = HOSTILE[number % len(HOSTILE)]
        action = replace(turn.action, text=bad)
        turns.append(
            replace(turn, action=action, observation=Observation(bad * 3, turn.observation.tool_state, 0), parent=parent or turn.parent)
        )
        parent = turns[-1].address
    segment = replace(plain.trajectory.segments[0], turns=tuple(turns))
    trajectory = replace(plain.trajectory, segments=(segment,), submission=HOSTILE[0])
    task = replace(plain.task, id=f"task {HOSTILE[0]}", instruction="\n".join(HOSTILE))
    return replace(plain, task=task, trajectory=replace(trajectory, task=task.id))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make(tmp_path_factory.mktemp("site") / "a run")


@pytest.fixture(scope="module")
def place(run: Run) -> Iterator[Place]:
    with served([run.folder]) as where:
        yield where


def test_the_list_has_the_columns_of_all_attempts(run: Run, place: Place) -> None:
    _, about, _ = asked(place, "/data/overview")
    chunks = [asked(place, f"/data/0/list/{number}")[1] for number in range(len(about["runs"][0]["chunks"]))]
    rows = run.rollouts.rows()
    assert sum(chunk["count"] for chunk in chunks) == len(rows)
    found = dict[str, list[Any]]()
    for name in listed.COLUMNS:
        columns = [chunk["columns"][name] for chunk in chunks]
        found[name] = [
            value
            for one in columns
            for value in (one if isinstance(one, list) else [one["values"][i] if i is not None else None for i in one["index"]])
        ]
        assert found[name] == [row[name] for row in rows]


@pytest.mark.parametrize("words", ["EDIT 14:14", "the file was changed", "nothing of the kind", "shop/cart.py"])
def test_a_search_finds_the_attempts_in_which_a_text_stands(words: str, run: Run, place: Place) -> None:
    said = {
        row["attempt"]: "\0".join(
            [row["instruction"], row["submission"], *(f"{turn['text']}\0{turn['observation']}" for turn in row["conversation"])]
        )
        for row in run.rollouts.rows()
    }
    _, found, _ = asked(place, f"/data/0/search?words={quote(words)}")
    assert set(found) == {name for name, text in said.items() if words.lower() in text.lower()}


def test_an_attempt_has_the_tokens_of_the_journal(run: Run, place: Place) -> None:
    for rollout in run.rollouts.read("rft"):
        _, told, _ = asked(place, f"/data/0/attempt?id={quote(rollout.trajectory.id)}")
        assert [turn["ids"] for turn in told["turns"]] == [turn.action.token_ids.tolist() for turn in rollout.trajectory.turns]
        assert [turn["observation"] for turn in told["turns"]] == [turn.observation.content for turn in rollout.trajectory.turns]
        assert [len(turn["pieces"]) for turn in told["turns"]] == [len(turn.action.token_ids) for turn in rollout.trajectory.turns]
        assert (told["solved"], told["submission"]) == (rollout.solved, rollout.trajectory.submission)


@pytest.mark.parametrize("path", ["/data/0/attempt?id=nobody", "/data/0/attempt?id=../../etc/passwd", "/data/7/list/0", "/data/0/attempt"])
def test_what_is_not_there_is_told_in_a_sentence(path: str, place: Place) -> None:
    status, told, _ = asked(place, path)
    assert status == 404
    assert told["error"].endswith(".")


@pytest.mark.parametrize("path", ["/../../pyproject.toml", "/..%2f..%2fserver.py", "/%2e%2e/server.py", "/app/../server.py"])
def test_nothing_beside_the_page_is_served(path: str, place: Place) -> None:
    assert asked(place, path)[0] == 404


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ({"Host": "evil.example"}, "GET", 403),
        ({"Host": "127.0.0.1"}, "GET", 403),
        ({"Host": "localhost.evil.example:80"}, "GET", 403),
        ({"Origin": "http://evil.example"}, "GET", 403),
        ({"Origin": "null"}, "GET", 403),
        ({}, "POST", 405),
        ({}, "DELETE", 405),
        ({}, "OPTIONS", 405),
    ],
)
def test_a_request_of_another_site_or_for_a_change_is_refused(headers: dict[str, str], method: str, status: int, place: Place) -> None:
    for path in ("/", "/data/overview", "/data/0/attempt?id=rft/0"):
        assert asked(place, path, method, **headers)[0] == status


def test_each_answer_says_that_nothing_is_to_be_run_or_framed_or_kept(place: Place) -> None:
    for path in ("/", "/app.css", "/data/overview", "/data/0/attempt?id=nobody"):
        _, _, headers = asked(place, path)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "example.org", "::"])
def test_a_place_beyond_this_machine_takes_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="--key"):
        Place(host)
    assert not Place(host, key="x").local


@pytest.mark.parametrize(
    ("host", "address"), [("127.0.0.1", "http://127.0.0.1:8517"), ("localhost", "http://localhost:8517"), ("::1", "http://[::1]:8517")]
)
def test_its_address_can_be_opened(host: str, address: str) -> None:
    place = Place(host)
    assert place.address == address
    assert place.names(address.removeprefix("http://"))


def test_with_a_key_each_request_has_to_bring_it(run: Run) -> None:
    with served([run.folder], key="a long key") as place:
        assert asked(place, "/data/overview")[0] == 401
        assert asked(place, "/data/overview", Authorization="Bearer another")[0] == 401
        assert asked(place, "/data/overview", Authorization="Bearer a long key")[0] == 200
        status, _, headers = asked(place, "/?key=a%20long%20key")
        assert status == 200
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie


def test_a_damaged_table_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    next(iter(run.rollouts.files("stage1*"))).write_bytes(b"no table")
    with served([run.folder]) as place:
        status, about, _ = asked(place, "/data/overview")
        assert status == 200
        assert asked(place, "/data/0/list/0")[1]["count"] == 6
        assert len(about["runs"][0]["chunks"]) == 1


# --- what a turn changed ---------------------------------------------------------------------------

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c = 1\n", "\n", "d"]), max_size=12).map(lambda lines: "".join(lines))


@settings(max_examples=60, deadline=None)
@given(LINES, LINES)
def test_the_planted_bug_is_laid_over_a_file_as_git_lays_it(old: str, new: str) -> None:
    patch = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old.splitlines(True), new.splitlines(True), "a/x.py", "b/x.py")
    )
    assert changing._patched(old.encode(), patch, "x.py") == (new.encode() if patch else old.encode())
    assert changing._patched(old.encode(), patch, "y.py") == old.encode()


def test_a_bug_that_does_not_fit_is_told() -> None:
    with pytest.raises(StoreError, match="does not fit"):
        changing._patched(b"other\n", "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n", "x.py")


def test_a_turn_shows_what_it_changed_since_the_turn_before(tmp_path: Path) -> None:
    archive = tmp_path / "code.tar"
    with tarfile.open(archive, "w") as packed:
        for name, content in (("shop/cart.py", b"one\ntwo\nthree\n"), ("gone.py", b"x = 1\n")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    planted = "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    repository = Repository("archive", str(archive), "0" * 64, planted)
    states = [
        Snapshot.of({}),
        Snapshot.of({"shop/cart.py": (0o100644, b"one\ntwo\nthree\n")}),
        Snapshot.of({"shop/cart.py": (0o100644, b"one\ntwo\n3\n"), "gone.py": (0o100644, None), "new.py": (0o100644, b"y = 2\n")}),
        Snapshot.of({"shop/cart.py": (0o100644, b"one\ntwo\n3\n"), "gone.py": (0o100644, None), "big.bin": (0o100644, b"\0" * 9)}),
    ]
    plain = episode("a/0", True).trajectory.turns
    turns = tuple(replace(turn, state=state.address) for turn, state in zip(plain, states, strict=False))
    with Run.create(tmp_path / "run", RECIPE) as run:
        for state in states:
            run.journal.states.put(state)
        found = list(changing.changes(run, repository, turns))
    assert [[change["path"] for change in one] for one in found] == [
        [],
        ["shop/cart.py"],
        ["gone.py", "new.py", "shop/cart.py"],
        ["big.bin", "new.py"],
    ]
    assert found[1][0]["diff"] == "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1,3 +1,3 @@\n one\n-2\n+two\n three\n"
    assert found[2][0]["diff"].startswith("--- a/gone.py\n+++ /dev/null\n")
    assert found[2][1]["diff"] == "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+y = 2\n"
    assert "binary" in found[3][0]["why"]
    whole = subprocess.run(["git", "apply", "--stat", "-"], input=found[2][2]["diff"], text=True, capture_output=True, check=True)
    assert "1 insertion(+), 1 deletion(-)" in whole.stdout


# --- in a browser ----------------------------------------------------------------------------------


def test_the_list_is_filtered_sorted_and_opened_from_the_address_and_the_keyboard(place: Place, run: Run) -> None:
    with browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        page.wait_for_selector(".body .row")
        rows = len(run.rollouts.rows())
        assert f"{rows} of {rows} attempts" in page.inner_text(".filters")
        page.select_option("select[aria-label=phase]", "stage1")
        until(page, 3)
        assert "phase=stage1" in page.url
        page.reload()
        until(page, 3)
        page.click("text=turns")
        page.wait_for_selector("[data-name=turns][aria-sort=ascending]")
        turns = [int(one) for one in page.locator(".body .cell.turns").all_inner_texts()]
        assert turns == sorted(turns)
        page.keyboard.press("/")
        page.keyboard.type("stage1/1")
        until(page, 1)
        page.focus(".scroll")
        page.keyboard.press("Enter")
        page.wait_for_selector(".token")
        assert page.inner_text("h1") == "stage1/1"
        page.keyboard.press("n")
        page.keyboard.press("n")
        assert "turn=2" in page.url
        page.keyboard.press("Escape")
        page.wait_for_selector(".body .row")


def test_a_link_opens_a_turn_and_a_token_tells_its_id_and_probability(place: Place, run: Run) -> None:
    rollout = run.rollouts.read("stage2")[0]
    turn = rollout.trajectory.turns[3]
    with browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/{quote(rollout.trajectory.id, safe='')}?turn=4")
        page.wait_for_selector("#turn-4 .token")
        assert page.evaluate("document.activeElement.id") == "turn-4"
        tokens = page.locator("#turn-4 .token")
        assert tokens.count() == len(turn.action.token_ids)
        tokens.nth(1).hover()
        assert f"id {turn.action.token_ids[1]} " in page.inner_text("#tip")
        assert page.get_attribute("#turns", "data-colour") == "probability"
        page.select_option("#colour", "version")
        assert page.get_attribute("#turns", "data-colour") == "version"
        assert "colour=version" in page.url


def test_two_attempts_are_read_side_by_side_from_the_turn_at_which_they_part(tmp_path: Path) -> None:
    one, other = episode("stage1/0", True), episode("stage1/1", True)
    turns = list(other.trajectory.turns)
    turns[3] = replace(turns[3], action=replace(turns[3].action, text="Something else."))
    for number in range(4, len(turns)):
        turns[number] = replace(turns[number], parent=turns[number - 1].address)
    segment = replace(other.trajectory.segments[0], turns=tuple(turns))
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [one, replace(other, trajectory=replace(other.trajectory, segments=(segment,)))])
    with served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/stage1%2F0")
        page.select_option("#other", "stage1/1")
        page.wait_for_selector(".parted")
        assert page.locator(".parted").get_attribute("id") == "turn-4"
        assert "Their first 3 turns are the same." in page.inner_text("main")
        assert page.evaluate("() => document.activeElement.id") == "turn-4"
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        until(page, 2)
        page.focus(".scroll")
        page.keyboard.press("x")
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.wait_for_selector(".parted")
        assert "one=0%3Astage1%2F0" in page.url


def test_nothing_that_an_agent_wrote_runs_or_acts_on_the_reader(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [hostile("stage1/0")])
    with served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        page.wait_for_selector(".body .row")
        listed_text = page.inner_text("main")
        page.click(".body .row a")
        page.wait_for_selector(".turn .answer")
        for number in range(1, 7):
            page.evaluate(f"document.getElementById('turn-{number}').scrollIntoView()")
        page.wait_for_timeout(300)
        text = page.inner_text("main")
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.querySelectorAll('main iframe, main img, main script, main svg').length") == 0
        assert "<script>window.ran = true</script>" in text
        assert not any(sign in text + listed_text for sign in "\x1b\x07\u202e\u2066")
        assert "\u24231b" in text


def test_a_very_long_answer_is_fetched_when_it_is_asked_for(tmp_path: Path) -> None:
    plain, long = episode("stage1/0", True), "line\n" * 100_000
    turn = plain.trajectory.turns[0]
    turns = (replace(turn, observation=Observation(long, turn.observation.tool_state, 0)),)
    segment = replace(plain.trajectory.segments[0], turns=turns)
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [replace(plain, trajectory=replace(plain.trajectory, segments=(segment,)))])
    with served([run.folder]) as place, browser() as page:
        assert asked(place, "/data/0/observation?id=stage1%2F0&turn=1")[1] == long
        assert asked(place, "/data/0/observation?id=stage1%2F0&turn=2")[0] == 404
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/stage1%2F0")
        page.click("text=fetch all of it (300,000 letters more)")
        page.click("text=show more (480,000 letters are left)")
        page.wait_for_selector("text=show more (280,000 letters are left)")


@pytest.mark.parametrize("opened", ["by a double click", "from a server"])
def test_the_page_as_a_folder_shows_the_same(opened: str, run: Run, place: Place, tmp_path: Path) -> None:
    rows = run.rollouts.rows()
    assert write([run.folder], tmp_path / "page") == len(rows)
    with plain(tmp_path / "page") as port, browser() as page:
        start = (tmp_path / "page" / "index.html").as_uri() if opened == "by a double click" else f"http://127.0.0.1:{port}/index.html"
        page.goto(f"{start}#/list/0")
        until(page, len(rows))
        page.check("#text")
        page.fill("#words", "EDIT 14:14")
        said = [row for row in rows if any("edit 14:14" in turn["text"] for turn in row["conversation"])]
        until(page, len(said))
        here = []
        for address in (f"{start}#/attempt/0/rft%2F0", f"http://127.0.0.1:{place.port}/#/attempt/0/rft%2F0"):
            page.goto(address)
            page.wait_for_selector(".token")
            page.wait_for_selector("#other")
            here.append(page.inner_text("main"))
        assert here[0] == here[1]
        assert page.evaluate("() => document.querySelectorAll('script[src^=data]').length") == 0, "data that was read does not stay"
        page.goto(f"{start}#/list/0")
        until(page, len(rows))
        assert page.evaluate("() => document.querySelectorAll('script[src^=data]').length") == 0


def test_hostile_texts_do_not_run_in_the_folder_either(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [hostile("stage1/0")])
    write([run.folder], tmp_path / "page")
    with browser() as page:
        page.goto((tmp_path / "page" / "index.html").as_uri() + "#/attempt/0/stage1%2F0")
        page.wait_for_selector(".turn .answer")
        assert page.evaluate("() => window.ran") is None
        assert "<script>window.ran = true</script>" in page.inner_text("main")


def test_a_table_that_comes_before_others_by_name_moves_no_attempt_out_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "CHUNK", 2)
    monkeypatch.setattr(listed, "FIRST", 1)
    with Run.create(tmp_path / "run", RECIPE) as run:
        for number in range(4):
            run.rollouts.write("stage1", number, [episode(f"stage1/{number}/0", True)])
        with served([run.folder]) as place, browser() as page:
            page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
            until(page, 4)
            page.wait_for_timeout(1500)
            run.rollouts.write("evaluate-2", 0, [episode("evaluate/+ stage 1 RL/0/0", False)])
            until(page, 5)
            names = page.locator(".body .row .cell.attempt").all_inner_texts()
            assert sorted(names) == ["evaluate/+ stage 1 RL/0/0", *(f"stage1/{number}/0" for number in range(4))]


def test_new_attempts_appear_while_a_run_goes_on(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [episode("stage1/0/0", True)])
        with served([run.folder]) as place, browser() as page:
            page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
            until(page, 1)
            page.wait_for_timeout(1500)
            run.rollouts.write("stage1", 1, [episode("stage1/1/0", False), episode("stage1/1/1", True)])
            until(page, 3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_by_those_who_do_not_see_it(scheme: str, place: Place) -> None:
    views = {"#/list/0": ".body .row", "#/attempt/0/rft%2F0": ".token", "#/pair?one=0%3Arft%2F0&two=0%3Arft%2F1": ".pair section"}
    with browser(color_scheme=scheme) as page:
        for address, ready in views.items():
            page.goto(f"http://127.0.0.1:{place.port}/{address}")
            page.wait_for_selector(ready)
            assert violations(page) == [], address


def test_a_narrow_dark_screen_can_be_read(place: Place) -> None:
    with browser(viewport={"width": 380, "height": 800}, color_scheme="dark") as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/rft%2F0")
        page.wait_for_selector(".token")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


def test_without_starlette_the_page_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(Exception, match=r"pip install 'patchgrad\[view\]'"):
        app([run.folder], Place())
