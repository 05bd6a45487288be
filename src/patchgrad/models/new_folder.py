"""A folder that is there when it is whole."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchgrad.errors import ConfigError


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which has the name `out` once it is filled; nothing is left where that fails.

    Raises `ConfigError` for a name that is there already.
    """
    refuse(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        yield work
        work.chmod(0o755)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def refuse(out: Path) -> None:
    """`ConfigError` where there is something already: asked before what takes long."""
    if out.exists():
        raise ConfigError(f"{out} is there already: name another folder")
