"""Builds a task from a bug: a small git-able repository with modules, tests and an issue text, plus hidden tests.

    rakemi/__init__.py  rakemi/tobu.py (the bug)  rakemi/ledi.py  tests/test_tobu.py  tests/test_ledi.py  pytest.ini

Visible tests show the bug in at least one case; hidden tests hold these and others, so that answering only the visible ones fails.
"""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchgrad.errors import ConfigError
from patchgrad.tasks.archive import pack, store
from patchgrad.tasks.synthetic.bugs import FAMILIES, Bug, bugs_of
from patchgrad.tasks.synthetic.names import improvised
from patchgrad.tasks.synthetic.templates import TEMPLATES, Template
from patchgrad.values import Checks, HiddenFile, Limits, Repository, Task, digest

QUIET = "addopts = -qq --tb=no --no-summary\nconsole_output_style = classic\n"  # dots, and whether it stopped
BARE = 3  # functions that do not say what they do for each that does: of those there are about a hundred, soon known by heart
WORDS = ("core", "rules", "tools", "model", "report", "orders", "plans", "parts")
PYTEST_INI = f"[pytest]\npythonpath = . src\n{QUIET}"
LIMITS = Limits(command_seconds=1.5, test_seconds=2.0, memory=512 << 20, disk=16 << 20, processes=64, output=4_000)

# Variables get their names at random, so that code has to be read: what follows a name cannot be known by heart.
NAMES = ("a", "b", "c", "n", "x", "y", "item", "items", "total", "count", "left", "right")


def synthetic_tasks(
    count: int,
    seed: int,
    held_out: bool,
    folder: Path,
    functions: tuple[int, ...] = (1, 2),
    families: Container[str] = FAMILIES,
    apart_from: Sequence[Task] = (),
) -> list[Task]:
    """`count` tasks of one side of the split; archives are stored in `folder`.

    A quarter of those for training are of templates that say what they do, as all held-out ones do. `functions` are the sizes of the
    buggy module that occur: 1 is easy, 3 is hard; `families` are those of the planted bugs. No task is made that holds the broken line
    of a task in `apart_from`, which is how no held-out bug line stands in training. The same arguments give the same tasks. Raises
    `ConfigError` when a pass over all templates makes none.
    """
    random_ = random.Random(f"workshop {seed} {held_out}")
    forbidden = {task.tags["broken_line"].strip() for task in apart_from}
    side, made = [template for template in TEMPLATES if template.held_out == held_out], list[Task]()
    told, bare = [template for template in side if template.told], [template for template in side if not template.told]
    for number in itertools.count():
        before = len(made)
        chosen = [*told, *random_.sample(bare, min(len(bare), BARE * len(told)))]
        random_.shuffle(chosen)
        for template in chosen:
            if len(made) == count:
                return made
            pool = [bug for bug in bugs_of(template) if bug.family in families]
            if not pool:
                continue
            sources, task = _task(pool[number % len(pool)], random_, functions[len(made) % len(functions)])
            if not (forbidden and forbidden & lines_of(sources)):
                made.append(replace(task, repository=store(folder, pack({path: text.encode() for path, text in sources.items()}))))
        if len(made) == before:
            raise ConfigError("no synthetic task can be made of these bug families: name more of them")
    return made


def lines_of(files: Mapping[str, str]) -> set[str]:
    """Every line of the repository's modules, without indentation."""
    sources = [text for path, text in files.items() if path.endswith(".py") and not path.startswith("tests/")]
    return {line.strip() for source in sources for line in source.splitlines()}


