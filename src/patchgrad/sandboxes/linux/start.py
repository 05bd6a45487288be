"""The first words of an interpreter that has none of our packages: where the modules of this folder and of a backend lie."""

from __future__ import annotations

from collections.abc import Mapping

_CODE = """import sys, types
for name, folder in {folders!r}.items():
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder]
from patchgrad.sandboxes.{module} import main
main({arguments})
"""


def code(folders: Mapping[str, str], module: str, arguments: str) -> str:
    """A program that calls `main` of a module with these arguments, which are source text.

    `folders` says where packages lie: `{"linux": "/run/cell/lib/linux", "bwrap": ...}`, `bwrap.zygote` being a module of one of them.
    """
    packages = {"patchgrad": "", "patchgrad.sandboxes": ""} | {f"patchgrad.sandboxes.{name}": folder for name, folder in folders.items()}
    return _CODE.format(folders=packages, module=module, arguments=arguments)
