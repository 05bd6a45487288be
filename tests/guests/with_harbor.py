"""What Harbor makes of folders of tasks: `python with_harbor.py FOLDER PYTHON` in an environment that has it.

`FOLDER/tasks` holds tasks that are read, linted, and attempted by three agents; of `FOLDER/rewards` each is judged once. Its last line is
JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from harbor.job import Job
from harbor.lint import lint_task
from harbor.models.job.config import JobConfig
from harbor.models.task.task import Task
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig

HERE = "tests.guests.harbor_sandbox"
ORACLE, IDLE, FORGER = AgentConfig(name="oracle"), AgentConfig(name="nop"), AgentConfig(import_path=f"{HERE}:Forger")


async def job(name: str, folder: Path, python: str, agents: list[AgentConfig]) -> dict[str, dict[str, Any]]:
    """Task -> agent -> its rewards, or the error that Harbor has in their place."""
    tasks = [TaskConfig(path=path) for path in sorted((folder / name).iterdir())]
    environment = EnvironmentConfig(import_path=f"{HERE}:Bubblewrap", kwargs={"python": python})
    config = JobConfig(job_name=name, jobs_dir=folder / "jobs", tasks=tasks, agents=agents, environment=environment, quiet=True)
    await (await Job.create(config)).run()
    found: dict[str, dict[str, Any]] = {}
    for path in (folder / "jobs" / name).glob("*/result.json"):
        told = json.loads(path.read_text())
        rewards, error = told["verifier_result"], told["exception_info"]
        task, agent = Path(told["task_id"]["path"]).name, told["agent_info"]["name"]
        found.setdefault(task, {})[agent] = error["exception_type"] if error else rewards["rewards"]
    return found


def read(path: Path) -> dict[str, Any]:
    """A task as Harbor reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        task = Task(path)
    return {
        "valid": Task.is_valid_dir(path),
        "name": task.name,
        "instruction": task.instruction,
        "network": task.config.environment.network_mode,
        "seconds": task.config.verifier.timeout_sec,
        "findings": sorted(finding.rule.value for finding in lint_task(path)),
    }


def main(folder: Path, python: str) -> None:
    told = {
        "read": {path.name: read(path) for path in sorted((folder / "tasks").iterdir())},
        "attempted": asyncio.run(job("tasks", folder, python, [ORACLE, IDLE, FORGER])),
        "rewarded": asyncio.run(job("rewards", folder, python, [IDLE])),
    }
    sys.stdout.write(f"\n{json.dumps(told)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
