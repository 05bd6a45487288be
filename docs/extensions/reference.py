"""A Sphinx extension that writes the reference before a build: modules, recipes and commands, each from the code itself.

The pages go to `docs/reference/generated`, which git ignores. A page that has not changed is left alone, so that a second build is quick.
"""

from __future__ import annotations

import ast
import inspect
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import modules

from patchgrad.cli import parser
from patchgrad.config import Inline, dumps, leaves, written
from patchgrad.recipes import RECIPES, Evaluation, Recipe

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def nested(kind: Any) -> type | None:
    """The dataclass that a field's type holds: that type itself, or the one that a tuple repeats; not one that TOML has on one line."""
    held = (each for each in (kind, *get_args(kind)) if is_dataclass(each) and isinstance(each, type))
    return next((each for each in held if not issubclass(each, Inline)), None)


def typed(kind: Any) -> str:
    """A type as a reader writes it: `typed(str)` is `str`, and an alias is what it stands for."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind).replace("typing.", "")


def remarks(owner: type) -> dict[str, str]:
    """What the source says beside a field: a comment on its line, or a string on the line after it."""
    text = inspect.getsource(owner)
    lines, body = text.splitlines(), getattr(ast.parse(text).body[0], "body", [])
    found = dict[str, str]()
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[node.target.id] = " ".join(str(after.value.value).split())
            elif "  # " in (line := lines[(node.end_lineno or 1) - 1]):
                found[node.target.id] = line.partition("  # ")[2]
    return found


def sections(owner: type, key: str = "") -> Iterator[tuple[str, type, list[tuple[str, str]]]]:
    """Every dataclass below a recipe: the key that leads to it, as in `stages.N.failures`, and its own keys with their types.

    A dataclass that its owner holds more than once, as each guard is a `Bound`, has no section: its keys stand among the owner's.
    """
    kinds = get_type_hints(owner)
    inner = {each.name: nested(kinds[each.name]) for each in fields(owner)}
    own, below = list[tuple[str, str]](), list[tuple[str, type]]()
    for each in fields(owner):
        found, name = inner[each.name], f"{key}.{each.name}".lstrip(".")
        if found is None:
            own.append((name, typed(kinds[each.name])))
        elif list(inner.values()).count(found) > 1:
            own += [(f"{name}.{one.name}", typed(get_type_hints(found)[one.name])) for one in fields(found)]
        else:
            below.append((f"{name}.N" if kinds[each.name] is not found else name, found))
    yield key, owner, own
    for name, found in below:
        yield from sections(found, name)


def keys(value: Recipe | Evaluation, title: str, lead: str) -> str:
    """The page of all keys of a recipe or an evaluation; the defaults are those of `value`."""
    parts, told, defaults = [f"# {title}\n\n{lead}\n"], set[type](), leaves(value)
    for key, owner, own in sections(type(value)):
        parts.append(f"## `{key}`\n" if key else "## At the top\n")
        if owner not in told:
            parts.append(f"{inspect.getdoc(owner) or ''}\n")
        told.add(owner)
        beside = remarks(owner)
        if own:
            parts.append(f"| key | type | default |{' |' if beside else ''}\n|---|---|---|{'---|' if beside else ''}")
        for name, kind in own:
            given = "" if name == "name" else f"`{written(defaults[name.replace('.N', '.0')])}`"
            told_here = f" {beside.get(name.rpartition('.')[2], '')} |" if beside else ""
            parts.append(f"| `{name}` | `{kind.replace('|', chr(92) + '|')}` | {given} |{told_here}")
        parts.append("")
    return "\n".join(parts)


def commands(top: ArgumentParser) -> str:
    """What `--help` prints, for every verb."""
    parts = [f"# Commands\n\nWhat `--help` prints.\n\n## patchgrad\n\n```text\n{top.format_help()}```\n"]

    def visit(one: ArgumentParser, depth: int) -> None:
        for action in one._actions:
            if isinstance(action, _SubParsersAction):
                for inner in dict.fromkeys(action.choices.values()):
                    parts.append(f"{'#' * depth} {inner.prog}\n\n```text\n{inner.format_help()}```\n")
                    visit(inner, depth + 1)

    visit(top, 2)
    return "\n".join(parts)


def printed() -> str:
    """The recipes that ship, written out."""
    parts = ["# Recipes that ship\n\nEach as `patchgrad train NAME --print` writes it, without the remarks.\n"]
    for name, make in RECIPES.items():
        parts.append(f"## {name}\n\n{inspect.getdoc(make) or ''}\n\n```toml\n{dumps(make())}```\n")
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Every generated page by its name, without the suffix."""
    root = modules.place("patchgrad").parent
    public = sorted(
        path.stem for path in root.iterdir() if not path.stem.startswith("_") and (path.suffix == ".py" or (path / "__init__.py").is_file())
    )
    made = {f"patchgrad.{name}": modules.page(f"patchgrad.{name}") for name in public}
    listed = "\n".join(made)
    return made | {
        "modules": f"# Modules\n\nEvery public module with its docstrings.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n",
        "recipe-keys": keys(
            Recipe("name"), "Keys of a recipe", "Every key, with its type and its default. `stages.N` is a stage, from 0 on."
        ),
        "evaluation-keys": keys(Evaluation(), "Keys of an evaluation", "Every key, with its type and its default."),
        "recipes": printed(),
        "commands": commands(parser()),
    }


def write(app: Sphinx) -> None:
    """Write the pages that have changed, and remove those that no longer exist."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for path in folder.glob("*.md"):
        if path.stem not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
