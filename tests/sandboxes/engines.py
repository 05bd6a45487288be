"""Real container engines, Podman with runc and Docker's own, started for tests on sockets of their own: the fixture `engine`."""

from __future__ import annotations

import gc
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patchgrad.packages.sites import ensure_site

CONFIGURATION = """
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
"""
ETC = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
    "etc/group": "root:x:0:\n",
    "opt/bin/python": f'#!/bin/sh\nexec {sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor} "$@"\n',
    "etc/gitconfig": "[user]\n\tname = agent\n\temail = agent@localhost\n[safe]\n\tdirectory = *\n",
}


def bare_image() -> bytes:
    """An image of a few folders and links; programs are mounted from the host, so that nothing is downloaded."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("usr", "etc", "tmp", "testbed", "proc", "sys", "dev", "run", "var", "root", "opt"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        for name, text in ETC.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return stream.getvalue()


@contextmanager
def podman(folder: Path) -> Iterator[Path]:
    """Podman's service with runc, and an image `bare`."""
    (folder / "containers.conf").write_text(CONFIGURATION)
    environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}
    call = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    made = [*call, "import", "-q", *changes(), str(folder / "image.tar"), "bare"]
    subprocess.run(made, env=environment, check=True, capture_output=True)
    socket = folder / "engine.sock"
    service = subprocess.Popen([*call, "system", "service", "--time=0", f"unix://{socket}"], env=environment)
    try:
        yield socket
    finally:
        service.terminate()
        service.wait()
        subprocess.run([*call, "rm", "-af"], env=environment, check=False, capture_output=True)
        subprocess.run(["umount", "-l", folder / "root" / "overlay"], check=False, capture_output=True)


@contextmanager
def dockerd(folder: Path) -> Iterator[Path]:
    """Docker's own engine, without a network of its own and so without the host's packet filter, and an image `bare`."""
    socket = folder / "engine.sock"
    call = ["dockerd", "--host", f"unix://{socket}", "--data-root", f"{folder}/root", "--exec-root", f"{folder}/run"]
    call += ["--pidfile", f"{folder}/pid", "--iptables=false", "--ip6tables=false", "--bridge=none"]
    with open(folder / "log", "wb") as log:
        service = subprocess.Popen(call, stdout=log, stderr=log)
    try:
        for _ in range(400):
            if socket.exists() or service.poll() is not None:
                break
            time.sleep(0.05)
        else:
            pytest.skip("dockerd did not start within 20 seconds")
        if service.poll() is not None:
            pytest.skip(f"dockerd cannot run here: {(folder / 'log').read_text()[-200:]}")
        client = pytest.importorskip("docker").DockerClient(f"unix://{socket}")
        client.api.import_image_from_file(str(folder / "image.tar"), repository="bare", changes=changes()[1::2])
        client.close()
        yield socket
    finally:
        service.terminate()
        service.wait()
        for left in Path("/proc/self/mountinfo").read_text().splitlines():
            if str(folder) in left:
                subprocess.run(["umount", "-l", left.split()[4]], check=False, capture_output=True)


def changes() -> list[str]:
    """What the image says of itself, in words for `import`."""
    return ["--change", "ENV PATH=/opt/bin:/usr/bin:/bin", "--change", f"ENV PYTHONPATH={ensure_site()}"]


ENGINES = {"podman": (podman, ("podman", "runc")), "docker": (dockerd, ("dockerd", "containerd"))}


@pytest.fixture(scope="session", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Arguments for `OciSandboxes` with an engine behind them. Its folder is no temporary one of pytest's: it has mounts in it."""
    if os.geteuid() != 0:
        pytest.skip("an engine is started as root")
    docker = pytest.importorskip("docker", reason="docker-py is not installed")
    start, programs_needed = ENGINES[request.param]
    if lacking := [name for name in programs_needed if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    try:
        (folder / "image.tar").write_bytes(bare_image())
        with start(folder) as socket:
            yield _tried(docker, socket)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tried(docker: Any, socket: Path) -> dict[str, Any]:
    for _ in range(200):
        if socket.exists():
            break
        time.sleep(0.05)
    mounts = {place: {"bind": place, "mode": "ro"} for place in {"/usr", sys.base_prefix, str(ensure_site())}}
    client = docker.DockerClient(f"unix://{socket}", timeout=60)
    try:
        client.containers.run("bare", "/bin/true", network_mode="none", volumes=mounts, remove=True)
    except docker.errors.DockerException as error:
        pytest.skip(f"the engine cannot run a container here: {error}")
    finally:
        client.close()
    return {"image": "bare", "cells": 4, "socket": f"unix://{socket}", "options": {"volumes": mounts}}
