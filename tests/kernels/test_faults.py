"""Every length, count and delta that can lie is found out by both kernels, at the byte where it stands."""

import struct

import pytest

from penstock.errors import CorruptBatch
from penstock.kernels.interface import Fault
from penstock.records import decode_v2
from penstock.records.decoding import corrupt
from tests.kernels.batches import Written, batch, sized, varint

FIRST = 61
"""Where the records of the only batch begin."""

CUT = b"\x80" * 10  # ten bytes that all say "there is more"


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


def body(*, delta: bytes = b"\0\0", key: bytes = b"\x01", value: bytes = b"\x01", headers: bytes = b"\0") -> bytes:
    """Attributes, the two deltas, key, value, headers."""
    return b"\0" + delta + key + value + headers


GOOD = record(body())

LIES = [
    (Fault.RECORD_LENGTH, varint(7) + body(), 0),
    (Fault.RECORD_LENGTH, varint(5) + body(), 0),
    (Fault.RECORD_LENGTH, varint(-1) + body(), 0),
    (Fault.RECORD_LENGTH, varint(-7) + body(), 0),  # in bits the right length and one more
    (Fault.RECORD_LENGTH, varint(2**62) + body(), 0),
    (Fault.RECORD_LENGTH, CUT, 0),
    (Fault.RECORD_LENGTH, b"\x80" * 7, 0),
    (Fault.TIMESTAMP_DELTA, record(b"\0" + CUT + bytes(6)), 2),
    (Fault.TIMESTAMP_DELTA, record(b"\0" + b"\x80" * 6), 2),
    (Fault.OFFSET_DELTA, record(body(delta=b"\0" + varint(1))), 3),
    (Fault.OFFSET_DELTA, record(body(delta=b"\0" + varint(-1))), 3),
    (Fault.OFFSET_DELTA, record(body(delta=b"\0" + varint(2**13))), 3),
    (Fault.OFFSET_DELTA, record(b"\0\0" + b"\xff" * 5), 3),
    (Fault.KEY_LENGTH, record(body(key=varint(-2))), 4),
    (Fault.KEY_LENGTH, record(body(key=varint(3))), 4),
    (Fault.KEY_LENGTH, record(body(key=varint(2**62))), 4),
    (Fault.VALUE_LENGTH, record(body(value=varint(-2))), 5),
    (Fault.VALUE_LENGTH, record(body(value=varint(-71) + b"x" * 70)), 6),
    (Fault.KEY_LENGTH, record(body(key=varint(-71) + b"x" * 70)), 5),
    (Fault.VALUE_LENGTH, record(body(value=varint(2))), 5),
    (Fault.VALUE_LENGTH, record(body(key=varint(2))), 7),
    (Fault.HEADER_COUNT, record(body(headers=varint(-1))), 6),
    (Fault.HEADER_COUNT, record(body(headers=varint(2) + bytes(3))), 6),
    (Fault.HEADER_COUNT, record(body(headers=varint(2**40) + bytes(30))), 6),
    (Fault.HEADER_COUNT, record(body(value=varint(1))), 7),
    (Fault.HEADER_KEY_LENGTH, record(body(headers=varint(1) + varint(-1) + b"\0")), 7),
    (Fault.HEADER_KEY_LENGTH, record(body(headers=varint(1) + varint(2) + b"k")), 7),
    (Fault.HEADER_VALUE_LENGTH, record(body(headers=varint(1) + varint(1) + b"k")), 9),
    (Fault.HEADER_VALUE_LENGTH, record(body(headers=varint(1) + sized(b"k") + varint(-2))), 9),
    (Fault.HEADER_VALUE_LENGTH, record(body(headers=varint(1) + sized(b"k") + varint(1))), 9),
    (Fault.RECORD_END, record(body() + b"\0"), 7),
    (Fault.RECORD_END, record(body(headers=varint(1) + b"\0\x01" + b"\0")), 9),
    (Fault.LEFTOVER, GOOD + b"\0", 7),
    (Fault.LEFTOVER, GOOD + GOOD, 7),
]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("fault", "records", "at"), LIES, ids=lambda value: value.name if isinstance(value, Fault) else ""
)
def test_a_lie_is_found_where_it_stands(fault: Fault, records: bytes, at: int) -> None:
    for before in (b"", GOOD + Written(b"key", b"x" * 300, 5, 0, [(b"h", None)]).encode()):
        count = 3 if before else 1
        with pytest.raises(CorruptBatch) as raised:
            decode_v2(batch(before + records, count, base_offset=40, last=0))
        expected = corrupt(fault, FIRST + len(before) + at, 40)
        assert str(raised.value) == str(expected)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("fault", "at", "form", "value"),
    [
        (Fault.BATCH_LENGTH, 8, ">i", 48),
        (Fault.BATCH_LENGTH, 8, ">i", -1),
        (Fault.MAGIC, 16, ">b", 1),
        (Fault.CODEC, 21, ">h", 7),
        (Fault.LAST_OFFSET_DELTA, 23, ">i", -1),
        (Fault.BASE_OFFSET, 0, ">q", -1),
        (Fault.BASE_OFFSET, 0, ">q", 2**63 - 1),
        (Fault.RECORD_COUNT, 57, ">i", -1),
    ],
)
def test_a_header_that_lies_is_found(fault: Fault, at: int, form: str, value: int) -> None:
    data = bytearray(batch(GOOD, 1))
    struct.pack_into(form, data, at, value)
    with pytest.raises(CorruptBatch) as raised:
        decode_v2(data)
    assert str(raised.value) == str(corrupt(fault, 0))
    # The same after a good batch: that one's record is returned, and the position counts from the buffer's start.
    found = decode_v2(batch(GOOD, 1) + data)
    assert (found.batch.num_rows, found.consumed) == (1, len(data))
    with pytest.raises(CorruptBatch) as raised:
        decode_v2(batch(GOOD, 1) + data, position=len(data))
    assert str(raised.value) == str(corrupt(fault, len(data)))


def test_every_fault_has_a_lie() -> None:
    found = {fault for fault, _, _ in LIES}
    headers = {
        Fault.BATCH_LENGTH,
        Fault.MAGIC,
        Fault.CODEC,
        Fault.LAST_OFFSET_DELTA,
        Fault.BASE_OFFSET,
        Fault.RECORD_COUNT,
    }
    assert found | headers == set(Fault) - {Fault.NONE}
