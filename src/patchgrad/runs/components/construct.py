"""How a part is made: a class or function is called with the recipe's options, and with those facts of a run that it asks for by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from patchgrad.errors import ComponentError, ConfigError, PatchgradError
from patchgrad.functions import named

Facts = Mapping[str, Any]


def construct(key: str, maker: Callable[..., Any], options: Mapping[str, Any], facts: Facts) -> Any:
    """`maker(**options, **facts)` with those facts alone that it has parameters for.

    `construct("curriculum", Mine, {"rate": 0.5}, {"tasks": tasks, "seed": 0})` calls `Mine(rate=0.5, tasks=tasks)` where `Mine` takes no
    seed. `ConfigError` for an option that it does not have, and for a parameter that nobody fills.
    """
    parameters = _parameters(maker)
    names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    _known(key, maker, options, names, any(one.kind is one.VAR_KEYWORD for one in parameters))
    given = {name: fact for name, fact in facts.items() if name in names} | dict(options)
    lacking = [one.name for one in parameters if one.default is one.empty and one.name in names and one.name not in given]
    if lacking:
        there = f" nor of {', '.join(facts)}" if facts else ""
        raise ConfigError(f"{key}: {named(maker)} wants {', '.join(lacking)}, which is none of its options in the recipe{there}.")
    try:
        return maker(**given)
    except PatchgradError:
        raise
    except Exception as error:
        raise ComponentError(f"{key}: {named(maker)} cannot be made: {type(error).__name__}: {error}.") from error


def bound(key: str, function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    """A function with the options of the recipe as keywords: `mine:small` with `weight = 2.0` is called with `weight=2.0` too."""
    if not options:
        return function
    parameters = _parameters(function)
    _known(key, function, options, {one.name for one in parameters}, any(one.kind is one.VAR_KEYWORD for one in parameters))
    return functools.partial(function, **options)


def conforming(key: str, made: Any, contract: type) -> Any:
    """What was made; `ComponentError` where it lacks a member of the contract."""
    members = {name for one in contract.__mro__ for name in vars(one) if not name.startswith("_")}
    lacking = sorted(members - set(dir(made)))
    if lacking:
        said = f"{key}: {named(made)} has no {', '.join(lacking)}"
        raise ComponentError(f"{said}: a {contract.__name__} has {', '.join(sorted(members))}.")
    return made


def _parameters(maker: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(maker).parameters.values())
    except (TypeError, ValueError):
        return []


def _known(key: str, maker: object, options: Mapping[str, Any], names: set[str], any_name: bool) -> None:
    unknown = [] if any_name else sorted(set(options) - names)
    if unknown:
        there = f"; it has {', '.join(sorted(names))}" if names else ""
        raise ConfigError(f"{key}: {named(maker)} has no option {', '.join(unknown)}{there}.")
