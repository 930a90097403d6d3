"""Whatever a public signature names, a user can import from ``penstock``: to annotate, to construct, to catch."""

from __future__ import annotations

import asyncio
import builtins
import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterator

import pytest

import penstock
from penstock.client import errors

CLASSES = [value for name in penstock.__all__ if inspect.isclass(value := getattr(penstock, name))]
ELSEWHERE = {name for module in (asyncio, builtins, collections.abc, types, typing) for name in dir(module)}
ELSEWHERE |= {"T", "abc", "pa", "pd", "np", "npt", "TracebackType"}
HANDED_OUT = {"AsyncTransaction", "BatchDelivery", "Delivery", "Transaction"}  # nobody makes them by hand
STRINGS = re.compile(r"'[^']*'|\"[^\"]*\"")
NAMES = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


def annotated(kind: type) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Where, annotation, and the module's names, of everything public."""
    functions = {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}
    if kind.__name__ not in HANDED_OUT:
        functions["__init__"] = kind.__init__
    for name, value in functions.items():
        function = value.fget if isinstance(value, property) else value
        if inspect.isfunction(function) and function.__module__.startswith("penstock"):
            for annotation in function.__annotations__.values():
                yield f"{kind.__name__}.{name}", str(annotation), function.__globals__
    if dataclasses.is_dataclass(kind):
        home = vars(inspect.getmodule(kind))
        yield from ((f"{kind.__name__}.{each.name}", str(each.type), home) for each in dataclasses.fields(kind))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_every_name_in_a_public_signature_is_public(kind: type) -> None:
    public = [getattr(penstock, name) for name in penstock.__all__]
    missing = {
        name: where
        for where, annotation, home in annotated(kind)
        for name in NAMES.findall(STRINGS.sub("", annotation))
        if name not in ELSEWHERE and not hasattr(penstock, name) and not any(home.get(name) is each for each in public)
    }
    assert missing == {}


def test_every_error_of_the_clients_is_public() -> None:
    assert {name for name in errors.__all__ if not hasattr(penstock, name)} == set()
