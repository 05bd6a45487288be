"""What a project's tests need, found by running them: the packages that it states, and those that its tests ask for by name.

Nothing is installed on a guess. A module that is missing is looked for among what the project itself states for tests and development,
then in a table of well-known names; a name from a test alone could be anybody's on the package index.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

from patchgrad.errors import MissingDependency, TaskError
from patchgrad.packages.resolving import resolve
from patchgrad.packages.sites import PINS, distribution, ensure_site
from patchgrad.tasks.projects.metadata import configures
from patchgrad.tasks.projects.project import SUITES, TOP_TESTS, Project
from patchgrad.tasks.running import Run, Runner

CONFIG = "pytest.ini"
SECONDS = 240.0
_ASKS_ITSELF = re.compile(rb"importlib([._]| import .*)metadata|pkg_resources")
_ROUNDS = 6
_MODULES = {
    "yaml": "pyyaml",
    "dateutil": "python-dateutil",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "PIL": "pillow",
    "jwt": "pyjwt",
    "dotenv": "python-dotenv",
    "git": "gitpython",
    "pkg_resources": "setuptools<81",
    "setuptools": "setuptools",
    "mock": "mock",
    "six": "six",
    "pytz": "pytz",
    "freezegun": "freezegun",
    "simplejson": "simplejson",
    "ruamel": "ruamel.yaml",
    "toml": "toml",
    "tomli": "tomli",
    "tomli_w": "tomli-w",
    "tomlkit": "tomlkit",
    "numpy": "numpy",
    "requests": "requests",
    "responses": "responses",
    "typing_extensions": "typing-extensions",
    "importlib_metadata": "importlib-metadata",
    "zope": "zope.interface",
    "docutils": "docutils",
    "pytest_mock": "pytest-mock",
    "pytest_asyncio": "pytest-asyncio",
    "pytest_benchmark": "pytest-benchmark",
    "attrs": "attrs",
    "parameterized": "parameterized",
    "ddt": "ddt",
    "flaky": "flaky",
    "faker": "faker",
    "lxml": "lxml",
    "click": "click",
    "jinja2": "jinja2",
    "unidecode": "unidecode",
    "text_unidecode": "text-unidecode",
    "chardet": "chardet",
    "regex": "regex",
    "psutil": "psutil",
    "markdown": "markdown",
    "pygments": "pygments",
    "dill": "dill",
    "cloudpickle": "cloudpickle",
    "msgpack": "msgpack",
    "ujson": "ujson",
    "orjson": "orjson",
    "pydantic": "pydantic",
    "tzdata": "tzdata",
    "tzlocal": "tzlocal",
    "time_machine": "time-machine",
    "testfixtures": "testfixtures",
    "sybil": "sybil",
    "pyfakefs": "pyfakefs",
    "trio": "trio",
    "anyio": "anyio",
    "nose": "pynose",
    "whatever": "whatever",
}
_FIXTURES = {
    "mocker": "pytest-mock",
    "benchmark": "pytest-benchmark",
    "freezer": "pytest-freezer",
    "requests_mock": "requests-mock",
    "datadir": "pytest-datadir",
    "shared_datadir": "pytest-datadir",
    "faker": "faker",
    "httpx_mock": "pytest-httpx",
    "fs": "pyfakefs",
    "data_regression": "pytest-regressions",
    "file_regression": "pytest-regressions",
    "snapshot": "syrupy",
    "anyio_backend": "anyio",
    "httpserver": "pytest-httpserver",
    "event_loop": "pytest-asyncio",
    "tmp_path_factory": "",
    "mock_aioresponse": "aioresponses",
}


class Endless(TaskError):
    """Tests that do not come to an end."""


@dataclass(frozen=True, slots=True)
class Furnished:
    """A project with what its tests need. `files` are complete, `first` is how its tests ended, `missing` what was not found for them."""

    project: Project
    files: Mapping[str, bytes]
    site: Path
    first: Run
    missing: tuple[str, ...]


async def furnish(
    project: Project,
    files: Mapping[str, bytes],
    runner: Callable[[Path], Runner],
    *,
    before: str = "",
    quiet: bool = False,
    seconds: float = SECONDS,
) -> Furnished:
    """Adds packages until no test asks for another one; `before` is the day whose versions are taken, but for pytest and its kin.

    `Endless` where the tests do not come to an end within these `seconds` of work, `TaskError` where what the project states it needs
    cannot be had.
    """
    suites = [path for path in files if project.is_suite(path)]
    wanted: dict[str, str] = {}
    pins = _pins(project, wanted.values(), before)
    tried: set[str] = set()
    while True:
        site = _site(project, pins)
        project = replace(project, packages=pins, plugins=plugins(site))
        complete = prepare(project, files, quiet)
        first = await runner(site)(complete, suites, places=project.tests, seconds=seconds)
        if first.state != "ok":
            raise Endless(f"The tests of {project.id} do not come to an end within {seconds:g} seconds of work ({first.state}).")
        missing = {name: requirement for name, requirement in _asked(project, files, first).items() if name not in tried}
        tried |= missing.keys()
        known = {name: requirement for name, requirement in missing.items() if requirement}
        if not known or len(tried) > 40 or len(wanted) > 4 * _ROUNDS:
            return Furnished(project, complete, site, first, tuple(sorted(tried - wanted.keys())))
        for name, requirement in known.items():
            with suppress(TaskError, MissingDependency):  # one that cannot be had leaves its tests out, and no others
                pins = _pins(project, [*wanted.values(), requirement], before)
                _site(project, pins)
                wanted[name] = requirement
        pins = _pins(project, wanted.values(), before)


def prepare(project: Project, files: Mapping[str, bytes], quiet: bool = False) -> dict[str, bytes]:
    """The tree with a `pytest.ini` of its own, so that plain `pytest` works in it and options of the project's cannot get in the way.

    With `quiet` it prints dots and no tracebacks, for agents with little room. Code that asks which version of itself is installed
    finds an answer.
    """
    options = " ".join(["-p no:cacheprovider", *(f"-p {name}" for name in project.plugins)])
    options += f" --import-mode={project.import_mode}" * bool(project.import_mode)
    options += " --benchmark-disable" * ("pytest_benchmark.plugin" in project.plugins)  # once each, and not for a second or more
    options += " -qq --tb=no --no-summary\nconsole_output_style = classic" * quiet
    names = (*project.suites, *(path for path in TOP_TESTS if path in files and path not in project.suites))
    named = ["python_files = " + "\n    ".join(names)] * (names != SUITES)
    lines = ["[pytest]", f"pythonpath = {shlex.join([*project.paths, '.'])}", f"addopts = {options}", *named, *project.pytest]
    told = {CONFIG: ("\n".join(lines) + "\n").encode()}
    if any(_ASKS_ITSELF.search(content) for path, content in files.items() if path.endswith(".py")):
        root = "".join(f"{path}/" for path in project.paths[:1])
        about = f"Metadata-Version: 2.1\nName: {project.name}\nVersion: {project.version}\n"
        folder = f"{root}{project.name.replace('-', '_')}-{project.version}.dist-info"
        told[f"{folder}/METADATA"] = about.encode()
        if project.entry_points:
            told[f"{folder}/entry_points.txt"] = project.entry_points.encode()
    return {**files, **told}


def alone(files: Mapping[str, bytes], suites: Iterable[str]) -> tuple[str, ...]:
    """The words that make pytest take the tree's own configuration, where a folder above one of these files has another one."""
    above = {str(folder) for path in suites for folder in list(PurePosixPath(path).parents)[:-1]}
    inner = [{name.rpartition("/")[2]: text for name, text in files.items() if name.rpartition("/")[0] == folder} for folder in above]
    return ("-c", CONFIG) if any(map(configures, inner)) else ()


