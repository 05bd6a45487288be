"""`patchgrad evaluate` as a person calls it: any policy over real HTTP and from a folder, predictions, comparisons, plans, refusals."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_bad_input import model
from tests.evaluation.attempts import report

from patchgrad.cli import main
from patchgrad.config import loads
from patchgrad.endpoints import KEY
from patchgrad.grading.output import END, START
from patchgrad.recipes import Evaluation
from patchgrad.runs.trackers import terminal
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run, finite, plain, read_report, value
from patchgrad.store.files import records
from patchgrad.store.journal import Ended
from patchgrad.tasks.sets import Member, save
from patchgrad.testing import ScriptedEndpoint
from patchgrad.testing.attacks.patches import CHECKS, FILES
from patchgrad.testing.endpoint import Said, Trouble
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Advanced, Event, Limits, Report

Spoken = pytest.CaptureFixture[str]
Call = Callable[..., Any]
SEEDS = Path(__file__).parents[2] / "docs" / "studies" / "laptop-seeds" / "seed-11.json"
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def told(capsys: Spoken) -> Call:
    """The object that a call prints for machines."""

    def call(*words: str, code: int = 0) -> Any:
        assert main(["evaluate", *words, "--json"]) == code, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def refused(capsys: Spoken) -> Call:
    """The one sentence with which a call is refused."""

    def call(*words: str) -> str:
        assert main(["evaluate", *words]) == 2
        return capsys.readouterr().err.strip().splitlines()[-1].removeprefix("patchgrad: ")

    return call


# --- any policy on any set -----------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A set of two tasks, one held out."""
    archive = a_repository(tmp_path / "set" / "archives", FILES)
    tasks = [a_task(f"shop-{n}", "", archive, CHECKS, limits=Limits(test_seconds=20.0), tags={"split": n}) for n in ("held_out", "train")]
    save(tmp_path / "set", [Member(task, {"report": "total([1, 2]) gives 2 instead of 3."}, "") for task in tasks])
    return tmp_path / "set"


def command(text: str) -> str:
    return f"I try this.\n```command\n{text}\n```"


def every_other(calls: count[int]) -> Callable[[Said], str]:
    """Repairs the shop in every other conversation, and breaks it in the others; then submits."""

    def script(messages: Said) -> str:
        if "Answer with the word ready." in messages[-1]["content"]:
            return "ready"
        if any(message["role"] == "assistant" for message in messages):
            return command("submit")
        repaired = next(calls) % 2 == 0
        return command(
            f"sed -i 's/total = x/{'total += x' if repaired else 'return 7'}/; s/total = 0/total = {int(not repaired)}/' shop/cart.py"
        )

    return script


