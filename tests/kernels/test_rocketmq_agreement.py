"""Both kernels say the same of any stored messages: the same rows, or the same error at the same byte."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import kernels
from penstock.errors import PenstockError
from penstock.protocols.rocketmq.kernels.interface import STORED_COLUMNS, rocket_kernel
from penstock.protocols.rocketmq.wire.columns import decode
from penstock.protocols.rocketmq.wire.message_format import is_inner_batch, read_stored, unwrapped
from penstock.protocols.rocketmq.wire.properties import read_record
from tests.kernels.rocketmq_messages import answers, spoiled_answers

MANY = settings(max_examples=4 * (settings.default or settings()).max_examples)


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    answered = []
    for name in ("pure", "numba"):
        with kernels.using(name):
            answered.append(work())
    return answered[0], answered[1]


def columns(batch: pa.RecordBatch) -> list[Any]:
    batch.validate(full=True)
    return [column.view("int64").to_pylist() if column.type == pa.timestamp("us", "UTC") else column.to_pylist()
            for column in batch.columns]  # fmt: skip


def decoded(*data: bytes, **options: Any) -> tuple[Any, ...]:
    try:
        found = decode(data, **options)
    except PenstockError as error:
        return type(error), str(error)
    return columns(found.batch), found.messages, found.filtered


@MANY
@given(answers(), st.sampled_from([None, "broker-a"]), st.booleans())
def test_good_messages_give_the_same_rows(data: bytes, node: str | None, check: bool) -> None:
    pure, numba = both(lambda: decoded(data, node=node, check_crcs=check))
    assert pure == numba


@MANY
@given(answers())
def test_rows_say_what_each_message_says_by_itself(data: bytes) -> None:
    """Two ways that share only the kernel's first pass: column by column, and one by one in plain Python."""
    found = decoded(data)
    try:
        single = [
            each for one in read_stored(data) for each in (unwrapped(one) if is_inner_batch(one.sys_flag) else [one])
        ]
        said = [read_record(one.properties, one.plain_body) for one in single]
    except PenstockError:
        assert len(found) == 2
        return
    key, value, offset, _, _, headers = found[0]
    assert (key, value) == ([one.key for one in said], [one.value for one in said])
    assert offset == [one.queue_offset for one in single]
    assert [[(pair["key"], pair["value"]) for pair in row] for row in headers] == [one.headers for one in said]


@MANY
@given(spoiled_answers(), st.booleans())
def test_spoiled_messages_give_the_same_rows_or_the_same_error(data: bytes, check: bool) -> None:
    pure, numba = both(lambda: decoded(data, check_crcs=check))
    assert pure == numba


@MANY
@given(st.one_of(st.binary(max_size=200), spoiled_answers()), st.integers(0, 5))
def test_a_fault_is_found_at_the_same_byte(data: bytes, room: int) -> None:
    def scanned() -> Any:
        source = np.frombuffer(data, np.uint8)
        table = np.full((room, STORED_COLUMNS), -5, np.int64)
        said = tuple(map(int, rocket_kernel().scan_messages(source, 0, len(data), table)))
        return said, table.tolist(), int(rocket_kernel().check_sums(source, table[: said[0]]))

    pure, numba = both(scanned)
    assert pure == numba


@given(
    answers(),
    st.lists(st.sampled_from(["key", "value", "offset", "timestamp", "timestampType", "headers"]), unique=True),
    st.integers(-1, 9),
    st.integers(0, 9),
    st.sets(st.sampled_from(["x", "true"])),
)
def test_part_of_it_is_the_part_of_the_whole(
    data: bytes, names: list[str], start: int, stop: int, tags: set[str]
) -> None:
    pure, numba = both(lambda: decoded(data, columns=names, start=start, stop=stop, tags=tags))
    assert pure == numba
    whole = decoded(data)
    if len(whole) == 3 and len(pure) == 3 and not tags:
        kept = [row for row, offset in enumerate(whole[0][2]) if start <= offset < stop]
        order = ["key", "value", "offset", "timestamp", "timestampType", "headers"]
        assert pure[0] == [[whole[0][order.index(name)][row] for row in kept] for name in names or ["offset"]]


@given(st.lists(answers(), max_size=4))
def test_small_answers_together_are_one_batch(parts: list[bytes]) -> None:
    pure, numba = both(lambda: decoded(*parts))
    assert pure == numba == decoded(b"".join(parts))