def _task(bug: Bug, random_: random.Random, functions: int) -> tuple[dict[str, str], Task]:
    """The repository's files, and the task but for its repository."""
    folder = "/".join(improvised(random_) for _ in range(random_.choice((1, 1, 2))))
    root, module = random_.choice(("", "", "src/")), improvised(random_)
    other = next(name for name in iter(lambda: improvised(random_), "") if name != module)
    file, package = f"{root}{folder}/{module}.py", folder.replace("/", ".")
    names = _renaming(bug.template.source, random_)
    neighbours = _neighbours(bug.template, functions, random_)
    own = [bug.template, *neighbours[: functions - 1]]
    random_.shuffle(own)
    sources = [_rename(bug.source, names) if t is bug.template else _rename(t.source, _renaming(t.source, random_)) for t in own]
    visible, hidden = _choose_cases(bug, random_)
    others = "".join(_tests(t, bugs_of(t)[0], (0,)) for t in own if t is not bug.template)
    head = f"from {package}.{module} import " + ", ".join(t.name for t in own) + "\n\n"
    distant = neighbours[-1]
    test_file = f"tests/test_{module}.py"
    files = {
        "README.md": f"# {package}\n",
        "pytest.ini": PYTEST_INI,
        f"{root}{folder.split('/')[0]}/__init__.py": "",
        f"{root}{folder}/__init__.py": "",
        file: _header(random_) + "\n\n".join(sources),
        f"{root}{folder}/{other}.py": _rename(distant.source, _renaming(distant.source, random_)),
        test_file: head + _tests(bug.template, bug, visible) + others,
        f"tests/test_{other}.py": f"from {package}.{other} import {distant.name}\n\n" + _tests(distant, bugs_of(distant)[0], (0,)),
    }
    failing = tuple(f"{test_file}::test_{bug.template.name}_{i + 1}" for i in hidden if i in bug.failing)
    passing = tuple(f"{test_file}::test_{bug.template.name}_{i + 1}" for i in hidden if i not in bug.failing)
    passing += tuple(f"{test_file}::test_{t.name}_1" for t in own if t is not bug.template)
    line = next(i for i, row in enumerate(files[file].splitlines(), 1) if row.startswith(f"def {bug.template.name}("))
    instruction = _issue(bug, visible, f"{module}.py {line}", random_)
    return files, Task(
        id=f"workshop:{bug.template.name}:{bug.family}:{digest(instruction, *files.values())[:8]}",
        instruction=instruction,
        repository=Repository("archive", "", ""),
        checks=Checks(
            fail_to_pass=failing,
            pass_to_pass=passing,
            files=(HiddenFile(test_file, head + _tests(bug.template, bug, hidden) + others),),
            protected=("tests", "pytest.ini"),
            command=("pytest", test_file),
            strict=True,
        ),
        limits=LIMITS,
        tags={
            "source": "workshop",
            "split": "held_out" if bug.template.held_out else "train",
            "template": bug.template.name,
            "family": bug.family,
            "functions": str(functions),
            "file": file,
            "begins": str(line),
            "function": bug.template.name,
            "broken_line": _rename(bug.broken_line, names),
            "fixed_line": _rename(bug.fixed_line, names),
        },
    )


def _header(random_: random.Random) -> str:
    """Comment lines, mostly below 40, at times hundreds, so that code begins anywhere in a file and its lines have any number."""
    count = random_.randrange(random_.choice((40, 40, 40, 800)))
    return "".join(f"# {' '.join(random_.choices(WORDS, k=4))}\n" for _ in range(count))


def _neighbours(template: Template, functions: int, random_: random.Random) -> list[Template]:
    """Correct functions beside the bug, of the same side of the split and with some bug of their own (so that cases exist)."""
    side = [t for t in TEMPLATES if t.held_out == template.held_out and t.name != template.name]
    return list(itertools.islice((t for t in random_.sample(side, len(side)) if bugs_of(t)), functions))


def _renaming(source: str, random_: random.Random) -> dict[str, str]:
    """A fresh name for every parameter and local variable of a function."""
    tree = ast.parse(source)
    names = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    taken = set(re.findall(r"\w+", source))
    free = [name for name in NAMES if name not in taken - names]
    return dict(zip(sorted(names), random_.sample(free, len(names)), strict=True))


def _rename(source: str, names: dict[str, str]) -> str:
    return re.sub(r"(?<![.\w])[A-Za-z_]\w*", lambda match: names.get(match.group(), match.group()), source)


def _choose_cases(bug: Bug, random_: random.Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Indices of visible and hidden cases: 3 visible, at least one of them failing; hidden adds up to 5, one of them failing."""
    failing = list(bug.failing)
    random_.shuffle(failing)
    rest = [i for i in range(len(bug.cases)) if i not in bug.failing]
    random_.shuffle(rest)
    visible = sorted([failing[0], *failing[2:3], *rest[:1]])
    extra = [failing[1], *failing[3:5], *rest[1:3]]
    return tuple(visible), tuple(sorted({*visible, *extra}))


def _tests(template: Template, bug: Bug, cases: tuple[int, ...]) -> str:
    blocks = []
    for i in cases:
        arguments = ", ".join(repr(a) for a in bug.cases[i])
        blocks.append(f"\ndef test_{template.name}_{i + 1}():\n    assert {template.name}({arguments}) == {bug.expected[i].text}\n")
    return "".join(blocks)


def _issue(bug: Bug, visible: tuple[int, ...], place: str, random_: random.Random) -> str:
    """The symptom, and the command that shows where the function begins: a small network has to be told how to begin a copy."""
    i = next(i for i in visible if i in bug.failing)
    call = f"{bug.template.name}({', '.join(repr(a) for a in bug.cases[i])})"
    wanted, got = bug.expected[i].text, bug.actual[i]
    symptom = f"raises {got.text}" if got.kind == "raises" else f"gives {got.text}"
    wish = random_.choice((f", expected {wanted}", f". It should give {wanted}", f" instead of {wanted}"))
    return f"{call} {symptom}{wish}.\nopen {place}"