@needs_bubblewrap
def test_a_model_behind_an_address_is_measured_kept_and_compared(shop: Path, tmp_path: Path, told: Call, capsys: Spoken) -> None:
    out = tmp_path / "served"
    words = [
        "--tasks",
        str(shop),
        "--model",
        "m",
        "--sandbox.concurrency",
        "1",
        "--evaluation.attempts",
        "4",
        "--evaluation.best_of",
        "visible tests",
    ]
    with ScriptedEndpoint(every_other(count())) as endpoint:
        first = value(Report, told("--policy", endpoint.url, *words, "--evaluation.top_p", "0.9", "--out", str(out)))
        asked = len(endpoint.asked)
        found = value(Report, told("--out", str(out), "--resume"))
        assert found.outcomes == first.outcomes, "it goes on by its folder alone"
        assert len(endpoint.asked) <= asked + 2, "and asks for no attempt again"
    assert main(["replay", str(out), "evaluate/m/0/0"]) == 0
    assert "2 of 2 turns are as they were" in capsys.readouterr().out
    assert (found.name, found.tasks, found.attempts, found.pass_at_1.mean) == ("m", 2, 4, 0.5)
    assert found.outcomes == {"shop-held_out": (True, False, True, False), "shop-train": (True, False, True, False)}
    assert found.best_at_n.mean == 1.0, "the visible test tells the repair from what breaks it"
    assert found.sampling == {"temperature": 1.0, "top_p": 0.9, "top_k": 0.0, "min_p": 0.0, "repetition_penalty": 1.0}
    assert found.budget["context"] == 32_768
    assert found.about["dialect"] == "vLLM, SGLang, llama.cpp"
    assert 100 < found.context_tokens < 4000, "as the server counted"
    assert all(asked["top_p"] == 0.9 for asked in endpoint.asked)

    kept = Run.open(out)
    assert kept.results.reports() == [found]
    assert [r.trajectory.stop for r in kept.rollouts.read("evaluate")] == ["submitted"] * 8
    assert kept.recipe.startswith(f'policy = "{endpoint.url}"')
    swe = json.loads((out / "swebench" / "m.run-1.json").read_text())
    assert swe["resolved_ids"] == ["shop-held_out", "shop-train"]
    assert json.loads((out / "swebench" / "m.run-2.json").read_text())["unresolved_instances"] == 2
    graded = told("--predictions", *(str(out / "swebench" / f"predictions.run-{n}.jsonl") for n in (1, 2)), "--tasks", str(shop))
    assert graded["outcomes"] == {"shop-held_out": [True, False], "shop-train": [True, False]}

    assert main(["evaluate", "--compare", str(out), str(out)]) == 0
    assert "No difference was shown: m solves 0.0 points more than m on the same 2 tasks" in capsys.readouterr().out


@needs_bubblewrap
def test_an_endpoint_that_goes_away_is_bounded_and_says_nothing(shop: Path, told: Call, capsys: Spoken) -> None:
    words = ["--tasks", str(shop), "--model", "m", "--tasks.split", "held_out", "--evaluation.attempts", "1"]
    words += ["--evaluation.limits.seconds", "3"]
    for code, machine in ((1, True), (1, False)):
        with ScriptedEndpoint(lambda _: "ready") as endpoint:
            endpoint.answer = _only_once(endpoint.answer)  # type: ignore[method-assign,assignment]
            if machine:
                found = told("--policy", endpoint.url, *words, code=code)
                assert (found["faults"], found["worst"], found["best"], found["tasks"]) == (1, 0.0, 1.0, 0)
            else:
                assert main(["evaluate", "--policy", endpoint.url, *words]) == code
                assert "Nothing was measured" in capsys.readouterr().out


def _only_once(answer: Callable[[Any], Trouble]) -> Callable[[Any], Trouble]:
    calls = count()
    return lambda asked: answer(asked) if next(calls) == 0 else Trouble(429, "later", {"Retry-After": "60"})


@needs_bubblewrap
def test_a_folder_is_measured_by_a_protocol_under_its_rules(shop: Path, tmp_path: Path, capsys: Spoken) -> None:
    small = [
        "--agent.prompts",
        "brief",
        "--agent.action_tokens",
        "8",
        "--evaluation.limits.turns",
        "1",
        "--evaluation.limits.context",
        "1024",
    ]
    words = ["--policy", str(model(tmp_path / "model")), "--tasks", str(shop), "--tasks.count", "1", "--protocol", "swe-rebench"]
    assert main(["evaluate", *words, *small, "--evaluation.temperature", "0.7", "--name", "tiny"]) == 0
    spoken = capsys.readouterr().out
    assert "| tiny | 0.0 |" in spoken
    assert "1 tasks x 5 runs" in spoken
    assert "Limits: 1 turns, 1,024 tokens of context, 8 tokens an action, 3,600 seconds an attempt." in spoken
    assert "Sampling: temperature 0.7, top_p 1," in spoken
    assert "The SWE-rebench leaderboard's protocol (arXiv 2505.20411, section 3.2): resolved 0.0 % with a standard error of 0.00" in spoken


