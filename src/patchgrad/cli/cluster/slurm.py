"""print a job for Slurm: a cluster of Ray on its machines, and the run on the first

The job begins the run or goes on with it, so it may be queued again. What Slurm needs besides is said by --sbatch:

  patchgrad cluster slurm --nodes 4 --cells 24 mine.toml > job.sh
  patchgrad cluster slurm --nodes 16 --trainers 8 --gpus 8 --cells 32 --time 24:00:00 --sbatch=--partition=h200 mine.toml > job.sh
  sbatch job.sh
"""

from __future__ import annotations

import argparse

from patchgrad.cli.cluster import shared


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--time", default="", help="the job's limit, as Slurm writes it: 24:00:00")
    parser.add_argument(
        "--sbatch", action="append", default=[], metavar="LINE", help="another option of sbatch; may be given several times"
    )
    words = "machines that train, the first included: each has a rank of the trainer for each of its GPUs (default: 1)"
    parser.add_argument("--trainers", type=int, default=1, help=words)
    shared.job(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from patchgrad.runs.launch import Job, slurm

    job = Job(tuple(arguments.words), arguments.nodes, arguments.cells, arguments.gpus, arguments.trainers)
    print(slurm(job, arguments.time, arguments.sbatch), end="")
    return 0
