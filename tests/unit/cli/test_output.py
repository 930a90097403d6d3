"""Results are a table on a terminal, tab-separated lines in a pipe, JSON lines on request; and options are merged."""

from __future__ import annotations

import json

import pytest

from penstock.cli.given import client_options, said_as
from penstock.cli.output import Cell, show, text
from penstock.cli.sinks import text_line
from penstock.model import Record

ROWS: list[dict[str, Cell]] = [{"name": "[red]", "lag": 1.25, "member": None}, {"name": "b", "lag": 0, "member": "m"}]
COLUMNS = ("name", "lag", "member")


def test_a_pipe_gets_a_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, COLUMNS, as_json=False, title="Groups")
    assert capsys.readouterr().out == "[red]\t1.2\t-\nb\t0\tm\n"


def test_a_terminal_gets_a_table_in_which_names_are_only_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    show(ROWS, COLUMNS, as_json=False, title="Groups")
    printed = capsys.readouterr().out
    assert "Groups" in printed
    assert "[red]" in printed
    assert all(name in printed for name in COLUMNS)


def test_json_keeps_numbers_and_absence(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, COLUMNS, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


@pytest.mark.parametrize(
    ("cell", "shown"), [("a\tb", "a\\tb"), ("a\nb", "a\\nb"), ("\x1b[31m", "\\x1b[31m"), ("ü", "ü"), (True, "True")]
)
def test_a_cell_is_one_line(cell: Cell, shown: str) -> None:
    assert text(cell) == shown


def test_bytes_that_are_no_text_are_escaped_for_people_only() -> None:
    record = Record("t", 0, 0, 0, b"k", b"\xff")
    assert text_line(record) == b"\xff\n"
    assert text_line(record, for_people=True) == b"\\xff\n"
    assert text_line(record, b": ") == b"k: \xff\n"


@pytest.mark.parametrize("name", ["auto_offset_reset", "auto.offset.reset", "auto-offset-reset"])
def test_a_default_gives_way_to_every_spelling(name: str) -> None:
    defaults = {"auto_offset_reset": "latest"}
    assert client_options("kafka://h", [f"{name}=earliest"], defaults) == {name: "earliest"}
    assert client_options(f"kafka://h/t?{name}=earliest", None, defaults) == {}
    assert client_options("kafka://h/t?group=g", ["client.id=c"], defaults) == {"client.id": "c", **defaults}


def test_a_configuration_file_says_everything() -> None:
    assert client_options("kafka://h", ["config_file=x.toml"], {"a": "b"}) == {"config_file": "x.toml"}


def test_a_group_is_a_group_under_each_of_its_names() -> None:
    assert said_as("group", {"group.id": "g"}) == "g"
    assert said_as("group", {"group": "g"}) == "g"
    assert said_as("group", {"client.id": "g"}) is None
