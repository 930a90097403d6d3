"""A plain command line means to its verb what typer would have made of it; what typer would refuse is left to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any
from unittest import mock

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli import plain
from penstock.cli.app import app
from penstock.testing import Broker
from tests.unit.cli.running import records

WORDS = [
    "kafka://h:1/t", "a", "b", "", "-", "--", "7", "-1", "07", "x y", "--json", "--header", "--max", "--max=5",
    "-p", "-p4", "-p=4", "--partitions", "-o", "a=b", "--option=c=d", "--option", "--format", "json",
    "--format=text", "--out", "--group", "-g", "--until-end", "--key-separator", ":", "--help", "--unknown",
    "--repartition", "--internal", "--config", "--js", "--limit", "0",
    "--all-groups", "--topic", "-t", "--to-latest", "--shift-by", "--shift-by=-3", "-5", "--execute", "--from-file",
    "--members", "-v", "--csv", "-i", "--state",
]  # fmt: skip


def function_of(verb: str) -> Callable[..., object]:
    """The function that ``VERBS`` names."""
    module, _, name = plain.VERBS[verb].partition(".")
    found: Callable[..., object] = getattr(import_module(f"penstock.cli.{module}"), name)
    return found


def commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, Callable[..., object] | None]]:
    """Typer's verbs and their functions."""
    for command in group.registered_commands:
        yield f"{before}{command.name}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, f"{before}{inner.name} ")


def test_every_verb_is_typers_own() -> None:
    known = dict(commands(app))
    assert {verb: known[verb] for verb in plain.VERBS} == {verb: function_of(verb) for verb in plain.VERBS}


def by_typer(verb: str, words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments that typer gives the verb's function; None if it does not call it."""
    function, called = function_of(verb), []
    command = typer.Typer(rich_markup_mode=None, add_completion=False)

    def note(**arguments: Any) -> None:
        called.append(arguments)

    note.__signature__ = plain.signature(function)  # type: ignore[attr-defined]
    note.__annotations__ = plain.get_type_hints(function, include_extras=True)
    command.command()(note)
    CliRunner().invoke(command, list(words))
    return called[0] if called else None


@given(st.sampled_from(sorted(plain.VERBS)), st.lists(st.sampled_from(WORDS), max_size=6))
def test_what_is_plain_means_what_typer_makes_of_it(verb: str, words: list[str]) -> None:
    arguments = plain.bound(function_of(verb), words)
    if arguments is not None:
        assert {name: value or None for name, value in arguments.items()} == {
            name: value or None for name, value in (by_typer(verb, words) or {"refused": True}).items()
        }


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "list", "kafka://h:1"],
        ["topics", "create", "kafka://h:1", "a", "b", "-p", "4", "--config", "a=b", "--config", "c=d"],
        ["produce", "kafka://h:1/t", "-", "--key-separator", ":"],
        ["consume", "kafka://h:1/t", "--from", "earliest", "--max", "10", "--out", "file", "-o", "a=b"],
        ["groups", "list", "kafka://h:1", "--json"],
    ],
)
def test_usual_command_lines_are_plain(words: list[str]) -> None:
    verb = next(each for each in (" ".join(words[:2]), words[0]) if each in plain.VERBS)
    assert plain.bound(function_of(verb), words[len(verb.split()) :]) is not None


@pytest.mark.parametrize("words", [[], ["--help"], ["topics"], ["topics", "list"], ["produce", "--help"], ["nonsense"]])
def test_what_needs_words_is_left_to_typer(words: list[str]) -> None:
    assert not plain.run(words)


def test_a_plain_command_line_runs_and_ends_as_any_other(log: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    log.create_topic("topic")
    with mock.patch("sys.stdin") as stdin:
        stdin.buffer = __import__("io").BytesIO(b"k:v\n")
        assert plain.run(["produce", f"{log.address}/topic", "--key-separator", ":"])
    assert [(each.key, each.value) for each in records(log, "topic")] == [(b"k", b"v")]
    assert plain.run(["topics", "list", log.address])
    assert capfd.readouterr().out == "topic\t1\tnot internal\n"
    with pytest.raises(SystemExit) as ended:
        plain.run(["topics", "describe", log.address, "absent"])
    assert ended.value.code == 2
    assert "no topic named absent" in capfd.readouterr().err


def test_options_and_arguments_may_stand_in_any_order() -> None:
    function = function_of("topics create")
    words = [["kafka://h:1"], ["-p", "4"], ["-o", "a=b"]]
    found = [plain.bound(function, [*itertools.chain(*each), "name"]) for each in itertools.permutations(words)]
    assert found[0] is not None
    assert all(each == found[0] for each in found)
