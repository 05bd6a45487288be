"""What starts a run on many machines: jobs for Slurm and Kubernetes and a file for Ray's launcher as text, and the commands of Ray.

Nothing is submitted here. A job that is queued again gives the same command, and goes on where it was (`--resume`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from patchgrad.errors import ConfigError
from patchgrad.rollouts.executors.hosts.links import CELLS, UNWATCHED

PORT = 6379
"""Where Ray's head listens unless something else is said."""

MEETING = 29400
"""Where torchrun's processes meet."""

GRACE = 60
"""Seconds that a pod of Kubernetes has from the word that it ends until it is killed."""


@dataclass(frozen=True, slots=True)
class Job:
    """`patchgrad train` with these words, on so many machines with so many GPUs each, which take `cells` attempts each at once.

    On the first `trainers` of them torchrun starts a rank of the trainer for each GPU, or one where there are none.
    Raises `ConfigError` without a recipe, or without the folder that the run is to have, which a job that is queued again needs.
    """

    words: tuple[str, ...]
    nodes: int
    cells: int
    gpus: int = 0
    trainers: int = 1
    name: str = "patchgrad"

    def __post_init__(self) -> None:
        if not self.words or self.words[0].startswith("-"):
            raise ConfigError(
                "name a recipe, or a TOML file, after the options of the job: patchgrad cluster slurm --nodes 2 --cells 8 mine.toml"
            )
        if self.nodes < 1 or self.cells < 1 or self.gpus < 0:
            raise ConfigError("--nodes and --cells must be at least 1, and --gpus at least 0.")
        if not 1 <= self.trainers <= self.nodes:
            raise ConfigError(f"--trainers is {self.trainers}, and of {self.nodes} machines 1 to {self.nodes} may train.")
        if "--cluster" in self.words:
            raise ConfigError("leave --cluster away: the job makes its cluster itself.")

    @property
    def train(self) -> tuple[str, ...]:
        """The command, which begins the run or goes on with it."""
        own = () if "--run" in self.words else ("--run", f"runs/{PurePosixPath(self.words[0]).stem}")
        return ("patchgrad", "train", *self.words, *own, *(() if "--resume" in self.words else ("--resume",)))


def start(port: int, cells: int, address: str = "", *, trains: bool = False) -> list[str]:
    """Ray's command for a machine that takes so many attempts: the head, or one that joins the head at an address.

    The GPUs of a machine that `trains` are the trainer's. Ray would give them to replicas of the policy, so it is told of none.
    """
    where = ["--address", address] if address else ["--head", "--port", str(port)]
    own = ["--num-gpus", "0"] if trains else []
    return ["ray", "start", *where, "--resources", json.dumps({CELLS: cells}), *own, "--disable-usage-stats"]


def slurm(job: Job, time: str = "", extra: Sequence[str] = ()) -> str:
    """A script for `sbatch`: Ray's head and the run on the first machine, hosts on all; `extra` are lines after `#SBATCH`.

    Where several machines train, torchrun runs on these, and the first of them is the run.
    """
    wanted = [
        f"--job-name={job.name}",
        f"--nodes={job.nodes}",
        "--ntasks-per-node=1",
        "--exclusive",
        *([f"--gpus-per-node={job.gpus}"] if job.gpus else []),
        *([f"--time={time}"] if time else []),
        "--requeue",
        "--open-mode=append",
        f"--output={job.name}-%j.log",
        *extra,
    ]
    head = shlex.join([*start(PORT, job.cells, trains=True), "--block"])
    others = _joins(job, 1, job.trainers, trains=True) + _joins(job, job.trainers, job.nodes, trains=False)
    return f"""#!/bin/bash
{chr(10).join(f"#SBATCH {line}" for line in wanted)}
# A job that is queued again goes on with its run. When this script ends, Slurm ends everything that it has started.
set -euo pipefail

machines=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${{machines[0]}}
for ip in $(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address); do [[ $ip == *.* ]] && break; done
address="$ip:{PORT}"
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN # so that nobody else can send work to these machines
{_exports()}

srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap {head} --node-ip-address "$ip" &
until (exec 3<>"/dev/tcp/$ip/{PORT}") 2>/dev/null; do sleep 1; done
{others}{_run(job)}
"""


def _exports() -> str:
    """A line for a shell, which leaves a user's own settings."""
    return "export " + " ".join(f'{name}="${{{name}:-{value}}}"' for name, value in UNWATCHED.items())


def _joins(job: Job, first: int, end: int, *, trains: bool) -> str:
    """The line of the script that has these machines join the head, if there are any."""
    if first == end:
        return ""
    join = shlex.join([*start(PORT, job.cells, "ADDRESS", trains=trains), "--block"]).replace("ADDRESS", '"$address"')
    return f"srun {_machines(first, end)} --overlap {join} &\n"


def _machines(first: int, end: int) -> str:
    """One task on each of these machines of the job."""
    count = end - first
    return f'--nodes={count} --ntasks={count} --nodelist="$(IFS=,; echo "${{machines[*]:{first}:{count}}}")"'


