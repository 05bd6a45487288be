"""What a run waits for right now is told in words, and nothing is said to go on where its process is stopped or gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.viewer.serving import browser, served
from tests.viewer.synthetic import RECIPE
from tests.viewer.test_live import rooted, takes

from patchgrad.errors import ConfigError, TrainingStopped
from patchgrad.recipes import smoke
from patchgrad.recipes.evaluation import Evaluation
from patchgrad.runs.measure import measure
from patchgrad.runs.trackers.status import Status
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.runs.train import train
from patchgrad.store import Run, status
from patchgrad.values import Advanced, PhaseBegan
from patchgrad.viewer.site.doing import Doing, doing
from patchgrad.viewer.site.live import Live
from patchgrad.viewer.site.recent import Recent
from patchgrad.waiting import What, waiting_for

WRITER = """
import sys, time
from pathlib import Path
from patchgrad.runs.trackers.status import Status
from patchgrad.runs.trackers.terminal import Silent
with Status(Path(sys.argv[1]), Silent()):
    print("there", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", RECIPE) as made:
        yield made


def waits(run: Run, **counts: int) -> None:
    """The status of a process that is there, with these waits."""
    status.write(run.folder, {**status.process(), "phase": {"name": "rft", "done": 3, "total": 8}, "waits": counts, "ended": "", "at": 0})


def test_what_attempts_wait_for_is_counted_and_named(run: Run) -> None:
    waits(run, sampling=3, tools=1, memory=2)
    told = "3 attempts wait for the policy's answer, 1 for a tool's answer, 2 for memory for a sandbox"
    assert doing(run).said == f"Right now: rft, 3 of 8; {told}."
    waits(run, tests=1)
    assert doing(run).said == "Right now: rft, 3 of 8; 1 attempt waits for the tests of the submission."
    waits(run, training=1)
    assert doing(run).said == "Right now: rft, 3 of 8; the trainer computes."


def test_what_is_waited_for_is_written_while_it_goes_on(run: Run) -> None:
    async def waiting(what: What, outer: What | None = None) -> None:
        with waiting_for(outer) if outer else contextlib.nullcontext(), waiting_for(what):
            while True:
                await asyncio.sleep(0.01)

    async def work(kept: Status) -> None:
        kept.event(PhaseBegan("stage 1, iteration 1 of 2", 4))
        kept.event(Advanced(3))
        tasks = [asyncio.create_task(one) for one in (waiting("sampling"), waiting("sampling"), waiting("memory", "sandboxes"))]
        while status.read(run.folder).get("waits") != {"sampling": 2, "memory": 1}:
            await asyncio.sleep(0.01)
        assert "2 attempts wait for the policy's answer, 1 for memory for a sandbox" in doing(run).said
        for task in tasks:
            task.cancel()
        while status.read(run.folder)["waits"]:
            await asyncio.sleep(0.01)

    with Status(run.folder, Silent()) as kept:
        asyncio.run(asyncio.wait_for(kept.over(work(kept)), 60))
    assert status.read(run.folder)["phase"] == {"name": "stage 1, iteration 1 of 2", "done": 3, "total": 4}
    assert doing(run).said == ""


@pytest.mark.parametrize(("error", "said"), [(KeyboardInterrupt(), "was interrupted"), (ValueError("No room."), "error: No room.")])
def test_a_run_that_broke_off_says_so_and_how_it_goes_on(run: Run, error: BaseException, said: str) -> None:
    with pytest.raises(type(error)), Status(run.folder, Silent()):
        raise error
    told = doing(run)
    assert said in told.said
    assert told.said.endswith("--resume`.")
    assert told.attempts == "interrupted"


def test_a_process_that_is_stopped_or_gone_is_told(run: Run) -> None:
    takes(run, rooted("rft/0/0/0"), 0, 2)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(run.folder)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"there\n"
        assert doing(run).said == "Right now: the run begins."
        writer.send_signal(signal.SIGSTOP)
        until(lambda: "is stopped by a signal" in doing(run).said)
        assert doing(run).attempts == "running"
        writer.send_signal(signal.SIGCONT)
        until(lambda: doing(run).said == "Right now: the run begins.")
    finally:
        writer.kill()
        writer.communicate()
    told = doing(run)
    assert "is gone" in told.said
    assert told.attempts == "interrupted"
    (recent := Recent(run)).look()
    assert Live(recent).rows(told.attempts)["rft/0/0/0"]["stop"] == "interrupted"


def until(holds: object) -> None:
    """Waits for it."""
    assert callable(holds)
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_of_another_process_with_the_same_number_nothing_is_believed(run: Run) -> None:
    waits(run, tools=1)
    told = status.read(run.folder)
    status.write(run.folder, {**told, "started": "1"})
    assert "is gone" in doing(run).said
    status.write(run.folder, {**told, "space": "another", "at": time.time()})
    assert doing(run).said.startswith("Right now: rft")
    status.write(run.folder, {**told, "machine": "another", "boot": "another", "at": time.time() - 180})
    assert doing(run).said == "Its process, which is of another machine or container, has said nothing for 3 min."


def test_of_a_machine_that_began_anew_the_process_is_gone_and_of_an_unknown_one_nothing_is_claimed(run: Run) -> None:
    waits(run, tools=1)
    told = {**status.read(run.folder), "at": time.time() - 180}
    status.write(run.folder, {**told, "boot": "an earlier one", "machine": status.process()["machine"]})
    if status.process()["machine"]:
        assert "is gone" in doing(run).said
    for missing in ({"boot": ""}, {"boot": "an earlier one", "machine": ""}):
        status.write(run.folder, {**told, **missing})
        assert doing(run).said == "Its process has said nothing for 3 min, and whether it is there cannot be known here."
        assert doing(run).attempts == "not ended"


def test_a_run_whose_last_phase_is_committed_is_not_said_to_go_on(run: Run) -> None:
    with pytest.raises(TrainingStopped), Status(run.folder, Silent()):
        raise TrainingStopped("The run has learned nothing: no update.")
    assert doing(run).said.endswith("--resume`.")
    run.save_state({"step": "evaluate-stage1"})
    assert doing(run).said == "Its process ended with an error: The run has learned nothing: no update."


def test_attempts_without_an_ending_run_no_more_once_the_process_is_done(run: Run) -> None:
    assert doing(run).attempts == "not ended"  # nobody said anything
    with Status(run.folder, Silent()):
        assert doing(run).attempts == "running"
    assert doing(run) == Doing("", "interrupted")


def test_a_refusal_before_the_first_attempt_is_told(run: Run) -> None:
    with pytest.raises(ConfigError, match="names no tasks"):
        measure(Evaluation(), Silent(), run)
    assert "ended with an error: The evaluation names no tasks" in doing(run).said
    with pytest.raises(ConfigError):
        train(replace(smoke(), policy=replace(smoke().policy, model=str(run.folder / "no model"))), run, Silent())
    assert "ended with an error" in doing(run).said
    assert "no model" in doing(run).said


def test_what_could_not_be_written_is_written_at_the_next_look(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with Status(folder, Silent()):
        folder.mkdir()
        until(lambda: status.read(folder).get("ended") == "")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", json.dumps({"pid": 1}), json.dumps({"boot": 1, "phase": 3, "waits": []})])
def test_a_status_that_nobody_wrote_so_says_nothing(run: Run, content: str) -> None:
    (run.folder / "status.json").write_text(content)
    assert doing(run).said in ("", "Right now: the run begins.")


def test_the_page_tells_it_and_links_to_the_attempts_that_have_not_ended(run: Run) -> None:
    with served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/")
        waits(run, sampling=1)
        takes(run, rooted("rft/0/0/0"), 0, 2)
        page.wait_for_selector("#now:has-text('1 attempt waits for the policy')")
        page.click("text=Show the attempt that has not ended")
        page.wait_for_selector(".body .row:has-text('… running')")
        page.focus("#now a")
        waits(run, tools=1)
        page.wait_for_selector("#now:has-text('waits for a tool')")
        assert page.evaluate("() => document.activeElement.parentElement.parentElement.id") == "now"  # a link that is told anew stays
        status.write(run.folder, {**status.read(run.folder), "started": "1"})
        page.wait_for_selector("#now:has-text('Its process is gone')")
        page.wait_for_selector(".body .row:has-text('… interrupted')")
