"""Lines by the block and by columns are the lines one by one, however the stream is cut and whatever stands in it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import input_batches as blocks_module
from penstock.cli.input_batches import LineBatch, blocks, json_batches, line_batches
from penstock.cli.sources import Outgoing, json_records, line_records
from penstock.errors import UsageError

PARTS = st.binary(max_size=20) | st.sampled_from([b"\n", b"\r\n", b"a:b\n", b"::\n", b":\n\n"])
STREAMS = st.lists(PARTS).map(b"".join)


class Trickling(io.BytesIO):
    """A stream of which every read gets no more than a few bytes, as from somebody who types."""

    def __init__(self, data: bytes, sizes: Sequence[int]) -> None:
        super().__init__(data)
        self._sizes = list(sizes)

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self._sizes.pop() if self._sizes else size)


@given(STREAMS, st.lists(st.integers(1, 9)))
def test_every_line_is_there_however_the_stream_is_cut(data: bytes, sizes: list[int]) -> None:
    found = list(blocks(Trickling(data, sizes)))
    assert b"".join(block.data for block in found) == data
    assert [line for block in found for line in block.lines().to_pylist()] == [
        line.removesuffix(b"\n") for line in io.BytesIO(data)
    ]
    assert [block.first for block in found] == [
        1 + sum(earlier.data.count(b"\n") for earlier in found[:at]) for at in range(len(found))
    ]


def test_a_line_that_has_come_is_not_kept_until_more_do() -> None:
    found = blocks(Trickling(b"one\ntwo\nthree", [6, 4]))
    assert next(found).data == b"one\n"


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "_LONGEST", 100)
    with pytest.raises(UsageError, match="line 2 has more than 100 bytes"):
        list(blocks(Trickling(b"short\n" + b"x" * 1_000, [30] * 40)))


Said = tuple[object, object, object, object]


def by_columns(batches: Iterable[LineBatch]) -> list[Outgoing]:
    """All that is sent."""
    return [said for batch in batches for said in (batch.one_by_one() if batch.table is None else rows(batch.table))]


def rows(table: pa.Table) -> Iterator[Outgoing]:
    """A table's rows as if they had been told one by one."""
    for row in table.to_pylist():
        value, key = (each.encode() if isinstance(each, str) else each for each in (row["value"], row.get("key")))
        time = row.get("timestamp")
        yield Outgoing(0, value, key, (), row.get("partition"), time and round(time.timestamp() * 1_000))


def outcome(found: Callable[[], Iterable[Outgoing]]) -> list[Said] | str:
    """What is sent, or what is said instead."""
    try:
        return [(each.value, each.key, each.partition, each.timestamp_ms) for each in found()]
    except UsageError as error:
        return str(error)


@given(STREAMS, st.sampled_from(["", ":", "b", "\\t", "::"]), st.lists(st.integers(1, 9)))
def test_columns_of_lines_say_what_the_lines_say(data: bytes, separator: str, sizes: list[int]) -> None:
    one_by_one = outcome(lambda: line_records(io.BytesIO(data), separator))
    assert outcome(lambda: by_columns(line_batches(Trickling(data, sizes), separator))) == one_by_one


TEXTS = st.text(max_size=5) | st.sampled_from(['"', "\\", "2013-01-01", "1", "null"])
VALUES = TEXTS | st.none() | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.just({"a": [1]})
OBJECTS = st.fixed_dictionaries(
    {"value": TEXTS | VALUES},
    optional={
        "key": TEXTS | st.none(),
        "partition": st.integers(0, 9) | st.none(),
        "timestamp": st.integers(0, 1 << 41) | st.none(),
        "offset": st.integers(0, 99),
        "topic": st.just("t"),
        "headers": st.just({}),
        "value_base64": st.just("AA=="),
    },
)
PLAIN = st.fixed_dictionaries({"value": TEXTS, "key": TEXTS, "partition": st.integers(0, 9), "timestamp": st.just(5)})
ODD_LINES = st.sampled_from([b"", b"{}", b'{"value": "a"}{"value": "b"}', b'{"value":', b'"x"}', b'{"v": 1}', b"\xff"])
UNESCAPED = OBJECTS.map(lambda each: json.dumps(each, ensure_ascii=False).encode("utf-8", "surrogatepass"))
USUAL = PLAIN.map(json.dumps).map(str.encode)


@given(st.lists(USUAL) | st.lists(OBJECTS.map(json.dumps).map(str.encode) | UNESCAPED | ODD_LINES))
def test_columns_of_json_say_what_the_objects_say(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    one_by_one = outcome(lambda: json_records(io.BytesIO(data)))
    assert outcome(lambda: by_columns(json_batches(io.BytesIO(data)))) == one_by_one


def test_what_consume_writes_is_read_by_columns() -> None:
    line = {"topic": "t", "partition": 3, "offset": 7, "timestamp": 5, "key": None, "value": '{"a": "ü"}'}
    (piece,) = json_batches(io.BytesIO(json.dumps(line).encode() + b"\n"))
    assert piece.table is not None
    assert outcome(lambda: rows(piece.table)) == [('{"a": "ü"}'.encode(), None, 3, 5)]
