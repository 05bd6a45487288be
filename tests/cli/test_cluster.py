"""Jobs for Slurm and Kubernetes: what is printed is what these programs run. Programs of Slurm's are doubles that run commands here."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from patchgrad.cli import main

NO_GPUS = ["--num-gpus", "0"]
"""Of a machine that trains: Ray would give its GPUs to replicas of the policy."""

SRUN = """#!/bin/bash
tasks=1
while [[ $1 == --* ]]; do [[ $1 == --ntasks=* ]] && tasks=${1#*=}; shift; done
for ((task = 1; task < tasks; task++)); do SLURM_PROCID=$task "$@" & done
SLURM_PROCID=0 exec "$@"
"""
SCONTROL = """#!/bin/bash
echo first
echo second
"""
HOSTNAME = """#!/bin/bash
echo ::1 127.0.0.1
"""
RAY = """#!/bin/bash
[[ $RAY_memory_monitor_refresh_ms == 0 ]] || exit 1
printf '%q ' ray "$@" "$RAY_AUTH_TOKEN" >> "$SAID"
echo >> "$SAID"
[[ $* == *--head* ]] && exec python3 -c "
import os, socket, time
server = socket.create_server(('127.0.0.1', int(os.environ['PORT'])))
time.sleep(30)
"
sleep 30
"""
PATCHGRAD = """#!/bin/bash
for i in {1..100}; do [[ $(wc -l < "$SAID") -ge 2 ]] && break; sleep 0.05; done
printf '%q ' patchgrad ${RANK:+rank $RANK} "$@" "$RAY_AUTH_TOKEN" >> "$SAID"
echo >> "$SAID"
for i in {1..200}; do [[ $(grep -c ^patchgrad "$SAID") -ge ${WORLD_SIZE:-1} ]] && break; sleep 0.05; done
exit 7
"""


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["cluster", *words]) == 0
    return capsys.readouterr().out


def free() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def ran(script: str, place: Path, port: int) -> tuple[int, list[list[str]]]:
    """How a job ended, and what its machines were told in turn, each with the secret last."""
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "hostname": HOSTNAME, "ray": RAY, "patchgrad": PATCHGRAD}.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    own = {"PATH": f"{place}:{Path(sys.executable).parent}:{os.environ['PATH']}", "SAID": str(place / "said"), "PORT": str(port)}
    command = ["bash", "-c", script.replace("6379", str(port)).replace("29400", str(free()))]
    job = subprocess.Popen(command, env={**os.environ, **own, "SLURM_JOB_NODELIST": "both"}, start_new_session=True)
    try:
        ended = job.wait(60)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
    return ended, [shlex.split(line) for line in (place / "said").read_text().splitlines()]


def test_a_job_for_slurm_starts_the_cluster_and_then_the_run_and_ends_as_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--gpus", "8", "--time", "1:00:00", "--sbatch=--partition=big")
    script = printed(capsys, "slurm", "--nodes", "2", "--cells", "3", *more, "mine.toml", "--seed", "4")
    asked = {line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")}
    assert {"--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8", "--time=1:00:00", "--requeue", "--partition=big"} <= asked
    port = free()
    ended, lines = ran(script, tmp_path, port)
    assert ended == 7, "the job ends as its run does"
    assert len({line.pop() for line in lines} - {""}) == 1, "all have one secret"
    head, join = sorted(lines[:2], key=lambda line: "--address" in line)
    cells, last = ["--resources", '{"cells": 3}'], ["--disable-usage-stats", "--block"]
    assert head == ["ray", "start", "--head", "--port", str(port), *cells, *NO_GPUS, *last, "--node-ip-address", "127.0.0.1"]
    assert join == ["ray", "start", "--address", f"127.0.0.1:{port}", *cells, *last], "it samples, and Ray finds its GPUs"
    run = ["mine.toml", "--seed", "4", "--run", "runs/mine", "--resume", "--cluster", f"127.0.0.1:{port}"]
    assert lines[2] == ["patchgrad", "train", *run], "the run begins when the others are there"


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_job_for_slurm_starts_a_rank_for_each_gpu_of_the_machines_that_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--nodes", "2", "--trainers", "2", "--gpus", "2", "--cells", "3", "mine.toml", "--name", "two words")
    port = free()
    _, lines = ran(printed(capsys, "slurm", *words), tmp_path, port)
    told = sorted(line[:-1] for line in lines if line[0] == "patchgrad")
    run = ["train", "mine.toml", "--name", "two words", "--run", "runs/mine", "--resume", "--cluster", f"127.0.0.1:{port}"]
    assert told == [["patchgrad", "rank", str(rank), *run] for rank in range(4)]


def test_ray_has_the_gpus_of_those_machines_alone_that_do_not_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "slurm", "--nodes", "5", "--trainers", "2", "--gpus", "8", "--cells", "3", "mine.toml")
    told = [where(line) for line in script.splitlines() if "ray start" in line]
    assert told == [("$head", True), ("${machines[*]:1:1}", True), ("${machines[*]:2:3}", False)]


def where(line: str) -> tuple[str, bool]:
    """Which machines a line of the script starts Ray on, and whether they keep their GPUs from it."""
    words = shlex.split(line)
    (machines,) = [word.partition("=")[2] for word in words if word.startswith("--nodelist=")]
    return machines.removeprefix("$(IFS=,; echo ").removesuffix(")").strip('"'), NO_GPUS[0] in words


def test_a_job_for_kubernetes_has_a_pod_for_the_run_and_one_for_each_other_machine(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("kuberay", "--nodes", "3", "--cells", "5", "--gpus", "2", "--image", "mine:1", "--claim", "runs", "smoke", "--run", "runs/a")
    job = json.loads(printed(capsys, *words))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["spec"]["entrypoint"] == "cd /runs && patchgrad train smoke --run runs/a --resume --cluster auto"
    cluster = job["spec"]["rayClusterSpec"]
    hosts = cluster["workerGroupSpecs"][0]
    assert [hosts[name] for name in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 2]
    assert json.loads(shlex.split(json.loads(hosts["rayStartParams"]["resources"]).join("''"))[0]) == {"cells": 5}
    pods = [group["template"]["spec"]["containers"][0] for group in (cluster["headGroupSpec"], hosts)]
    assert [pod["resources"]["limits"]["nvidia.com/gpu"] for pod in pods] == ["2", "2"]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-gpus"] == "0", "the pod's GPUs are the trainer's"
    assert "num-gpus" not in hosts["rayStartParams"]
    assert [pod["env"] for pod in pods] == [[{"name": "RAY_memory_monitor_refresh_ms", "value": "0"}]] * 2
    assert pods[1]["securityContext"] == {"procMount": "Unmasked"}
    *_, ends = pods[1]["lifecycle"]["preStop"]["exec"]["command"]
    assert ends == "patchgrad cluster leave --seconds 30; ray stop"
    assert hosts["template"]["spec"]["terminationGracePeriodSeconds"] == 60


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_ray_is_started_on_a_machine_as_by_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`head` and `join` run the `ray` beside Python; a double says what it was given."""
    (tmp_path / "ray").write_text('#!/bin/bash\necho "$RAY_AUTH_MODE $RAY_memory_monitor_refresh_ms $*" >> "$SAID"\n')
    (tmp_path / "ray").chmod(0o755)
    (tmp_path / "python").touch()
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    for words in (
        ["head", "--cells", "2"],
        ["join", "10.0.0.1:6379", "--cells", "3"],
        ["join", "10.0.0.1:6379", "--cells", "3", "--trains"],
    ):
        assert main(["cluster", *words]) == 0
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    assert main(["cluster", "join", "10.0.0.1:6379", "--cells", "3"]) == 0
    join = 'start --address 10.0.0.1:6379 --resources {"cells": 3}'
    assert (tmp_path / "said").read_text().splitlines() == [
        "token 0 get-auth-token --generate",
        'token 0 start --head --port 6379 --resources {"cells": 2} --num-gpus 0 --disable-usage-stats',
        f"token 0 {join} --disable-usage-stats",
        f"token 0 {join} --num-gpus 0 --disable-usage-stats",
        f"token 100 {join} --disable-usage-stats",
    ]


AWS = ("--provider", '{"type": "aws", "region": "eu-west-1"}')


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
@pytest.mark.parametrize("provider", [AWS, ("--provider", '{"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2"]}')])
def test_a_cluster_for_rays_launcher_has_its_schema_and_hosts_with_cells(
    provider: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    origin = getattr(find_spec("ray"), "origin", "")  # imported here, Ray would not read what later tests set for it
    nodes = ("--head", '{"InstanceType": "m7i.large"}', "--host", '{"InstanceType": "c7i.large"}', "--setup", "pip install patchgrad")
    gpus = ("--nodes", "3", "--cells", "5", "--gpus", "2")
    assert main(["cluster", "up", *gpus, *provider, *nodes, "mine.toml", "--run", "runs/a"]) == 0
    said = capsys.readouterr()
    cluster = json.loads(said.out)
    jsonschema.validate(cluster, json.loads((Path(str(origin)).parent / "autoscaler" / "ray-schema.json").read_text()))
    host = cluster["available_node_types"]["host"]
    assert (host["resources"], host["min_workers"], host["node_config"]) == ({"cells": 5, "GPU": 2}, 2, {"InstanceType": "c7i.large"})
    assert cluster["available_node_types"]["head"]["resources"] == {"GPU": 0}, "Ray heeds this before the head's own command"
    begins = [shlex.split(cluster[f"{who}_start_ray_commands"][-1]) for who in ("head", "worker")]
    assert [line[line.index("--resources") + 1] for line in begins] == ['{"cells": 0}', '{"cells": 5}']
    assert all(
        'RAY_memory_monitor_refresh_ms="${RAY_memory_monitor_refresh_ms:-0}"' in cluster[f"{who}_start_ray_commands"][-1]
        for who in ("head", "worker")
    )
    assert [NO_GPUS[0] in line for line in begins] == [True, False]
    assert begins[1][begins[1].index("--address") + 1] == "$RAY_HEAD_IP:6379"
    assert "ray exec FILE --tmux 'patchgrad train mine.toml --run runs/a --resume --cluster auto'" in said.err
    assert cluster["file_mounts"]["~/mine.toml"] == "mine.toml"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("up", "--nodes", "1", "--cells", "3", *AWS, "smoke"), "--nodes must be at least 2"),
        (("up", "--nodes", "2", "--cells", "3", "--provider", "aws", "smoke"), "--provider is no JSON"),
        (("up", "--nodes", "2", "--cells", "3", "--provider", "[]", "smoke"), "it has to be an object"),
        (("up", "--nodes", "2", "--cells", "3", "--provider", "{}", "smoke"), "--provider has no type"),
        (("slurm", "--nodes", "2", "--cells", "3"), "name a recipe"),
        (("slurm", "--nodes", "0", "--cells", "3", "smoke"), "--nodes and --cells must be at least 1"),
        (("slurm", "--nodes", "2", "--cells", "3", "smoke", "--cluster", "auto"), "leave --cluster away"),
        (("slurm", "--nodes", "2", "--trainers", "3", "--cells", "3", "smoke"), "--trainers is 3, and of 2 machines 1 to 2 may train"),
        (("kuberay", "--nodes", "1", "--cells", "3", "--image", "a", "--claim", "b", "smoke"), "--nodes must be at least 2"),
    ],
)
def test_a_job_that_cannot_be_is_refused_in_a_sentence(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", *words]) == 2
    assert told in capsys.readouterr().err
