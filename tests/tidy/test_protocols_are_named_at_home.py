"""No name of a protocol outside its folder: code asks the registry. Prose may explain by an example, code may not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, SOURCE, name, parsed, python_files

PROTOCOLS = SOURCE / "penstock" / "protocols"
NAMES = sorted({file.parent.name for file in PROTOCOLS.glob("*/__init__.py")} | {"rocketmq"})
NAMED = re.compile("|".join([*NAMES, r"\btube_", r"librdkafka"]), re.IGNORECASE)
EXAMPLE = re.compile(rf"\b({'|'.join(NAMES)})://(?=[\w\[]|$)[\w.:\[\]-]+(?=\W|$)")
"""An address that shows somebody what addresses look like."""

SPARKS_OPTION = r"\bkafka(Consumer)?\.[\w.*%]*"
# Where a name may stand all the same: what of it, and why. A folder ends with "/".
ALLOWED: Mapping[str, tuple[str, str]] = {
    "src/penstock/cli/app.py": ("Message logs .*|Place or name of a source that is Kafka's", "help"),
    "src/penstock/demo/flights.py": ("kafka|tubemq|rocketmq", "the demo shows each protocol"),
    "src/penstock/spark/": (
        f"{SPARKS_OPTION}|kafka-transactions.sh",
        "names of options as jobs of Spark's own connector give them, and what to run where a transaction hangs",
    ),
    "src/penstock/spark/_option_values.py": ("kafka", "whose options those are, asked of the registry"),
    "src/penstock/spark/_checkpoint.py": (
        "Kafkas?('s)?",
        "checkpoints of Spark's own connector, brought over and back",
    ),
}


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where, and what: names and texts of code; docstrings are prose."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in prose:
                yield node.lineno, EXAMPLE.sub("", text)
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.keyword(arg=str(text)):
                yield node.lineno, text
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                yield node.lineno, text
            case ast.alias(name=text):
                yield node.lineno, text


def named_in(file: Path) -> list[str]:
    found = [f"{name(file)}: its name"] if NAMED.search(file.name) else []
    for line, text in strings(parsed(file)):
        for place, (allowed, _) in ALLOWED.items():
            if name(file) == place or (place.endswith("/") and name(file).startswith(place)):
                text = re.sub(allowed, "", text, flags=re.IGNORECASE)
        if NAMED.search(text):
            found.append(f"{name(file)}:{line}: {text[:100]}")
    return found


def test_no_code_outside_of_protocols_names_one() -> None:
    outside = [file for file in python_files() if file.is_relative_to(SOURCE) and not file.is_relative_to(PROTOCOLS)]
    assert [line for file in outside for line in named_in(file)] == []


def test_no_protocol_names_another() -> None:
    found = {
        f"{name(file)}:{line}: {text[:100]}"
        for own in NAMES
        for file in python_files()
        if file.is_relative_to(PROTOCOLS / own)
        for other in NAMES
        if other != own
        for line, text in strings(parsed(file))
        if re.search(other, text, re.IGNORECASE)
    }
    assert found == set()


def test_the_places_that_are_allowed_are_there() -> None:
    assert [place for place in ALLOWED if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(
    "line",
    ['port = {"tubemq": 8715}', "def tube_kernel(): ...", 'f"kafka://{servers}"', "import penstock.protocols.kafka"],
)
def test_a_name_in_code_is_seen(line: str) -> None:
    assert [text for _, text in strings(ast.parse(line)) if NAMED.search(text)] != []


@pytest.mark.parametrize(
    "line", ['"""Kafka explained."""', 'hint = "for example kafka://127.0.0.1:9092/t"', "# Kafka's"]
)
def test_prose_and_examples_are_let_pass(line: str) -> None:
    assert [text for _, text in strings(ast.parse(line)) if NAMED.search(text)] == []
