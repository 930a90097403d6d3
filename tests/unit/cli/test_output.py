"""Results are a table on a terminal, tab-separated lines in a pipe, JSON lines on request; and options are merged."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import scalar_text
from penstock.cli.arguments import all_said, client_options
from penstock.cli.output import Cell, show, text
from penstock.cli.record_text import json_lines, spelled_text, text_lines
from penstock.model import Partition
from penstock.records.messages import Part

ROWS: list[dict[str, Cell]] = [{"name": "[red]", "lag": 1.25, "member": None}, {"name": "b", "lag": 0, "member": "m"}]
COLUMNS = ("name", "lag", "member")


def test_a_pipe_gets_a_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, COLUMNS, as_json=False, title="Groups")
    assert capsys.readouterr().out == "[red]\t1.2\t-\nb\t0\tm\n"


def test_a_pipe_gets_the_names_of_columns_when_it_wants_them(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, COLUMNS, as_json=False, header=True)
    assert capsys.readouterr().out.splitlines()[0] == "name\tlag\tmember"


def test_a_terminal_gets_a_table_in_which_names_are_only_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(ROWS, COLUMNS, as_json=False, title="Groups")
    assert capsys.readouterr().out.splitlines() == [
        "Groups",
        "name   lag  member",
        "-----  ---  ------",
        "[red]  1.2  -",
        "b        0  m",
    ]


def test_json_keeps_numbers_and_absence(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, COLUMNS, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("a\tb", "a\\tb"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("ü", "ü"),
        (True, "internal"),
        (False, "not internal"),
    ],
)
def test_a_cell_is_one_line(cell: Cell, shown: str) -> None:
    assert text(cell, "internal") == shown


def part(values: list[bytes | None], keys: list[bytes | None] | None = None) -> Part:
    """Records as a consumer gets them, at offsets from 7."""
    rows = len(values)
    columns = {
        "key": pa.array(keys or [None] * rows, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "offset": pa.array(range(7, 7 + rows)),
        "timestamp": pa.array([1_999] * rows, pa.timestamp("us", "UTC")),
    }
    return Part(Partition("t", 3), pa.RecordBatch.from_pydict(columns), 7 + rows)


def test_bytes_that_are_no_text_are_escaped_for_people_only() -> None:
    one = part([b"\xff", None], [b"k", None])
    assert text_lines(one).to_pylist() == [b"\xff\n", b"\n"]
    assert scalar_text.text_lines(one, for_people=True) == b"\\xff\n\n"
    assert text_lines(one, b": ").to_pylist() == [b"k: \xff\n", b": \n"]
    assert scalar_text.text_lines(one, b": ") == b"k: \xff\n: \n"
    assert scalar_text.text_lines(one) == b"\xff\n\n"


@given(st.lists(st.none() | st.text().map(str.encode) | st.binary()), st.integers(0, 3))
def test_json_by_columns_is_what_json_makes_of_each(values: list[bytes | None], cut: int) -> None:
    rows = part(values)
    sliced = Part(rows.partition, rows.batch.slice(cut), rows.next_offset)
    assert [json.loads(line) for line in json_lines(sliced).to_pylist()] == [
        {"topic": "t", "partition": 3, "offset": 7 + place, "timestamp": 1, "key": None, **expected(value)}
        for place, value in enumerate(values)
        if place >= cut
    ]


def expected(value: bytes | None) -> dict[str, object]:
    try:
        return {"value": value if value is None else value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value or b"").decode()}


@given(st.lists(st.none() | st.text()))
def test_text_is_spelled_as_json_spells_it(texts: list[str | None]) -> None:
    column = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    assert spelled_text(column).to_pylist() == [json.dumps(text).encode() for text in texts]


@pytest.mark.parametrize("name", ["auto_offset_reset", "auto.offset.reset", "auto-offset-reset"])
def test_a_default_gives_way_to_every_spelling(name: str) -> None:
    defaults = {"auto_offset_reset": "latest"}
    assert client_options("kafka://h", [f"{name}=earliest"], defaults) == {name: "earliest"}
    assert client_options(f"kafka://h/t?{name}=earliest", None, defaults) == {}
    assert client_options("kafka://h/t?group=g", ["client.id=c"], defaults) == {"client.id": "c", **defaults}


def test_a_configuration_file_says_everything() -> None:
    assert client_options("kafka://h", ["config_file=x.toml"], {"a": "b"}) == {"config_file": "x.toml"}


def test_a_group_is_a_group_under_each_of_its_names() -> None:
    assert all_said("kafka://h/t?group.id=g", {}) == {"group": "g"}
    assert all_said("tubemq://h/t?group=f", {"consumerGroup": "g"}) == {"group": "g"}
    assert "group" not in all_said("kafka://h/t", {"client.id": "g"})
