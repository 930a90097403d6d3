"""Whatever a public signature names, a user can import from ``penstock``: to annotate, to construct, to catch."""

from __future__ import annotations

import asyncio
import builtins
import collections.abc
import dataclasses
import importlib
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import penstock
import penstock.client
import penstock.config
import penstock.interfaces
import penstock.records
import penstock.spark
from penstock.client import errors

CLASSES = [value for name in penstock.__all__ if inspect.isclass(value := getattr(penstock, name))]
FUNCTIONS = [value for name in penstock.__all__ if inspect.isfunction(value := getattr(penstock, name))]
ELSEWHERE = {name for module in (asyncio, builtins, collections.abc, types, typing) for name in dir(module)}
ELSEWHERE |= {"K", "K2", "T", "V", "V2", "abc", "pa", "pd", "np", "npt", "TracebackType"}
OF_OTHERS = {"os", "Path", "StructType", "DataSourceReader", "DataSourceWriter", "DataSourceStreamReader"}
OF_OTHERS |= {
    "DataSourceStreamWriter",
    *(f"Query{what}Event" for what in ("Idle", "Progress", "Started", "Terminated")),
}
"""What signatures of ``penstock.spark`` take from PySpark, and from Python."""
HANDED_OUT = {"AsyncTransaction", "BatchDelivery", "Delivery", "Transaction"}  # nobody makes them by hand
STRINGS = re.compile(r"'[^']*'|\"[^\"]*\"")
OTHERS = {"AdminClient", "ConsumerConfig"}  # of confluent-kafka, and of TubeMQ's Java, on the pages "coming from"
ROOT = Path(__file__).parents[2]
CLASS = re.compile(r"(?<![.\w])(?:[A-Z][a-z]+){2,}\b|(?<=`)[A-Z]\w+(?=[`.(])")
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
    assert not_public(annotated(kind)) == {}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: str(function.__name__))
def test_every_name_in_the_signature_of_a_function_is_public(function: types.FunctionType) -> None:
    annotations = function.__annotations__.values()
    assert not_public((function.__name__, str(each), function.__globals__) for each in annotations) == {}


def test_every_name_in_a_public_signature_of_spark_is_public() -> None:
    given = [getattr(penstock.spark, name) for name in penstock.spark.__all__]
    ours = [each for each in given if each.__module__.startswith("penstock")]
    found = [each for kind in ours if inspect.isclass(kind) for each in annotated(kind)]
    found += [
        (each.__name__, str(annotation), each.__globals__)
        for each in ours
        if inspect.isfunction(each)
        for annotation in each.__annotations__.values()
    ]
    assert {name for name in not_public(found) if not hasattr(penstock.spark, name)} <= OF_OTHERS


def not_public(annotations: Iterable[tuple[str, str, dict[str, object]]]) -> dict[str, str]:
    """Names in annotations that cannot be imported from ``penstock``, with where they stand."""
    public = [getattr(penstock, name) for name in penstock.__all__]
    return {
        name: where
        for where, annotation, home in annotations
        for name in NAMES.findall(STRINGS.sub("", annotation))
        if name not in ELSEWHERE and not hasattr(penstock, name) and not any(home.get(name) is each for each in public)
    }


def test_every_error_of_the_clients_is_public() -> None:
    assert {name for name in errors.__all__ if not hasattr(penstock, name)} == set()


def documented(kind: type) -> Iterator[tuple[str, str]]:
    """Where, and the words, of everything public that has some."""
    yield kind.__name__, inspect.getdoc(kind) or ""
    for name, value in inspect.getmembers(kind):
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield f"{kind.__name__}.{name}", inspect.getdoc(value) or ""


def classes_of_ours() -> set[str]:
    """All that somebody could take for public, wherever they live."""
    homes = [
        importlib.import_module(found.name)
        for layer in (penstock.client, penstock.records, penstock.config, penstock.interfaces)
        for found in pkgutil.iter_modules(layer.__path__, f"{layer.__name__}.")
    ]
    return {
        name
        for home in (penstock.errors, penstock.model, *homes)
        for name, value in inspect.getmembers(home, inspect.isclass)
        if value.__module__.startswith("penstock.") and not name.startswith("_")
    }


def test_every_name_in_a_public_docstring_is_public() -> None:
    ours = classes_of_ours()
    missing = {
        (where, name)
        for kind in CLASSES
        for where, text in documented(kind)
        for name in CLASS.findall(text)
        if name in ours and not hasattr(penstock, name)
    }
    assert missing == set()


def test_every_error_that_a_docstring_promises_is_public() -> None:
    promised = {
        (where, name)
        for kind in CLASSES
        for where, text in documented(kind)
        for sentence in re.findall(r"\bRaises? (.*?)(?:\.\s|\.?$)", text.replace("\n", " "))
        for name in CLASS.findall(sentence)
    }
    assert promised
    unknown = {each for each in promised if not hasattr(penstock, each[1]) and not hasattr(builtins, each[1])}
    assert unknown == set()


def test_every_class_that_the_pages_for_users_name_is_public() -> None:
    ours = classes_of_ours() - OTHERS
    missing = {
        (page.name, name)
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for name in re.findall(r"`([A-Z]\w+)(?:\(.*?\))?`", page.read_text(encoding="utf-8"))
        if name in ours and not hasattr(penstock, name)
    }
    assert missing == set()
