"""Several runs on one page: repetitions are one arm, arms stand side by side, and what cannot be compared is not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.viewer.synthetic import RECIPE, make, policy
from tests.viewer.test_page import well_formed

from patchgrad.cli import main
from patchgrad.errors import ConfigError, StoreError
from patchgrad.store import plain
from patchgrad.viewer.comparison import comparison, gather


def seeded(folder: Path, seed: int, turns: int = 8) -> str:
    """A run of the recipe, or of one with other turns."""
    text = RECIPE.replace("seed = 0", f"seed = {seed}").replace("turns = 8", f"turns = {turns}")
    return str(make(folder, recipe=text, seed=seed).folder)


def test_runs_that_differ_in_their_seed_are_one_arm_and_others_stand_beside_it(tmp_path: Path) -> None:
    sources = [seeded(tmp_path / "a", 1), seeded(tmp_path / "b", 2), seeded(tmp_path / "c", 1, turns=9)]
    first, second = gather(sources)
    assert (first.name, sorted(first.runs)) == ("laptop", [1, 2])
    assert (second.name, sorted(second.runs)) == (f"laptop ({sources[2]})", [1])
    page = comparison(sources, tmp_path / "page.html").read_text()
    assert {"svg", "table"} <= well_formed(page)
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "2 recipes, 3 runs" in page
    assert "stages.0.limits.turns" in page, "what differs is told"
    assert "<td>seed" not in page
    assert page.count("from + stage 1<") == 1, "in the first arm from row to row"
    assert page.count("from laptop<") == 4, "the others from the first"


def test_iterations_are_compared_by_phase_and_number_whatever_came_before(tmp_path: Path) -> None:
    sources = []
    for seed, length in ((1, 2), (2, 4)):
        metrics = [{"phase": "stage1", "iteration": i, "pass_at_1": 0.1} for i in range(length)]
        metrics += [{"phase": "stage2", "iteration": i, "pass_at_1": 0.9} for i in range(2)]
        path = tmp_path / f"{seed}.json"
        path.write_text(
            json.dumps({"arm": "a", "seed": seed, "reports": [plain(policy("p", 0.5, 0.7, 0.9, 6.0, 2.0))], "metrics": metrics})
        )
        sources.append(str(path))
    page = comparison(sources, tmp_path / "page.html").read_text()
    assert re.findall(r"<title>a: ([\d.]+)</title>", page) == ["0.1"] * 4 + ["0.9"] * 2


def test_what_attempts_were_given_stands_beside_what_they_reached(tmp_path: Path) -> None:
    def told(name: str, *turns: int) -> str:
        reports = [replace(policy(f"p{n}", 0.5, 0.7, 0.9, 6.0, 2.0), budget={"turns": float(n), "context": 2048.0}) for n in turns]
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"arm": name, "seed": 1, "reports": [plain(one) for one in reports], "metrics": []}))
        return str(path)

    alike = comparison([told("a", 12), told("b", 12)], tmp_path / "page.html").read_text()
    assert "Limits of an attempt: 12 turns, 2,048 tokens of context." in alike
    other = comparison([told("a", 12, 20), told("b", 12)], tmp_path / "page.html").read_text()
    assert "Limits of an attempt (a, p12; b, p12): 12 turns, 2,048 tokens of context." in other
    assert "Limits of an attempt (a, p20): 20 turns, 2,048 tokens of context." in other


def test_models_that_differ_are_arms_of_their_own(tmp_path: Path) -> None:
    text = RECIPE.replace('model = ""', 'model = "other"')
    assert len(gather([seeded(tmp_path / "a", 1), str(make(tmp_path / "b", recipe=text).folder)])) == 2


def test_a_file_that_is_no_report_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(StoreError, match="is no JSON"):
        gather([str(tmp_path / "x.json")])


def test_arms_of_one_policy_are_compared_with_the_first(tmp_path: Path) -> None:
    sources = []
    for arm, share in (("control", 0.5), ("without", 0.25)):
        for seed in (1, 2):
            report = replace(policy("+ stage 2", share, 0.7, 0.9, 6.0, 2.0), solved={f"t{i}": int(4 * share) for i in range(40)})
            path = tmp_path / f"{arm}-{seed}.json"
            path.write_text(json.dumps({"arm": arm, "seed": seed, "reports": [plain(report)], "metrics": []}))
            sources.append(str(path))
    page = comparison(sources, tmp_path / "page.html").read_text()
    assert "-25.0" in page
    assert "from control" in page
    assert "<svg" not in page, "without records of iterations there are no curves"


def test_what_was_measured_on_other_tasks_is_shown_and_not_compared(tmp_path: Path) -> None:
    for arm, tasks in (("one", 30), ("two", 40)):
        report = replace(policy("last", 0.5, 0.7, 0.9, 6.0, 2.0), solved={f"t{i}": 2 for i in range(tasks)})
        (tmp_path / f"{arm}.json").write_text(json.dumps({"arm": arm, "reports": [plain(report)]}))
    page = comparison([str(tmp_path / "one.json"), str(tmp_path / "two.json")], tmp_path / "page.html").read_text()
    assert page.count("50.0 %") == 2
    assert "from one" not in page


def test_a_run_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    source = seeded(tmp_path / "a", 1)
    with pytest.raises(ConfigError, match="repeats laptop with the seed 1"):
        gather([source, source])


def test_the_verb_writes_one_page_about_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = seeded(tmp_path / "a", 1), seeded(tmp_path / "b", 2)
    assert main(["view", one, two, "--out", str(tmp_path / "both.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(tmp_path / "both.html")
    assert main(["view", one, str(tmp_path / "nowhere"), "--out", str(tmp_path / "x.html")]) == 2
    assert "is no run of patchgrad's" in capsys.readouterr().err
