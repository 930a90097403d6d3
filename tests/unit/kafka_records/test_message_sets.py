"""Message sets v0 and v1: wrappers, damage, lies and changes of format inside a run."""

import struct
import zlib

import pytest

from penstock.errors import CorruptBatch
from penstock.model import Codec
from penstock.protocols.kafka.wire.records import decode
from penstock.records import BatchBuilder
from penstock.records.batch import stamp
from penstock.records.compression import compress


def sized(part: bytes | None) -> bytes:
    return struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part


def message(
    offset: int, value: bytes | None, *, key: bytes | None = None, magic: int = 1, attributes: int = 0, time: int = 1000
) -> bytes:
    body = (
        struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"") + sized(key) + sized(value)
    )
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(offset: int, inner: bytes, *, codec: Codec = Codec.GZIP, magic: int = 1, attributes: int = 0) -> bytes:
    return message(offset, bytes(compress(codec, inner)), magic=magic, attributes=attributes | codec, time=5000)


def offsets(data: bytes, **options: int) -> list[int]:
    found: list[int] = decode(data, **options).batch.column("offset").to_pylist()  # type: ignore[arg-type]
    return found


def newest(base: int) -> bytes:
    builder = BatchBuilder()
    builder.append(b"k", b"v", 1000)
    data = builder.build()
    stamp(data, base, 0)
    return bytes(data)


INNER = b"".join(message(n, b"v%d" % n) for n in range(4))


def test_inner_offsets_of_v1_count_back_from_the_wrappers() -> None:
    assert offsets(wrapper(13, INNER)) == [10, 11, 12, 13]
    gap = message(0, b"a") + message(5, b"b")
    assert offsets(wrapper(20, gap)) == [15, 20]


def test_inner_offsets_of_v0_are_absolute() -> None:
    inner = b"".join(message(n, b"v", magic=0) for n in (70, 71, 75))
    assert offsets(wrapper(75, inner, magic=0)) == [70, 71, 75]


def test_log_append_time_of_a_wrapper_is_that_of_its_messages() -> None:
    found = decode(wrapper(3, INNER, attributes=8)).batch
    assert found.column("timestamp").view("int64").to_pylist() == [5_000_000] * 4
    assert found.column("timestampType").to_pylist() == [1] * 4


def test_a_range_inside_a_wrapper_has_its_records() -> None:
    data = wrapper(13, INNER) + message(14, b"x")
    assert offsets(data, start=12) == [12, 13, 14]
    assert offsets(data, start=11, stop=13) == [11, 12]
    assert decode(data, start=11, stop=13).next_offset == 13


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (wrapper(3, b""), "without messages"),
        (wrapper(3, INNER[:-1]), "damaged message"),
        (wrapper(3, message(0, b"v", magic=0)), "damaged message"),
        (wrapper(3, wrapper(3, INNER)), "damaged message"),
        (wrapper(2, INNER), "before the log's start"),
        (message(3, None, attributes=1), "without a value"),
        (message(3, b"not gzip", attributes=1), "not a gzip payload"),
        (message(3, b"v", attributes=5), "codec 5 is unknown"),
        (message(3, b"v", attributes=4), "codec 4 is unknown"),
        (message(-3, b"v"), "offset -3 is out of range"),
        (message(3, b"v")[:8] + struct.pack(">i", 21) + message(3, b"v")[12:], "too small for its format"),
        (message(3, b"v")[:8] + struct.pack(">i", -1) + message(3, b"v")[12:], "too small for its format"),
        (message(3, b"v")[:-5] + struct.pack(">i", -2) + b"v", "length -2 at byte 30 does not fit"),
        (message(3, b"v")[:-5] + struct.pack(">i", 2) + b"v", "length 2 at byte 30 does not fit"),
        (message(3, b"v")[:-5] + struct.pack(">i", 0) + b"v", "does not end at its size"),
        (message(3, b"v")[:-1] + b"w", "checksum of the message at byte 0"),
        (message(3, b"v", magic=3), "magic 3 at byte 16 is no format"),
        (message(3, b"v", magic=-1), "magic 255 at byte 16 is no format"),
    ],
)
def test_damage_is_said_by_the_read_that_begins_with_it(data: bytes, says: str) -> None:
    with pytest.raises(CorruptBatch, match=says):
        decode(data)
    for before in (message(1, b"good"), newest(1)):
        found = decode(before + data)
        assert found.batch.column("offset").to_pylist() == [1]
        assert (found.next_offset, found.consumed) == (2, len(before))


def test_messages_before_the_range_are_not_checked() -> None:
    spoiled = message(3, b"v")[:-1] + b"w"
    assert offsets(spoiled + message(4, b"x"), start=4) == [4]


def test_the_format_may_change_within_a_run() -> None:
    data = message(1, b"a", magic=0) + message(2, b"b") + newest(3) + message(4, b"c") + newest(5)
    found = decode(data)
    assert found.batch.column("offset").to_pylist() == [1, 2, 3, 4, 5]
    assert found.batch.column("timestampType").to_pylist() == [-1, 0, 0, 0, 0]
    assert (found.next_offset, found.consumed) == (6, len(data))
    assert offsets(data, start=2, stop=5) == [2, 3, 4]


def test_a_wrapper_may_not_inflate_beyond_the_limit() -> None:
    with pytest.raises(CorruptBatch, match="inflates to more than 50 bytes"):
        decode(wrapper(3, INNER), max_inflated_bytes=50)


def test_some_columns_of_old_messages() -> None:
    found = decode(wrapper(3, INNER), columns=["value", "topic"]).batch
    assert found.to_pydict() == {"value": [b"v0", b"v1", b"v2", b"v3"]}