def _run(job: Job) -> str:
    """The line of the script that trains."""
    train = shlex.join(job.train)
    if job.trainers == 1:
        return f'srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap {train} --cluster "$address"'
    ranks = f'--nnodes {job.trainers} --nproc-per-node {max(1, job.gpus)} --node-rank "$SLURM_PROCID"'
    torchrun = f'exec torchrun {ranks} --master-addr "$0" --master-port {MEETING} --no-python -- "$@"'
    return f'srun {_machines(0, job.trainers)} --overlap bash -c {shlex.quote(torchrun)} "$ip" {train} --cluster "$address"'


def kuberay(job: Job, image: str, claim: str, version: str) -> str:
    """A RayJob for KubeRay as JSON, which `kubectl apply -f` takes: a pod for the head and the run, and one for each other machine.

    The run's folder is on the volume of a `claim`, which outlives them. GPUs of the head's pod are the trainer's. A cluster that is lost is
    made anew, and the run goes on. Sandboxes need user namespaces and a `/proc` that is not masked, so the pods of hosts ask for both. A
    pod that is to end, as its node is drained, leaves the cluster before (`patchgrad cluster leave`).
    """
    if job.nodes < 2:
        raise ConfigError("--nodes must be at least 2: the head's pod makes no attempts.")
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(job.gpus)}}} if job.gpus else {}
    runs = {"name": "runs", "persistentVolumeClaim": {"claimName": claim}}
    env = {"env": [{"name": name, "value": value} for name, value in UNWATCHED.items()]}
    first = {"name": "ray-head", "image": image, **env, **limits, "volumeMounts": [{"name": "runs", "mountPath": "/runs"}]}
    ends = f"patchgrad cluster leave --seconds {GRACE // 2}; ray stop"
    leaves = {"preStop": {"exec": {"command": ["/bin/sh", "-c", ends]}}}
    other = {"name": "ray-worker", "image": image, **env, **limits, "securityContext": {"procMount": "Unmasked"}, "lifecycle": leaves}
    hosts = {
        "groupName": "hosts",
        **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), job.nodes - 1),
        "rayStartParams": {"resources": json.dumps(json.dumps({CELLS: job.cells}))},  # for a shell, so in quotes of its own
        "template": {"spec": {"hostUsers": False, "terminationGracePeriodSeconds": GRACE, "containers": [other]}},
    }
    cluster = {
        "rayVersion": version,
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
            "template": {"spec": {"containers": [first], "volumes": [runs]}},
        },
        "workerGroupSpecs": [hosts],
    }
    spec = {
        "entrypoint": f"cd /runs && {shlex.join([*job.train, '--cluster', 'auto'])}",
        "backoffLimit": 3,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster,
    }
    return json.dumps({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": job.name}, "spec": spec}, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines of a cloud, or of a list: what Ray's launcher takes of their provider, and of the node of the head and of a host's.

    `Machines({"type": "aws", "region": "eu-west-1"}, {"InstanceType": "m7i.2xlarge"}, {"InstanceType": "c7i.8xlarge"}, "ubuntu", ())`.
    `setup` are commands that install what a machine lacks.
    """

    provider: Mapping[str, Any]
    head: Mapping[str, Any]
    host: Mapping[str, Any]
    user: str
    setup: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.provider.get("type"), str):
            raise ConfigError('--provider has no type: say which cloud it is, as in --provider \'{"type": "aws", "region": "eu-west-1"}\'')


def up(job: Job, machines: Machines) -> str:
    """A cluster for `ray up` as JSON, which is YAML too: a head that trains and makes no attempts, and hosts with their cells.

    All have the secret of the user who starts it, and the recipe's file, where that is named from here on.
    """
    if job.nodes < 2:
        raise ConfigError("--nodes must be at least 2: the head makes no attempts.")
    count = job.nodes - 1
    place = f"export RAY_AUTH_MODE=token; {_exports()}; "
    head = shlex.join(start(PORT, 0, trains=True)) + " --autoscaling-config=~/ray_bootstrap_config.yaml"
    host = shlex.join(start(PORT, job.cells, "ADDRESS")).replace("ADDRESS", f"$RAY_HEAD_IP:{PORT}")
    limits = {"min_workers": count, "max_workers": count}
    gpus = {"GPU": job.gpus} if job.gpus else {}  # named, so that Ray knows of them before a machine is there
    file = PurePosixPath(job.words[0])
    recipe = {f"~/{file}": str(file)} if file.suffix == ".toml" and not file.is_absolute() else {}
    cluster = {
        "cluster_name": job.name,
        "max_workers": count,
        "provider": machines.provider,
        "auth": {"ssh_user": machines.user},
        "available_node_types": {
            "head": {"resources": {"GPU": 0}, "node_config": machines.head},  # Ray heeds this before the head's own command
            "host": {"resources": {CELLS: job.cells, **gpus}, "node_config": machines.host, **limits},
        },
        "head_node_type": "head",
        "file_mounts": {"~/.ray/auth_token": "~/.ray/auth_token", **recipe},
        "setup_commands": list(machines.setup),
        "head_start_ray_commands": ["ray stop", place + head],
        "worker_start_ray_commands": ["ray stop", place + host],
    }
    return json.dumps(cluster, indent=2) + "\n"
