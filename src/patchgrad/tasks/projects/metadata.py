"""What a repository says of itself: name, version, licence, what it needs, how it wants pytest to collect."""

from __future__ import annotations

import codecs
import configparser
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import Any

from patchgrad.packages.sites import distribution
from patchgrad.tasks.projects.project import SUITES
from patchgrad.tasks.projects.roots import of_packages, stated
from patchgrad.tasks.projects.setup_py import Setup, read_setup

_KEPT = (
    "python_classes",
    "python_functions",
    "asyncio_mode",
    "asyncio_default_fixture_loop_scope",
    "usefixtures",
    "markers",
)
_TOML = ("pytest.toml", ".pytest.toml")
_MODE = re.compile(r"--import-mode[= ]+['\"]?(prepend|append|importlib)\b")
_TESTING = re.compile(r"test|dev|ci\b|check|all", re.IGNORECASE)
_LICENCES = (
    ("Apache-2.0", r"apache licen[cs]e\W+(version|v)?\W*2"),
    ("BSD-3-Clause", r"redistribution and use in source and binary forms(.|\n)*neither the name"),
    ("BSD-2-Clause", r"redistribution and use in source and binary forms"),
    ("MIT", r"permission is hereby granted, free of charge"),
    ("ISC", r"permission to use, copy, modify, and/?o?r? ?distribute this software for any"),
    ("MPL-2.0", r"mozilla public license\W+(version|v)?\W*2"),
    ("PSF-2.0", r"python software foundation license"),
    ("LGPL", r"gnu lesser general public license"),
    ("GPL", r"gnu general public license"),
    ("Unlicense", r"this is free and unencumbered software"),
)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The parts of it that matter here; empty where nothing is said.

    `paths` and `roots` are folders that modules are imported from, as pytest and as a build back end is told of them.
    """

    name: str = ""
    version: str = ""
    licence: str = ""
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    entry_points: str = ""
    suites: tuple[str, ...] = SUITES
    pytest: tuple[str, ...] = ()
    import_mode: str = ""
    paths: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


def read(files: Mapping[str, bytes]) -> Metadata:
    """From `PKG-INFO`, `pyproject.toml`, `setup.cfg`, `setup.py`, `tox.ini`, requirements files and licences, whichever there are."""
    headers = HeaderParser().parsestr(_text(files, "PKG-INFO"))
    pyproject, setup = _toml(_text(files, "pyproject.toml")), _ini(_text(files, "setup.cfg"))
    project = pyproject.get("project", {})
    poetry = pyproject.get("tool", {}).get("poetry", {})
    given = _given(files, pyproject, setup)
    own = setup["metadata"] if setup.has_section("metadata") else {}
    old = read_setup(_text(files, "setup.py"))
    return Metadata(
        str(headers["Name"] or project.get("name") or poetry.get("name") or own.get("name", "") or old.name),
        str(headers["Version"] or project.get("version") or poetry.get("version") or _plain_version(own.get("version", "")) or old.version),
        _licence(
            headers["License-Expression"] or _words(project.get("license")) or headers["License"] or own.get("license", "") or old.licence,
            files,
        ),
        _required(headers.get_all("Requires-Dist", []), project, setup, old, _built(files, "requires.txt")),
        tuple(dict.fromkeys([*_extras(files, headers.get_all("Requires-Dist", []), pyproject, setup), *old.extras])),
        _entry_points(files, pyproject, setup),
        _suites(given),
        tuple(_pytest(given)),
        _import_mode(given),
        _paths(given),
        (*stated(pyproject.get("tool", {})), *_folders(setup), *old.roots),
    )


def _required(headers: list[str], project: Mapping[str, Any], setup: configparser.ConfigParser, old: Setup, built: str) -> tuple[str, ...]:
    stated = setup["options"].get("install_requires", "") if setup.has_section("options") else ""
    lines = [line for line in map(str.strip, stated.splitlines()) if line and not line.startswith(("#", "file:"))]
    own = tuple(r for r in headers if "extra ==" not in r)
    told = _requirements(re.split(r"^\[", built, maxsplit=1, flags=re.MULTILINE)[0])  # before the first extra
    return own or tuple(project.get("dependencies", ())) or tuple(lines) or tuple(told) or old.requires


def _extras(
    files: Mapping[str, bytes], headers: list[str], pyproject: Mapping[str, Any], setup: configparser.ConfigParser
) -> Iterator[str]:
    """Requirements that are stated for tests or development, in no order of worth."""
    yield from (r.partition(";")[0].strip() for r in headers if "extra ==" in r)
    groups = [pyproject.get("project", {}).get("optional-dependencies", {}), pyproject.get("dependency-groups", {})]
    for group in groups:
        for name, requirements in group.items():
            if _TESTING.search(name):
                yield from (r.partition(";")[0].strip() for r in requirements if isinstance(r, str))
    if setup.has_section("options.extras_require"):
        for text in setup["options.extras_require"].values():
            yield from _requirements(text)
    for path, content in files.items():
        if path.count("/") < 2 and re.search(r"require.*\.(txt|in)$|requirements/.*\.(txt|in)$", path):
            yield from _requirements(_decoded(content))
    yield from _requirements(_built(files, "requires.txt"))
    tox = _ini(_text(files, "tox.ini"))
    if tox.has_section("testenv"):
        yield from (line for line in _requirements(tox["testenv"].get("deps", "")) if ":" not in line)


def _requirements(text: str) -> list[str]:
    lines = (line.partition("#")[0].partition(";")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("-", "{", ".")) and distribution(line) and "://" not in line]


def _entry_points(files: Mapping[str, bytes], pyproject: Mapping[str, Any], setup: configparser.ConfigParser) -> str:
    """What an installation would write into `entry_points.txt`: names under which others, or the project itself, look its parts up."""
    project, poetry = pyproject.get("project", {}), pyproject.get("tool", {}).get("poetry", {})
    groups = {**poetry.get("plugins", {}), **project.get("entry-points", {})}
    scripts = {**poetry.get("scripts", {}), **project.get("scripts", {})}
    if scripts:
        groups["console_scripts"] = scripts
    found = {group: [f"{name} = {place}" for name, place in names.items() if isinstance(place, str)] for group, names in groups.items()}
    if setup.has_section("options.entry_points"):
        found |= {group: lines.strip().splitlines() for group, lines in setup["options.entry_points"].items()}
    return _built(files, "entry_points.txt") or "\n".join(line for group, lines in found.items() for line in (f"[{group}]", *lines, ""))


def _given(files: Mapping[str, bytes], pyproject: Mapping[str, Any], setup: configparser.ConfigParser) -> Mapping[str, Any]:
    """The repository's own configuration of pytest, from the first file that has one."""
    given: Mapping[str, Any] = next((found for name in _TOML if (found := _toml(_text(files, name)).get("pytest", {}))), {})
    for name in ("pytest.ini", ".pytest.ini", "tox.ini"):
        ini = _ini(_text(files, name))
        if not given and ini.has_section("pytest"):
            given = dict(ini["pytest"])
    own = pyproject.get("tool", {}).get("pytest", {})
    given = given or own.get("ini_options", {}) or own
    return given or (dict(setup["tool:pytest"]) if setup.has_section("tool:pytest") else {})


