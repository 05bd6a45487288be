"""print a job for Kubernetes: a RayJob of KubeRay's

The image has patchgrad, Ray and what sandboxes need. The run's folder is on the volume of a claim, and the job goes on with it where its
cluster is lost.

  patchgrad cluster kuberay --nodes 4 --cells 24 --image registry/mine:1 --claim runs mine.toml > job.json
  kubectl apply -f job.json
"""

from __future__ import annotations

import argparse

from patchgrad.cli.cluster import shared


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--image", required=True, help="the image of all pods")
    parser.add_argument("--claim", required=True, help="the claim of a volume, for the folders of runs")
    parser.add_argument("--ray-version", default="2.60.0", help="the Ray that the image has")
    shared.job(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from patchgrad.runs.launch import Job, kuberay

    job = Job(tuple(arguments.words), arguments.nodes, arguments.cells, arguments.gpus)
    print(kuberay(job, arguments.image, arguments.claim, arguments.ray_version), end="")
    return 0