def plugins(site: Path) -> tuple[str, ...]:
    """The modules in a site that are made to be loaded by pytest, hypothesis' own apart, without which its tests do as well."""
    found = {entry.value for one in distributions(path=[str(site)]) for entry in one.entry_points if entry.group == "pytest11"}
    return tuple(sorted(name for name in found if "hypothesis" not in name))


def _pins(project: Project, wanted: Iterable[str], before: str) -> tuple[str, ...]:
    requirements = [*project.requires, *wanted]
    found = resolve(requirements, before) if requirements else ()
    ours = {distribution(pin) for pin in PINS} if before else set()  # an old plugin must not bring a pytest that the grader cannot use
    return tuple(pin for pin in found if distribution(pin) not in {project.name, *ours})


def _site(project: Project, pins: Sequence[str]) -> Path:
    try:
        return ensure_site(pins)
    except MissingDependency as error:
        raise TaskError(f"What {project.id} needs cannot be installed: {error}.") from error


def _asked(project: Project, files: Mapping[str, bytes], run: Run) -> dict[str, str]:
    """Names that the run did not find, and the requirement that stands for each, or nothing where none is known.

    Tests that skip themselves ask for what they name, if the project states it.
    """
    texts = [*run.reasons, *(f"{failure.kind}: {failure.message}" for failure in run.failures.values())]
    stated = {distribution(requirement): requirement for requirement in project.extras}
    found: dict[str, str] = {}
    for text in texts:
        for module in re.findall(r"No module named '?([A-Za-z_][\w]*)", text):
            if not any(path == f"{module}.py" or path.startswith(f"{module}/") for path in files):
                known = _MODULES.get(module, "")
                found[module] = stated.get(distribution(known or module)) or stated.get(distribution(module)) or known
        for fixture in re.findall(r"fixture '(\w+)' not found|FixtureLookupError: \('(\w+)'", text):
            fixture = "".join(fixture)
            known = _FIXTURES.get(fixture, "")
            found[fixture] = stated.get(known, known)
        if "async def functions are not natively supported" in text:
            found["pytest-asyncio"] = stated.get("pytest-asyncio", "pytest-asyncio")
    skips = "\n".join(run.skips)
    for name, requirement in stated.items():  # "could not import 'numpy'", "needs cryptography"
        names = [name, *(module for module, known in _MODULES.items() if distribution(known) == name)]
        if any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", skips, re.IGNORECASE) for word in names):
            found[name] = requirement
    return found
