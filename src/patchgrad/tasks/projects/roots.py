"""Where modules are imported from: what pytest and the build back end are told of it, and what the tests' own imports show.

A repository of several projects (a monorepo) has such a folder for each of them, as in `packages/alpha/src`.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from patchgrad.tasks.projects.layout import NO_MODULES
from patchgrad.tasks.projects.project import below

PROJECT_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([A-Za-z_]\w*)|import[ \t]+([\w., \t]+))", re.MULTILINE)


def stated(tool: Mapping[str, Any]) -> list[str]:
    """The folders that the tables of a `pyproject.toml` name, whichever back end they are for: as they stand there, in no order of worth.

    `{"setuptools": {"package-dir": {"": "lib"}}}` -> `["lib"]`, `{"poetry": {"packages": [{"include": "box", "from": "code"}]}}` ->
    `["code"]`, `{"hatch": {"build": {"targets": {"wheel": {"packages": ["python/box"]}}}}}` -> `["python"]`.
    """
    setuptools, hatch = _table(tool, "setuptools"), _table(tool, "hatch", "build")
    wheel, find = _table(hatch, "targets", "wheel"), _table(setuptools, "packages", "find")
    sources = wheel.get("sources", hatch.get("sources", ()))
    found: list[object] = [*of_packages(_table(setuptools, "package-dir")), *_words(find.get("where"))]
    found += [row.get("from") for row in _rows(_table(tool, "poetry").get("packages"))]
    found += [*_words(sources), *_words(hatch.get("dev-mode-dirs"))]
    for packages in (wheel.get("packages"), _table(tool, "scikit-build", "wheel").get("packages")):
        found += [str(PurePosixPath(path).parent) for path in _words(packages)]
    found += [_table(tool, "pdm", "build").get("package-dir"), _table(tool, "pdm").get("package-dir")]
    found += [_table(tool, "uv", "build-backend").get("module-root"), _table(tool, "maturin").get("python-source")]
    return [path for path in found if isinstance(path, str)]


def of_packages(folders: Mapping[str, object]) -> list[str]:
    """Roots by setuptools' table of packages: `{"": "lib", "box": "code/box", "other": "strange"}` -> `["lib", "code"]`."""
    found = []
    for name, path in folders.items():
        tail = name.replace(".", "/")
        plain = _plain(str(path))
        if not name:
            found.append(plain)
        elif plain == tail or plain.endswith(f"/{tail}"):
            found.append(plain.removesuffix(tail).rstrip("/") or ".")
    return found


def inside(paths: Iterable[str], files: Collection[str], above: str = "") -> tuple[str, ...]:
    """Those that are folders of the tree below `above`, each once and as it is named there; the top itself is none.

    `inside(["./src/", "../x", "."], ["a/src/box.py"], "a")` -> `("a/src",)`.
    """
    found = (_plain(f"{above}/{path}") for path in paths if not path.startswith(("/", "~")))
    good = [path for path in found if path and ".." not in path.split("/") and any(name.startswith(f"{path}/") for name in files)]
    return tuple(dict.fromkeys(good))


def shown(files: Mapping[str, bytes], tests: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    """The folders beside the `known` that hold what the tests import, of several the one that lies nearest to a test.

    A folder that is a package itself holds parts of it, and examples and vendored copies are nobody's modules.
    """
    homes: dict[str, set[str]] = defaultdict(set)
    for path in files:
        parts = PurePosixPath(path).parts
        name = parts[-1].removesuffix(".py") if parts[-1] != "__init__.py" else "".join(parts[-2:-1])
        root = parts[:-1] if parts[-1] != "__init__.py" else parts[:-2]
        if path.endswith(".py") and not below(path, tests) and NO_MODULES.isdisjoint(root) and name not in sys.stdlib_module_names:
            homes[name].add("/".join(root))
    found: dict[str, None] = {}
    for path in sorted(path for path in files if path.endswith(".py") and below(path, tests)):
        above = {"" if str(folder) == "." else str(folder) for folder in PurePosixPath(path).parents}
        for name in _imports(files[path]):
            if any(_has(files, folder, name) for folder in (*above, *known, *found)):
                continue
            roots = [root for root in homes.get(name, ()) if not _in_package(root, files)]
            near = sorted(roots, key=lambda root: (-_shared(root, path), root))
            if near and (len(near) == 1 or _shared(near[0], path) > _shared(near[1], path)):
                found[near[0]] = None
    return tuple(found)


def every_project(files: Iterable[str]) -> set[str]:
    """All folders but the top that say what they are to a build."""
    return {str(path.parent) for path in map(PurePosixPath, files) if path.name in PROJECT_FILES and len(path.parts) > 1}


def projects(roots: Iterable[str], files: Collection[str]) -> tuple[str, ...]:
    """The nearest folder above each of these that says what it is to a build, but for the top: `packages/alpha/src` -> `packages/alpha`."""
    found: dict[str, None] = {}
    for root in roots:
        above = [str(folder) for folder in (PurePosixPath(root), *PurePosixPath(root).parents)][:-1]
        found |= dict.fromkeys([folder for folder in above if any(f"{folder}/{name}" in files for name in PROJECT_FILES)][:1])
    return tuple(found)


def _imports(source: bytes) -> set[str]:
    """The first names of what a source imports: `from box.core import x`, `import six, os.path` -> box, six, os."""
    found = _IMPORT.findall(source.decode(errors="replace"))
    listed = [part.split()[0].split(".")[0] for _, line in found for part in line.split(",") if part.split()]
    return {name for name, _ in found if name} | set(listed)


def _has(files: Collection[str], folder: str, name: str) -> bool:
    top = f"{folder}/" if folder else ""
    return f"{top}{name}.py" in files or f"{top}{name}/__init__.py" in files


def _in_package(root: str, files: Collection[str]) -> bool:
    return any(f"{folder}/__init__.py" in files for folder in (root, *PurePosixPath(root).parents))


def _shared(root: str, path: str) -> int:
    """How many folders from the top on two paths have in common."""
    count = 0
    for one, other in zip(root.split("/"), path.split("/"), strict=False):
        if one != other:
            break
        count += 1
    return count


def _plain(path: str) -> str:
    plain = str(PurePosixPath(path)).strip("/")
    return "" if plain == "." else plain


def _table(given: object, *names: str) -> Mapping[str, Any]:
    for name in names:
        given = given.get(name) if isinstance(given, Mapping) else None
    return given if isinstance(given, Mapping) else {}


def _words(given: object) -> list[str]:
    """The texts of a list, the keys of a table, or a text alone."""
    return [given] if isinstance(given, str) else [word for word in given if isinstance(word, str)] if isinstance(given, Iterable) else []


def _rows(given: object) -> list[Mapping[str, Any]]:
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []
