"""Verdicts -> SWE-bench's reports, which its tools and leaderboards read: one an instance, and one of the whole run (schema version 2)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.grading.predictions import Prediction, file_name
from patchgrad.values import Verdict

_SIGNS: tuple[tuple[str, bool, re.Pattern[str]], ...] = tuple(
    (reason, environment, re.compile(pattern, re.MULTILINE))
    for reason, environment, pattern in (
        ("browser_launch_failed", True, r"Failed to launch|Failed to connect to the bus"),
        ("display_unavailable", True, r"cannot open display|Missing X server|unable to open X display"),
        ("out_of_memory", True, r"Cannot allocate memory|OutOfMemoryError|^Killed$"),
        ("container_unavailable", True, r"Error response from daemon|Cannot connect to the Docker daemon"),
        ("network_unreachable", True, r"Could not resolve host|Temporary failure in name resolution"),
        ("missing_module", False, r"Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError"),
        ("no_tests_collected", False, r"no tests ran|collected 0 items"),
        ("tests_timed_out", False, r"Timeout error: \d+ seconds exceeded"),
    )
)


@dataclass(frozen=True, slots=True)
class Graded:
    """What became of a prediction. There is no verdict where nothing was run; `note` tells people of what is odd or went wrong.

    `failure` is `failure_reason`'s hint.
    """

    verdict: Verdict | None
    note: str = ""
    failure: tuple[str, bool] | None = None

    @property
    def judged(self) -> bool:
        """Is there a judgement of the submission?"""
        return self.verdict is not None and self.verdict.fault is None

    @property
    def broken(self) -> bool:
        """Did its sandbox break?"""
        return self.verdict is not None and self.verdict.fault is not None


def failure_reason(log: str) -> tuple[str, bool] | None:
    """What in a log hints at a broken environment, and whether no patch could have caused it: `("out_of_memory", True)`.

    A hint beside the verdict, never part of it; reasons and their order are SWE-bench's.
    """
    return next(((reason, environment) for reason, environment, pattern in _SIGNS if pattern.search(log)), None)


def instance_report(prediction: Prediction, graded: Graded) -> dict[str, Any]:
    """What stands in an instance's `report.json`: `{"a__b-1": {"resolved": True, "tests_status": {...}, ...}}`.

    As in SWE-bench `patch_successfully_applied` means that the tests were read, and only then their lists are given.
    """
    verdict = graded.verdict
    told: dict[str, Any] = {
        "patch_is_None": prediction.patch is None,
        "patch_exists": prediction.patch is not None,
        "patch_successfully_applied": False,
        "resolved": False,
        "infra_failure": False,
    }
    if verdict is not None and "ran" in verdict.stages:
        told |= {"patch_successfully_applied": True, "resolved": verdict.resolved, "tests_status": tests_status(verdict)}
    elif graded.failure is not None:
        told["infra_failure_reason"], told["infra_failure"] = graded.failure
    return {prediction.id: told}


def tests_status(verdict: Verdict) -> dict[str, dict[str, list[str]]]:
    """The expected tests by list and by whether they hold: `{"FAIL_TO_PASS": {"success": ["t"], "failure": []}, ...}`."""
    lists: dict[str, dict[str, list[str]]] = {
        key: {"success": [], "failure": []} for key in ("FAIL_TO_PASS", "PASS_TO_PASS", "FAIL_TO_FAIL", "PASS_TO_FAIL")
    }
    for test in verdict.tests:
        lists[test.expected.upper()]["success" if test.satisfied else "failure"].append(test.id)
    return lists


def run_report(tasks: Collection[str], predictions: Mapping[str, Prediction], graded: Mapping[str, Graded]) -> dict[str, Any]:
    """The report of a run, counts first. A prediction without a judgement is an error, one without a patch is `empty`.

    `tasks` is the whole set, of which those without a prediction are `incomplete`: the headline is resolved / total.
    """
    empty = {name for name, prediction in predictions.items() if prediction.patch in ("", None)}
    done = {name: found.verdict for name, found in graded.items() if found.verdict is not None and found.judged and name not in empty}
    resolved = {name for name, verdict in done.items() if verdict.resolved}
    told = {name: found.failure for name, found in graded.items() if found.failure and name not in resolved | empty}
    infra = {name for name, (_, environment) in told.items() if environment}
    ids = {
        "completed": set(done),
        "incomplete": set(tasks) - set(predictions),
        "empty_patch": empty,
        "submitted": set(predictions),
        "resolved": resolved,
        "unresolved": set(done) - resolved,
        "infra_failure": infra,
        "ambiguous_failure": set(told) - infra,
    }
    errors = set(predictions) - set(done) - empty
    counted = ("submitted", "completed", "resolved", "unresolved", "infra_failure", "ambiguous_failure", "empty_patch")
    return {
        "total_instances": len(tasks),
        **{f"{name}_instances": len(ids[name]) for name in counted},
        "error_instances": len(errors),
        **{f"{name}_ids": sorted(found) for name, found in ids.items()},
        "failure_reasons": {name: told[name][0] for name in sorted(told)},
        "error_ids": sorted(errors),
        "schema_version": 2,
    }


def write_instance(folder: Path, run_id: str, prediction: Prediction, report: Mapping[str, Any]) -> Path:
    """`FOLDER/logs/run_evaluation/RUN/MODEL/INSTANCE/`, with `report.json` and the prediction's `patch.diff`; a slash in MODEL is `__`."""
    place = folder / "logs" / "run_evaluation" / run_id / file_name(prediction.model) / file_name(prediction.id)
    place.mkdir(parents=True, exist_ok=True)
    (place / "report.json").write_text(json.dumps(report, indent=4))
    (place / "patch.diff").write_bytes((prediction.patch or "").encode())
    return place


def write_run(folder: Path, run_id: str, predictions: Mapping[str, Prediction], report: Mapping[str, Any]) -> Path:
    """`FOLDER/MODEL.RUN.json`, named after the model of the first prediction."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file_name(next(iter(predictions.values())).model)}.{run_id}.json"
    path.write_text(json.dumps(report, indent=4) + "\n")
    return path
