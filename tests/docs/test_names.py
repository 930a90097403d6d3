"""What the pages name is there: verbs of the command line and their options, extras, and public names."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.app import VERBS, chosen, parser_for

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "PACKAGE.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.md")),
]
BLOCK = re.compile(r"^ *```\w*[^\n]*\n(.*?)^ *```$|^((?: {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|[|;&$`] *|python -m )penstock((?: +(?!\||>|#|&)\S+)+)", re.MULTILINE)
EXTRA = re.compile(r"penstock\[([a-z,]+)\]")
NAME = re.compile(r"(?<![\w./@-])penstock((?:\.\w+)*\.(?:[A-Z]\w*|\w+(?=\()))")
"""A class, or what is called: other names with dots are loggers, metrics and headers."""
THREAD = ["callbacks"]
"""The name of a thread, "penstock callbacks"."""
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def code(page: Path) -> Iterator[str]:
    """Blocks and spans of code: elsewhere `penstock` is a word of a sentence."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        yield (block[1] or block[2] or "").replace("\\\n", " ")
    yield from SPAN.findall(BLOCK.sub("", text))


def wrong_in(words: list[str]) -> str | None:
    """What is wrong with a command after `penstock`; None if nothing is."""
    if words == THREAD:
        return None
    verb, rest = chosen(words)
    if verb not in VERBS and rest and not rest[0].startswith("-"):
        return None if rest[0] in ("…", "VERB") else f"there is no verb {rest[0]}"
    return unknown(rest, {name for each in parser_for(verb)._actions for name in each.option_strings})


def unknown(words: list[str], options: set[str]) -> str | None:
    given = {word.partition("=")[0] for word in words if re.match("--[a-z]", word)}
    return None if given <= options else f"there is no {', '.join(sorted(given - options))}"


def is_there(name: str) -> bool:
    first, *rest = name.split(".")
    found: Any = import_module(first)
    try:
        for part in rest:
            found = getattr(found, part, None) or import_module(f"{found.__name__}.{part}")
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_is_there(page: Path) -> None:
    wrong = []
    for text in code(page):
        for words in COMMAND.findall(text):
            try:
                split = shlex.split(words, comments=True)
            except ValueError:  # a quotation that goes on in the next line
                split = words.split()
            if split and (said := wrong_in(split)):
                wrong.append(f"penstock {' '.join(split)}: {said}")
        wrong += [f"extra {each}" for found in EXTRA.findall(text) for each in found.split(",") if each not in EXTRAS]
        for rest in NAME.findall(text):
            if not is_there(f"penstock{rest}"):
                wrong.append(f"penstock{rest}")
    assert wrong == []


def test_the_table_of_extras_is_whole() -> None:
    table = (ROOT / "docs/installing.md").read_text(encoding="utf-8")
    named = {each for found in EXTRA.findall(table) for each in found.split(",")}
    assert named == {*EXTRAS} - {"cli", "demo", "java"}


def test_what_is_not_there_is_seen() -> None:
    assert wrong_in(["lag", "kafka://h"]) == "there is no verb lag"
    assert wrong_in(["groups", "describe", "--lags"]) == "there is no --lags"
    assert not is_there("penstock.Cosnumer")
    assert is_there("penstock.Consumer.poll")
