"""What Harbor runs its tasks in where no engine of containers can fetch an image: bubblewrap, by the plug point that Harbor has for it.

It does what the task's `Dockerfile` says, except for the image and its packages, which come from a registry: the Python that is named has
pytest. Beside it stands an agent that cheats.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import tarfile
from pathlib import Path

from harbor.agents.nop import NopAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

PLACES = ("testbed", "tests", "solution", "logs", "tmp")
FETCHED = ("apt-get", "pip install")


class Bubblewrap(BaseEnvironment):  # type: ignore[misc]
    """A root of its own, without a network."""

    def __init__(self, *words: object, python: str, **options: object) -> None:
        super().__init__(*words, **options)
        self._root, self._python = self.trial_paths.trial_dir / "root", Path(python)

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        if not (self.environment_dir / "Dockerfile").is_file():
            raise FileNotFoundError(self.environment_dir / "Dockerfile")

    async def start(self, force_build: bool) -> None:
        for place in (*PLACES, "logs/agent", "logs/verifier", "logs/artifacts"):
            (self._root / place).mkdir(parents=True, exist_ok=True)
        for line in (self.environment_dir / "Dockerfile").read_text().splitlines():
            await self._obey(*line.split(maxsplit=1))

    async def _obey(self, word: str, rest: str) -> None:
        if word == "ADD":
            with tarfile.open(self.environment_dir / rest.split()[0]) as archive:
                archive.extractall(self._place(rest.split()[1]), filter="data")
        elif word == "COPY":
            await self.upload_file(self.environment_dir / rest.split()[0], rest.split()[1])
        elif word == "RUN" and not any(fetched in rest for fetched in FETCHED):
            done = await self.exec(shlex.join(json.loads(rest)))
            if done.return_code:
                raise RuntimeError(f"{rest}: {done.stdout}")
        elif word not in ("FROM", "WORKDIR", "RUN"):
            raise NotImplementedError(word)

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self._root)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        host = [
            word for path in Path("/").iterdir() if path.name not in (*PLACES, "proc", "dev") for word in ("--ro-bind", *[str(path)] * 2)
        ]
        own = [word for place in PLACES for word in ("--bind", str(self._root / place), f"/{place}")]
        python = self._python.parents[1]
        told = {"PATH": f"{self._python.parent}:/usr/bin:/bin", "HOME": "/tmp", **(self._merge_env(env) or {})}
        process = await asyncio.create_subprocess_exec(
            *("bwrap", "--unshare-all", "--die-with-parent", *host, "--proc", "/proc", "--dev", "/dev", *own),
            *("--ro-bind", str(python), str(python), "--chdir", cwd or "/testbed"),
            *("bash", "-c", command),
            env=told,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(stdout=said.decode(errors="replace"), return_code=process.returncode)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copy(source_path, self._place(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._place(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._place(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._place(source_dir), target_dir, dirs_exist_ok=True)

    def _place(self, path: str) -> Path:
        return Path(self._root, path.lstrip("/"))


class Forger(NopAgent):  # type: ignore[misc]
    """Leaves a test that holds in the place of the hidden one, and modules that would be taken for the judge."""

    @staticmethod
    def name() -> str:
        return "forger"

    async def run(self, instruction: str, environment: BaseEnvironment, context: object) -> None:
        await environment.exec(
            "echo 'def test_total(): pass' > test_shop.py; echo 'raise SystemExit(0)' | tee pytest.py patchgrad_verify.py conftest.py"
        )
