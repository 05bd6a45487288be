"""Sandboxes in containers, through Docker's protocol: one container an episode, one image a task."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from patchgrad.contracts import Capabilities, Result, Sandbox
from patchgrad.errors import MissingDependency, SandboxFault, SandboxLost, TaskError
from patchgrad.grading_plugin import FILES, FOLDER
from patchgrad.sandboxes.admission import Admission
from patchgrad.sandboxes.archives import archive, preparation, root_key, undigested
from patchgrad.sandboxes.containers import ENGINES
from patchgrad.sandboxes.folders import found, shown
from patchgrad.sandboxes.linux.answers import Standing
from patchgrad.sandboxes.linux.bounds import TOLD, Unkept
from patchgrad.sandboxes.linux.shell import first_commit
from patchgrad.sandboxes.linux.shell import limits as ulimits
from patchgrad.sandboxes.linux.tree import READ_CAP
from patchgrad.sandboxes.oci import states
from patchgrad.sandboxes.oci.shell import PLUGIN, Shell, once
from patchgrad.sandboxes.owners import lives, owner
from patchgrad.values import Limits, Repository, Snapshot, Task

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

T = TypeVar("T")
LABEL = "patchgrad"
_READ = """
[ -e "$1" ] || exit 2; [ -d "$1" ] && exit 21; [ -f "$1" ] || exit 13
head -c "$2" < "$1" >&3
"""
_FILE = '[ -e "$1" ] || exit 2; [ -f "$1" ] || exit 13; case "$(readlink -f -- "$1")" in /testbed/*) ;; *) exit 13 ;; esac'
_WRITE = 'mkdir -p "$(dirname "$1")" && { [ -d "$1" ] && exit 21; cat > "$1"; }'


class OciSandboxes:
    """Containers of a running engine; `image` is what archive tasks are unpacked in: it needs bash, git, tar, Python and pytest.

    A task's repository is unpacked, set up and committed once, as an image of its own. What `cells` containers may hold is bounded by the
    engine; the disk is not, so a recipe that requires that refuses this backend. Limits on time count the wall.

    All containers, those that grade included, have these `folders` of the engine's host at the same path, read-only (`sandboxes.folders`).

        sandboxes = OciSandboxes("registry.example/python-with-pytest@sha256:...")
    """

    def __init__(
        self,
        image: str = "",
        cells: int = 32,
        socket: str = "",
        options: Mapping[str, Any] | None = None,
        *,
        folders: Sequence[str] = (),
    ) -> None:
        self._image, self._cells, self._socket, self._options = image, cells, socket, dict(options or {})
        self._folders = shown(folders)
        self._threads = ThreadPoolExecutor(2 * cells, "oci")
        self._free, self._door = asyncio.Semaphore(cells), Admission()
        self._client: DockerClient | None = None
        self._roots: dict[str, tuple[str, states.Base]] = {}
        self._making: dict[str, asyncio.Lock] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """On another machine it is one with nothing open."""
        return partial(OciSandboxes, self._image, self._cells, self._socket, self._options, folders=self._folders), ()

    def probe(self) -> Capabilities:
        """What is enforced; raises `MissingDependency` without docker-py or an engine that answers.

        `ConfigError` for a folder that is not there, where the engine is on this host; another one refuses it itself.
        """
        if self._address().startswith("unix:"):
            found(self._folders)
        name = self._connect().version()["Platform"]["Name"] if "Platform" in self._connect().version() else "engine"
        notes = (
            f"{name} over {self._address()}",
            "the disk is bounded by the engine, not by the task",
            "time limits count the wall",
            "no file can be sealed",
        )
        return Capabilities("oci", True, True, True, False, True, True, notes)

    def _address(self) -> str:
        if self._socket or os.environ.get("DOCKER_HOST"):
            return self._socket or os.environ["DOCKER_HOST"]
        listening = [path for path in ENGINES if os.path.exists(path)]
        if not listening:
            raise MissingDependency(
                f"no container engine answers: none of {', '.join(ENGINES)} is there; "
                "start Docker or `podman system service`, or set DOCKER_HOST"
            )
        return f"unix://{listening[0]}"

    def _connect(self) -> DockerClient:
        if self._client is None:
            try:
                import docker
            except ImportError as error:
                raise MissingDependency("the oci sandbox needs docker-py: pip install 'patchgrad[docker]'") from error
            try:
                self._client = docker.DockerClient(self._address(), timeout=180, max_pool_size=2 * self._cells)
                self._client.ping()
                _sweep(self._client, lambda name: not lives(name))  # what a killed process left
            except docker.errors.DockerException as error:
                self._client = None
                raise MissingDependency(f"the container engine at {self._address()} does not answer: {error}") from error
        return self._client

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """A blocking call to the engine; its errors are faults of the sandbox."""
        from docker.errors import DockerException

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*arguments))
        except (DockerException, OSError) as error:
            raise SandboxFault(f"the container engine refused: {error}") from error

    async def open(self, task: Task, state: Snapshot | None = None) -> OciSandbox:
        """A container of the task's image, in `state` where one is given."""
        await self._free.acquire()
        try:
            await self._door.enter(task.limits.memory)
        except BaseException:
            self._free.release()
            raise
        container = None
        try:
            container, base = await self.start(task)
            if state is not None:
                await self.call(states.apply, container, state.entries)
        except BaseException:
            if container is not None:
                await self.call(_remove, container)
            self.release()
            raise
        return OciSandbox(self, container, base, task, Standing.at(state))

    async def start(self, task: Task) -> tuple[Container, states.Base]:
        """A fresh container of the task's image, and what that image holds."""
        image, base = await self._root(task)
        return await self.call(self._start, image, task.limits), base

    def release(self) -> None:
        """One sandbox is gone."""
        self._door.leave()
        self._free.release()

    def _start(self, image: str, limits: Limits) -> Container:
        from docker.types import Mount

        mounts = [Mount(folder, folder, type="bind", read_only=True) for folder in self._folders]
        options = {**self._options, **({"mounts": [*mounts, *self._options.get("mounts", ())]} if mounts else {})}
        container: Container = self._connect().containers.run(
            image,
            ["sleep", "infinity"],
            entrypoint=[],
            detach=True,
            init=False,
            network_mode="none",
            mem_limit=limits.memory,
            memswap_limit=limits.memory,
            pids_limit=limits.processes + 8,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            labels={LABEL: owner()},
            working_dir="/testbed",
            **{"tmpfs": {"/tmp": f"size={limits.disk},mode=1777"}, **options},
        )
        return container

    async def _root(self, task: Task) -> tuple[str, states.Base]:
        key = root_key(task)
        async with self._making.setdefault(key, asyncio.Lock()):
            if key not in self._roots:
                self._roots[key] = await self._make(task)
        return self._roots[key]

    async def _make(self, task: Task) -> tuple[str, states.Base]:
        repository = task.repository
        if repository.kind == "git":
            raise TaskError(f"task {task.id!r} has a repository of kind 'git'; the oci sandbox needs an archive or an image")
        if repository.kind == "image" and not repository.digest:
            raise TaskError(undigested(task))
        if repository.kind == "image":
            image = await self.call(self._pulled, repository)
        elif not self._image:
            raise TaskError(f"task {task.id!r} is an archive, and no image was named to unpack it in: OciSandboxes(image=...)")
        elif task.packages:
            raise TaskError(
                f"task {task.id!r} needs {', '.join(task.packages)}, and a container has what its image has: open it with bwrap"
            )
        else:
            image = self._image
        container = await self.call(self._start, image, Limits())
        try:
            await self.call(_bring_plugin, container)
            if repository.kind == "archive":
                await self.call(_unpack, container, await asyncio.to_thread(archive, task))
            for command in (*preparation(task), f"rm -rf .git\n{first_commit(repository.kind == 'archive')}"):  # a history may hold the fix
                done = await self.call(once, container, ["bash", "-c", command], {}, b"", 600.0, 1 << 14)
                if done.exit_code != 0:
                    raise TaskError(f"task {task.id!r}: set-up command failed: {command.strip()[:200]!r}: {done.output[-500:]}")
            made = await self.call(lambda: container.commit(pause=False, changes=[f"LABEL {LABEL}={owner()}"]))
            return str(made.id), await self.call(states.base, container)
        finally:
            await self.call(_remove, container)

    def _pulled(self, repository: Repository) -> str:
        """The id of an image that the engine has, under its id or under the digest of its manifest, or can fetch."""
        import docker

        client, named = self._connect(), f"{repository.location}@{repository.digest}"
        for name in (repository.digest, named):
            with suppress(docker.errors.ImageNotFound):
                return str(client.images.get(name).id)
        return str(client.images.pull(named).id)

    async def close(self) -> None:
        """Removes every container and image of this process."""
        if self._client is not None:
            client, self._client = self._client, None
            await asyncio.to_thread(_sweep, client, lambda name: name == owner())
            client.close()
        self._threads.shutdown(wait=False)


class OciSandbox(Sandbox):
    """One container. `snapshot` takes `/testbed`; `exec` past its limit ends every process, the shell included."""

    def __init__(self, pool: OciSandboxes, container: Container, base: states.Base, task: Task, at: Standing) -> None:
        self._pool, self._container, self._base, self._task, self._limits = pool, container, base, task, task.limits
        self._at = at
        self._shell: Shell | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def run(self, command: str, timeout: float | None = None) -> Result:
        async with self._turn:
            seconds = self._limits.command_seconds if timeout is None else timeout
            return await self._call(self._run, command, seconds)

    def _run(self, command: str, seconds: float) -> Result:
        if self._shell is None:
            limits = ulimits(self._limits.processes, self._limits.memory, self._limits.disk)
            self._shell = Shell(self._container, self._at.directory, limits, self._at.shell)
        result = self._shell.run(command, seconds, self._limits.output)
        self._at = Standing(result.directory, self._shell.script)
        if result.state != "ok":
            self._end()
        return result

    async def exec(
        self,
        argv: Sequence[str],
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Result:
        async with self._turn:
            seconds = self._limits.command_seconds if timeout is None else timeout
            result = await self._call(once, self._container, argv, env or {}, stdin, seconds, self._limits.output)
            if result.state == "timeout":
                await self._call(self._end)
            return result

    def _end(self) -> None:
        """Ends every process but the container's first; the next command has a new shell in the same folder.

        Where there is no room for the process that would do it, the container starts anew, and `/tmp` is empty.
        """
        if self._shell is not None:
            self._shell.close()
            self._shell = None
        self._at = Standing(self._at.directory)
        if self._code("kill -9 -1") == 137 and self._code("exit 7") == 7:  # it ends itself with all others, and then there is room again
            return
        self._container.restart(timeout=0)
        if not any(self._code("exit 7") == 7 for _ in range(20)):
            raise SandboxFault("the container did not come back after its processes were ended")

    def _code(self, script: str) -> int | None:
        from docker.errors import DockerException

        try:
            return once(self._container, ["bash", "-c", script], {}, b"", 10.0, 1 << 10).exit_code
        except (DockerException, OSError, SandboxFault):
            return None

    async def read(self, path: str) -> bytes:
        """A regular file of at most 64 MiB; `FileNotFoundError`, `IsADirectoryError` or `PermissionError` otherwise."""
        done = await self._script(_READ, path, b"")
        code = errno.EFBIG if len(done.report) > READ_CAP else done.exit_code
        if code:
            raise OSError(code, os.strerror(code), path)
        return done.report

    async def write(self, path: str, content: bytes) -> None:
        """Writes a regular file and makes the folders above it."""
        done = await self._script(_WRITE if content else _WRITE.replace("cat >", ": >"), path, content)
        if done.exit_code:
            raise OSError(21 if done.exit_code == 21 else 5, done.output.strip() or "not written", path)

    async def _script(self, script: str, path: str, stdin: bytes) -> Result:
        argv = ["bash", "-c", script, "bash", path, str(READ_CAP + 1)]
        async with self._turn:
            return await self._call(once, self._container, argv, {}, stdin, 120.0, 1 << 10, READ_CAP + 1)

    async def seal(self, paths: Iterable[str]) -> None:
        """Only looks whether they are there: a container's user owns its files, and the engine mounts nothing into one that runs."""
        for path in paths:
            if code := (await self._script(_FILE, path, b"")).exit_code:
                raise OSError(code, os.strerror(code), path)

    async def snapshot(self) -> Snapshot:
        """The state of `/testbed`, under the address that any other backend gives it.

        `SandboxLost` where it would take more than the task's disk when it is laid out again, or cannot be read.
        """
        async with self._turn:
            try:
                entries = await self._call(states.changes, self._container, self._base, self._limits.disk)
                files, processes = await self._call(states.around, self._container, self._shell.mark if self._shell else "\n")
            except Unkept as error:
                raise SandboxLost(f"{TOLD}{error}.") from error
        return replace(self._at, processes=tuple(processes)).snapshot(entries, files)

    async def fork(self) -> OciSandbox:
        """Another container with these files, and a shell like this one's."""
        return await self._pool.open(self._task, await self.snapshot())

    async def reset(self) -> None:
        """A fresh container in place of this one."""
        async with self._turn:
            await self._call(self._end)
            old = self._container
            self._container, _ = await self._pool.start(self._task)
            self._at = Standing()
            await self._call(_remove, old)

    async def close(self) -> None:
        """Removes the container; closing twice is no error."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._shell is not None:
                self._shell.close()
            with suppress(SandboxFault):
                await self._pool.call(_remove, self._container)
        finally:
            self._pool.release()

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._closed:
            raise SandboxFault("the sandbox is closed")
        return await self._pool.call(function, *arguments)


def _remove(container: Container) -> None:
    container.remove(force=True, v=True)


def _sweep(client: DockerClient, whose: Callable[[str], bool]) -> None:
    """Removes the containers and images of those owners."""
    for container in client.containers.list(all=True, filters={"label": LABEL}):
        if whose(container.labels.get(LABEL, "")):
            with suppress(Exception):
                container.remove(force=True, v=True)
    for image in client.images.list(filters={"label": LABEL}):
        if whose(image.labels.get(LABEL, "")):
            with suppress(Exception):
                client.images.remove(str(image.id), force=True)


def _bring_plugin(container: Container) -> None:
    once(container, ["bash", "-c", f"mkdir -p {PLUGIN}"], {}, b"", 60.0, 1 << 10)
    container.put_archive(PLUGIN, states.pack([(name, (0o100644, (FOLDER / name).read_bytes())) for name in FILES]))


def _unpack(container: Container, archive: bytes) -> None:
    once(container, ["bash", "-c", "mkdir -p /testbed"], {}, b"", 60.0, 1 << 10)
    container.put_archive("/testbed", archive)
