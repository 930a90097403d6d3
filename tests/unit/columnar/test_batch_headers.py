"""Batch headers that cannot be, runs that end in the middle, and what a log writes into a batch."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.errors import CorruptBatch
from penstock.model import Codec, TimestampType
from penstock.records import BatchBuilder, Producing
from penstock.records.batch import batches, crc32c, parse_header, stamp_append_time, verify_crc


def one(codec: Codec = Codec.NONE, producing: Producing | None = None) -> bytearray:
    builder = BatchBuilder()
    builder.append(b"k", b"value", 1_700_000_000_000)
    builder.append(None, b"other", 1_700_000_000_007)
    return bytearray(builder.build(codec, producing))


def test_crc32c_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    ("at", "form", "value", "says"),
    [
        (0, ">q", -1, "base offset -1 at byte 0"),
        (0, ">q", 2**63 - 1, "base offset"),
        (8, ">i", 48, "batch length 48 at byte 8"),
        (8, ">i", -5, "batch length -5 at byte 8"),
        (16, ">b", 1, "magic 1 at byte 16"),
        (16, ">b", -3, "magic -3 at byte 16"),
        (21, ">h", 5, "codec 5 at byte 21"),
        (23, ">i", -1, "last offset delta -1 at byte 23"),
        (57, ">i", -1, "record count -1 at byte 57"),
    ],
)
def test_a_header_that_cannot_be_is_refused_with_its_field(at: int, form: str, value: int, says: str) -> None:
    data = one()
    struct.pack_into(form, data, at, value)
    with pytest.raises(CorruptBatch, match=says):
        parse_header(data)
    with pytest.raises(CorruptBatch, match=says):
        next(batches(data))


def test_a_batch_that_is_not_there_as_a_whole_is_refused() -> None:
    data = one()
    for cut in (0, 10, 60, 61, len(data) - 1):
        with pytest.raises(CorruptBatch, match="cut off"):
            parse_header(data[:cut])
    with pytest.raises(CorruptBatch, match="cut off"):
        parse_header(data, -1)


def test_a_scan_stops_at_an_incomplete_tail_and_says_where() -> None:
    data = one() + one()
    whole = len(data) // 2
    for cut in range(whole, len(data)):
        scan = batches(data[:cut])
        assert [header.position for header in scan] == [0]
        assert scan.position == whole
    scan = batches(data, whole)
    assert next(scan).end == len(data)
    assert list(scan) == []


def test_a_changed_byte_anywhere_under_the_checksum_is_found() -> None:
    data = one()
    header = parse_header(data)
    verify_crc(data, header)
    for at in range(21, len(data)):
        spoiled = bytearray(data)
        spoiled[at] ^= 4
        with pytest.raises(CorruptBatch, match="checksum"):
            verify_crc(spoiled, header)


def test_append_time_is_written_with_a_new_checksum_in_the_middle_of_a_buffer() -> None:
    data = one() + one(Codec.ZSTD)
    second = len(one())
    stamp_append_time(memoryview(data), 1_800_000_000_000, second)
    first, last = batches(data)
    verify_crc(data, first)
    verify_crc(data, last)
    assert (first.timestamp_type, last.timestamp_type) == (TimestampType.CREATE, TimestampType.LOG_APPEND)
    assert (last.max_timestamp, last.codec) == (1_800_000_000_000, Codec.ZSTD)


def test_sequences_wrap_to_zero() -> None:
    header = parse_header(one(producing=Producing(1, 0, 2**31 - 1)))
    assert header.last_sequence == 0
    assert parse_header(one()).last_sequence == -1


def loaded_after(script: str) -> list[str]:
    """Which of the large libraries a process has loaded at the end."""
    script += "import sys\nprint(*[name for name in ('numpy', 'pyarrow', 'numba', 'pandas') if name in sys.modules])\n"
    source = Path(penstock.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    return ended.stdout.split()


def test_looking_at_headers_and_checksums_loads_no_large_library() -> None:
    script = "from penstock.records.batch import batches, stamp, stamp_append_time, verify_crc\n"
    script += f"data = bytearray({bytes(one())!r})\n"
    script += "stamp(data, 7, 1)\n"
    script += "stamp_append_time(data, 8)\n"
    script += (
        "for header in batches(data):\n    verify_crc(data, header)\n    verify_crc(memoryview(bytes(data)), header)\n"
    )
    assert loaded_after(script) == []


def test_inflating_does_without_pyarrow() -> None:
    script = "from penstock.records.compression import compress, inflate\n"
    script += "from penstock.model import Codec\n"
    script += "assert inflate(Codec.LZ4, compress(Codec.LZ4, b'data')) == b'data'\n"
    assert loaded_after(script) == ["numpy"]