def _suites(given: Mapping[str, Any]) -> tuple[str, ...]:
    names = given.get("python_files", ())
    return tuple(names.split() if isinstance(names, str) else map(str, names)) or SUITES


def configures(files: Mapping[str, bytes]) -> bool:
    """Do these files configure pytest, so that it would look no further up?"""
    empty = any(name in files for name in (*_TOML, "pytest.ini", ".pytest.ini"))
    return empty or bool(_given(files, _toml(_text(files, "pyproject.toml")), _ini(_text(files, "setup.cfg"))))


def _paths(given: Mapping[str, Any]) -> tuple[str, ...]:
    stated = given.get("pythonpath", ())
    return tuple(stated.split() if isinstance(stated, str) else map(str, stated))


def _folders(setup: configparser.ConfigParser) -> list[str]:
    lines = setup.get("options", "package_dir", fallback="").splitlines()
    table = {name.strip(): path.strip() for name, found, path in (line.partition("=") for line in lines) if found}
    where = setup.get("options.packages.find", "where", fallback="")
    return [*of_packages(table), *([where.strip()] if where.strip() else [])]


def _import_mode(given: Mapping[str, Any]) -> str:
    """The one option of the command line that is kept, since it decides which tests can be collected: two files of one name need it."""
    options = given.get("addopts", ())
    found = _MODE.findall(options if isinstance(options, str) else " ".join(map(str, options)))
    return str(found[-1]) if found else ""


def _pytest(given: Mapping[str, Any]) -> Iterator[str]:
    """Lines of an ini file: what of the configuration decides which tests there are. Options of the command line are not kept."""
    for key in _KEPT:
        if key in given:
            value = given[key]
            lines = value if isinstance(value, list) else str(value).splitlines()
            yield f"{key} = " + "\n    ".join(str(line).strip() for line in lines if str(line).strip())


def _licence(said: str, files: Mapping[str, bytes]) -> str:
    if said not in ("", "UNKNOWN") and len(said) < 40 and "\n" not in said:
        return said
    texts = [c for path, c in files.items() if "/" not in path and path.upper().startswith(("LICENSE", "LICENCE", "COPYING", "UNLICENSE"))]
    for text in [_decoded(content) for content in texts] + [said]:
        for name, pattern in _LICENCES:
            if re.search(pattern, text, re.IGNORECASE):
                return name
    return ""


def _words(licence: object) -> str:
    return str(licence.get("text", "")) if isinstance(licence, Mapping) else str(licence or "")


def _plain_version(text: str) -> str:
    return "" if ":" in text else text  # `attr: box.__version__` says where it is, and not what


def _text(files: Mapping[str, bytes], name: str) -> str:
    return _decoded(files.get(name, b""))


def _decoded(content: bytes) -> str:
    """Without a byte order mark, which some editors write before UTF-8, and with the UTF-16 that PowerShell redirects into a file."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "utf-8-sig", errors="replace")


def _built(files: Mapping[str, bytes], name: str) -> str:
    """What setuptools wrote beside a source distribution's `PKG-INFO`, which says less where it is old."""
    found = (content.decode(errors="replace") for path, content in sorted(files.items()) if path.endswith(f".egg-info/{name}"))
    return next(found, "")


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _ini(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return configparser.ConfigParser()
    return parser