@needs_bubblewrap
def test_a_folder_is_measured_on_generated_tasks_with_all_the_positions_that_it_has(tmp_path: Path, told: Call) -> None:
    small = ("--agent.prompts", "brief", "--agent.action_tokens", "8", "--evaluation.limits.turns", "1", "--evaluation.attempts", "2")
    words = ("--policy", str(model(tmp_path / "model")), "--tasks", "generated", "--tasks.count", "2", *small)
    first = told(*words, "--out", str(tmp_path / "out"))
    assert (first["tasks"], first["attempts"], first["budget"]["context"], first["about"]["tasks"]) == (2, 2, 2048, "generated")
    again = told("--out", str(tmp_path / "out"), "--resume")
    assert again["outcomes"].keys() == first["outcomes"].keys()
    assert told(*words, "--seed", "7")["outcomes"].keys().isdisjoint(first["outcomes"]), "another seed has other tasks"


def test_what_cannot_be_measured_is_refused_before_anything_starts(
    shop: Path, tmp_path: Path, refused: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("--policy", "http://127.0.0.1:1/v1", "--tasks", str(shop))
    assert refused().startswith("One thing is evaluated at a time, and nothing was")
    assert "RUN was" not in refused("runs/x", "--policy", "m")
    assert refused("--policy", "m").startswith("Name the tasks to measure on")
    assert "say which of its models is meant" in refused(*there)
    out = tmp_path / "out"
    assert "cannot be reached" in refused(*there, "--model", "m", "--out", str(out))
    assert not out.exists(), "the name is free again"
    assert "has the character U+00E9" in refused("--policy", "http://127.0.0.1/v\u00e9", "--model", "m", "--tasks", str(shop))
    assert "(Invalid IPv6 URL)" in refused("--policy", "HTTP://[::1/v1", "--model", "m", "--tasks", str(shop))
    monkeypatch.setenv(KEY, "abc\r")
    assert "character 4 of 4" in refused(*there, "--model", "m")
    monkeypatch.delenv(KEY)
    assert "There is no protocol swe; there are: swe-rebench, nebius2508." in refused(*there, "--model", "m", "--protocol", "swe")
    asked = refused(*there, "--model", "m", "--protocol", "nebius2508", "--evaluation.attempts", "12")
    assert asked == "The protocol nebius2508 has evaluation.attempts 10 and not 12: leave one of the two out."
    assert "allows a context of 131072" in refused(
        *there, "--model", "m", "--protocol", "nebius2508", "--evaluation.limits.context", "200000"
    )
    assert "no tasks of the split 'test'; there are: held_out, train." in refused(*there, "--model", "m", "--tasks.split", "test")
    assert "evaluation.top_p is 0.0; it must be above 0" in refused(*there, "--model", "m", "--evaluation.top_p", "0")
    assert "pass@k of 5 attempts needs a k up to them" in refused(*there, "--model", "m", "--evaluation.k", "6")
    assert "tasks.count is -1" in refused(*there, "--model", "m", "--tasks.count", "-1")
    assert "There is no key evaluation.turn; did you mean" in refused(*there, "--model", "m", "--evaluation.turn", "3")
    assert "A model's name belongs to an address, and ./x is none" in refused("--policy", "./x", "--model", "m", "--tasks", str(shop))
    assert "there is no model folder at ./nowhere" in refused("--policy", "./nowhere", "--tasks", str(shop))
    far = ("--policy", str(model(tmp_path / "model")), "--tasks", str(shop), "--evaluation.limits.context", "131072")
    assert "131072 tokens is beyond the 2048 positions that the model reads: stretch them by a yarn of 64, or take less" in refused(*far)
    assert "yarn is 0.5" in refused(*far, "--yarn", "0.5")
    assert "leave tasks.split and tasks.level out" in refused("--policy", "m", "--tasks", "generated", "--tasks.split", "train")


def test_an_evaluation_is_a_value_that_prints_and_runs_again_from_its_file(
    shop: Path, tmp_path: Path, capsys: Spoken, refused: Call
) -> None:
    words = ["--policy", "http://127.0.0.1:1/v1", "--model", "m", "--tasks", str(shop), "--protocol", "nebius2508", "--seed", "5"]
    assert main(["evaluate", *words, "--print"]) == 0
    text = capsys.readouterr().out
    assert loads(Evaluation, text).evaluation.attempts == 10
    (tmp_path / "mine.toml").write_text(text)
    assert main(["evaluate", str(tmp_path / "mine.toml"), "--print"]) == 0
    assert capsys.readouterr().out == text
    assert "cannot be reached" in refused(str(tmp_path / "mine.toml"))
    assert "names no tasks" in refused(str(tmp_path / "mine.toml"), "--tasks.folder", "")
    assert "nowhere.toml cannot be read" in refused("nowhere.toml")
    assert refused(str(tmp_path / "mine.toml"), "--tasks", "x") == "--tasks has no meaning with FILE.toml: leave it out."


# --- predictions that are there ------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path: Path) -> list[str]:
    """Four rows and two runs: solved in both, in one, without a log in the second, and answered by nobody."""
    rows = [{"instance_id": f"a__b-{n}", "repo": "a/b", "FAIL_TO_PASS": '["t.py::mend"]', "PASS_TO_PASS": "[]"} for n in (1, 2, 3, 4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for run, words in enumerate((("PASSED", "PASSED", "FAILED"), ("PASSED", "FAILED", "")), 1):
        answers = [{"instance_id": f"a__b-{n}", "model_name_or_path": "me", "model_patch": "p"} for n in (1, 2, 3)]
        (tmp_path / f"run-{run}.json").write_text(json.dumps(answers))
        for n, word in enumerate(words, 1):
            folder = tmp_path / f"logs-{run}" / f"a__b-{n}"
            folder.mkdir(parents=True)
            if word:
                (folder / "test_output.txt").write_text(f"{START}\n{word} t.py::mend\n{END}\n")
    return [
        *("--predictions", str(tmp_path / "run-1.json"), str(tmp_path / "run-2.json"), "--tasks", str(tmp_path / "rows.jsonl")),
        *("--recorded", str(tmp_path / "logs-1"), str(tmp_path / "logs-2")),
    ]


def test_files_of_predictions_are_runs_of_one_policy(recorded: list[str], tmp_path: Path, told: Call, capsys: Spoken) -> None:
    found = value(Report, told(*recorded, "--out", str(tmp_path / "out")))
    assert found.outcomes == {"a__b-1": (True, True), "a__b-2": (True, False), "a__b-3": (False, None), "a__b-4": (False, False)}
    assert (found.name, found.pass_at_1.mean, found.faults, found.worst, found.best) == ("me", 3 / 8, 1, 3 / 8, 4 / 8)
    assert read_report(str(tmp_path / "out")) == found
    assert sorted(path.name for path in (tmp_path / "out").glob("*.json")) == ["me.patchgrad-1.json", "me.patchgrad-2.json", "report.json"]
    assert main(["evaluate", *recorded]) == 0
    spoken = capsys.readouterr().out
    assert "| me | 37.5 ± 23.9 |" in spoken
    assert "Broken attempts, which count nowhere: 1. Pass@1 would be 37.5 % if all of them had failed" in spoken


def test_predictions_that_cannot_be_held_against_anything(recorded: list[str], refused: Call) -> None:
    assert "--recorded names 2 places for 1 files" in refused(*recorded[:2], *recorded[3:])
    assert refused(*recorded[:3]).startswith("Name what the predictions are for")
    assert "whose repositories are not at hand" in refused(*recorded[:5])
    assert refused(*recorded, "--seed", "3") == "--seed has no meaning with --predictions: leave it out."


def test_the_recorded_runs_of_swe_bench_are_graded_as_its_harness_did(tmp_path: Path, told: Call) -> None:
    if "PATCHGRAD_DATA" not in os.environ:
        pytest.skip("PATCHGRAD_DATA names no folder with recorded runs of SWE-bench")
    data = Path(os.environ["PATCHGRAD_DATA"]) / "swebench_verified_60"
    words = ("--tasks", str(data / "rows.jsonl.gz"), "--recorded", str(data / "eval_logs.tar.gz"))
    found = value(Report, told("--predictions", str(data / "predictions.jsonl.gz"), *words))
    assert found.about["recorded"] == "agrees with 59 of 59 recorded verdicts"
    assert (found.tasks, found.faults) == (59, 1)
    assert found.worst == pytest.approx(42 / 60), "resolved / total, which is SWE-bench's headline"


# --- comparisons and plans -----------------------------------------------------------------------


def kept(folder: Path, name: str, rows: Sequence[Sequence[bool | None]]) -> str:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(finite(plain(report(name, rows)))))
    return str(path)


def test_two_reports_are_compared_wherever_they_were_kept(tmp_path: Path, told: Call, capsys: Spoken) -> None:
    base = kept(tmp_path, "base", [[False, False]] * 8)
    better = kept(tmp_path, "better", [[True, True]] * 7 + [[None, False]])
    found = told("--compare", base, better)
    assert found["comparison"]["difference"]["mean"] == pytest.approx(7 / 8)
    assert found["sentence"].startswith("better solves 87.5 points more than base on the same 8 tasks (95 % interval ")
    assert main(["evaluate", "--compare", base, better]) == 0
    assert "0 and 1 attempts broke: had they gone all against better, or all for it, the difference would be 87.5 or 93.8 points." in (
        capsys.readouterr().out
    )
    assert told("--compare", f"{SEEDS}:base", str(SEEDS))["comparison"]["difference"]["mean"] == pytest.approx(0.3475)


def test_reports_that_cannot_be_compared(tmp_path: Path, refused: Call) -> None:
    base, other = kept(tmp_path, "base", [[True]]), kept(tmp_path, "other", [[True], [False]])
    assert "measured on other tasks" in refused("--compare", base, other)
    assert "nowhere cannot be read" in refused("--compare", base, "nowhere")
    assert "has no report 'rft'; there are: base." in refused("--compare", base, f"{base}:rft")
    (tmp_path / "odd.json").write_text('{"a": 1}')
    assert "holds no report" in refused("--compare", base, str(tmp_path / "odd.json"))
    (tmp_path / "odd.json").write_text("{")
    assert "is no JSON" in refused("--compare", base, str(tmp_path / "odd.json"))
    assert "One thing is evaluated at a time, and --compare and RUN were given" in refused("runs/x", "--compare", base, base)
    assert refused("--compare", base, base, "--run-id", "x") == "--run-id has no meaning with --compare: leave it out."


def test_a_plan_says_how_many_runs_a_difference_needs(told: Call, capsys: Spoken) -> None:
    assumed = told("--plan", "--difference", "2", "--size", "500", "--rate", "35")
    assert (assumed["every task gains alike"]["runs"], assumed["few tasks gain all"]["runs"]) == (9, 39)
    assert main(["evaluate", "--plan", str(SEEDS), "--difference", "2"]) == 0
    spoken = capsys.readouterr().out
    assert "To see 2 points on 200 tasks in 80 % of such comparisons, at a level of 5 %, each policy needs" in spoken
    assert "18 runs if every task gains alike," in spoken
    assert "more tasks, at least 385, however many runs are made, if 2 % of the tasks go from never to always" in spoken
    both = told("--plan", f"{SEEDS}:+ stage 1 RL", str(SEEDS), "--difference", "5", "--size", "1000")
    assert both["as their pilot"]["runs"] == 1


def test_plans_that_rest_on_nothing(tmp_path: Path, refused: Call) -> None:
    once = kept(tmp_path, "once", [[True], [False]])
    assert "Say which difference is to be seen" in refused("--plan", once)
    assert "once has one run a task, which does not tell how attempts vary" in refused("--plan", once, "--difference", "2")
    assert "Without a report a plan needs --size" in refused("--plan", "--difference", "2")
    assert "at most two reports" in refused("--plan", once, once, once, "--difference", "2")
    assert "--rate is a share in percent" in refused("--plan", "--difference", "2", "--size", "9", "--rate", "200")


def test_every_turn_at_an_endpoint_is_in_the_journal(shop: Path, tmp_path: Path, told: Call) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with ScriptedEndpoint(lambda messages: command("submit")) as endpoint:
        told("--policy", endpoint.url, "--model", "m", "--tasks", str(shop), "--evaluation.attempts", "1", "--out", str(tmp_path / "out"))
    (journal,) = (tmp_path / "out" / "journal").glob("*.jsonl")
    turns = [record["turn"] for record in records(journal) if "turn" in record]
    assert len(turns) == 2
    assert all(turn["action"]["usage"]["prompt"] > 100 for turn in turns)


@needs_bubblewrap
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_an_evaluation_on_the_nodes_of_a_cluster_is_the_one_that_is_made_here(
    shop: Path, tmp_path: Path, told: Call, capsys: Spoken
) -> None:
    def script(messages: Said) -> str:
        """Always repairs it."""
        return every_other(count())(messages)

    words = ["--tasks", str(shop), "--model", "m", "--evaluation.attempts", "2", "--evaluation.best_of", "visible tests"]
    with ScriptedEndpoint(script) as endpoint:
        here = value(Report, told("--policy", endpoint.url, *words, "--out", str(tmp_path / "here")))
        there = value(Report, told("--policy", endpoint.url, *words, "--out", str(tmp_path / "there"), "--cluster", "local:2"))
    assert there.outcomes == here.outcomes == {"shop-held_out": (True, True), "shop-train": (True, True)}
    assert there.about == here.about
    assert addresses(tmp_path / "there") == addresses(tmp_path / "here")


def addresses(folder: Path) -> list[str]:
    """Of every turn of an evaluation."""
    return sorted(entry.turn.address for entry in Run.open(folder).journal.records.entries())


@needs_bubblewrap
def test_an_evaluation_that_was_interrupted_goes_on_and_asks_nothing_twice(
    shop: Path, tmp_path: Path, refused: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, solved = tmp_path / "out", count()
    words = ["--tasks", str(shop), "--model", "m", "--evaluation.attempts", "2", "--sandbox.concurrency", "1", "--out", str(out)]

    class Stopped(Silent):
        """Presses Ctrl-C when two attempts are done."""

        def event(self, event: Event) -> None:
            if isinstance(event, Advanced) and next(solved) == 1:
                raise KeyboardInterrupt

    with ScriptedEndpoint(every_other(count())) as endpoint:
        policy = ("--policy", endpoint.url)
        with monkeypatch.context() as patched:
            patched.setattr(terminal, "choose", lambda quiet: Stopped())
            assert main(["evaluate", *policy, *words]) == 130
        before = {record.trajectory for record in Run.open(out).journal.records.records() if isinstance(record, Ended)}
        assert len(before) == 2
        assert "holds an evaluation already" in refused(*policy, *words)
        assert "holds another evaluation" in refused(*policy, *words, "--resume", "--seed", "9")
        asked = len(endpoint.asked)
        assert main(["evaluate", *policy, *words, "--resume"]) == 0
    turns = [entry.trajectory for entry in Run.open(out).journal.records.entries()]
    later = [name for name in turns if name not in before]
    assert len(endpoint.asked) - asked == 1 + len(later), "one that greets the endpoint, and one a turn of what was not done"
    assert len(Run.open(out).rollouts.read("evaluate")) == 4
    assert "name its folder, as in --out" in refused(*policy, "--tasks", str(shop), "--model", "m", "--resume")
