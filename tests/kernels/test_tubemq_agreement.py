"""Both kernels say the same of any TubeMQ messages: the same rows, or the same error; and write the same bytes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import kernels
from penstock.errors import PenstockError
from penstock.protocols.tubemq.wire import record_columns, records
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C
from penstock.protocols.tubemq.wire.protobuf import decode
from tests.kernels.tubemq_answers import answers, spoiled_answers

MANY = settings(max_examples=10 * (settings.default or settings()).max_examples)
ANY_MS = st.one_of(
    st.none(),
    st.sampled_from([-1, 0, 951_782_400_000, -60_000, -62_135_596_800_000, 253_402_300_740_000, 253_402_300_800_000]),
    st.integers(-(2**63), 2**63 - 1),
)
TEXTS = st.one_of(st.sampled_from(["tubemq.filter", "a", "", " a", "a,b", "é", "$penstock.key$"]), st.text(max_size=4))
BYTES = st.one_of(
    st.none(), st.sampled_from([b"", b"blue", b" x", b"a=b", b"\xff", "é".encode()]), st.binary(max_size=8)
)
ROWS = st.lists(st.tuples(BYTES, BYTES, ANY_MS, st.lists(st.tuples(TEXTS, BYTES), max_size=4)), min_size=1, max_size=5)


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


def decoded(data: bytes, **options: Any) -> tuple[Any, ...]:
    try:
        found = record_columns.decode(records.read_messages(memoryview(data)), **options)
    except PenstockError as error:
        return type(error), str(error)
    ids = found.message_ids.to_pylist()
    return columns(found.batch), ids, found.corrupt, found.first_corrupt, found.filtered


@MANY
@given(answers(), st.sets(st.sampled_from(["blue", "red", "green"])), st.booleans())
def test_good_answers_give_the_same_rows(data: bytes, filters: set[str], check: bool) -> None:
    pure, numba = both(lambda: decoded(data, filters=filters, check_crcs=check))
    assert pure == numba
    sent = decode(GetMessageResponseB2C, data).messages
    assert len(pure[1]) + pure[2] + pure[4] == len(sent)


@MANY
@given(
    answers(),
    st.lists(st.sampled_from(["key", "value", "offset", "timestamp", "timestampType", "headers"]), unique=True),
)
def test_columns_that_are_not_asked_for_are_not_missed(data: bytes, names: list[str]) -> None:
    pure, numba = both(lambda: decoded(data, columns=names))
    assert pure == numba


@MANY
@given(spoiled_answers(), st.booleans())
def test_spoiled_answers_give_the_same_rows_or_the_same_error(data: bytes, check: bool) -> None:
    pure, numba = both(lambda: decoded(data, check_crcs=check))
    assert pure == numba


@MANY
@given(st.binary(max_size=60))
def test_any_bytes_as_a_message_give_the_same_answer(data: bytes) -> None:
    answer = b"\x08\x01\x10\xc8\x01\x22" + bytes([len(data)]) + data
    pure, numba = both(lambda: decoded(answer, check_crcs=False))
    assert pure == numba


def rows_of(rows: list[Any]) -> pa.RecordBatch:
    headers = [[{"key": name, "value": value} for name, value in row[3]] for row in rows]
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in rows], pa.binary()),
            pa.array([row[1] for row in rows], pa.binary()),
            pa.array([row[2] for row in rows], pa.int64()),
            pa.array(headers, pa.list_(pair)),
        ],
        names=["key", "value", "timestamp", "headers"],
    )


@MANY
@given(ROWS, st.integers(0, 2))
def test_both_write_the_same_payloads(rows: list[Any], skipped: int) -> None:
    batch = rows_of(rows)[skipped:]

    def written() -> list[Any]:
        payloads = record_columns.encode(batch)
        ids = np.arange(len(payloads), dtype=np.int64) - 1
        each = [(bytes(payloads.payload(i)), payloads.msg_type(i), payloads.msg_time(i)) for i in range(len(payloads))]
        sums = [payloads.flags.tolist(), payloads.checksums.tolist()]
        return [each, sums, bytes(record_columns.write_messages(payloads, ids))]

    pure, numba = both(written)
    assert pure == numba
    assert pure[1][1] == [records.checksum(payload) for payload, _, _ in pure[0]]


@MANY
@given(ROWS)
def test_records_come_back_as_they_were(rows: list[Any]) -> None:
    """What Kafka's records can hold, TubeMQ's messages bring back: keys, nulls, any bytes in headers, their order."""
    batch = rows_of(rows)
    last = (2**63 - 1) // 1000
    expected = [
        [row[0] for row in rows],
        [row[1] for row in rows],
        [max(-last, min(-1 if row[2] is None else row[2], last)) * 1000 for row in rows],
        [[{"key": name, "value": value} for name, value in row[3]] for row in rows],
    ]

    def there_and_back() -> Any:
        payloads = record_columns.encode(batch)
        written = record_columns.write_messages(payloads, np.zeros(len(rows), np.int64))
        return decoded(b"\x08\x01\x10\xc8\x01" + bytes(written), columns=["key", "value", "timestamp", "headers"])

    pure, numba = both(there_and_back)
    assert pure == numba
    assert pure[0] == expected
    for row, payload in zip(rows, expected[0], strict=True):
        del payload
        time_ms = -1 if row[2] is None else max(-last, min(row[2], last))
        unpacked = records.unpack(*records.pack(row[0], row[1], row[3], time_ms))
        assert (unpacked.key, unpacked.value, unpacked.timestamp_ms) == (row[0], row[1], time_ms)
        assert unpacked.headers == tuple(row[3])
