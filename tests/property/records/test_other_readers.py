"""Other people's readers read our batches, we read theirs, and where bytes are determined they are the same."""

import warnings
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka.record._crecords.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record._crecords.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given

from penstock.model import Codec, Partition
from penstock.records import Messages, decode_v2
from penstock.records.batch import stamp
from tests.property.records.strategies import Sent, batches, builder_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    from kafka.record.default_records import DefaultRecordBatch as PythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

READERS = {"aiokafka": AioBatch, "kafka-python": PythonBatch}
WRITERS = {"aiokafka": AioBuilder, "kafka-python": PythonBuilder}
# kafka-python wants a library of its own for each of the other codecs.
PAIRS = [("aiokafka", codec) for codec in Codec] + [("kafka-python", Codec.NONE), ("kafka-python", Codec.GZIP)]

GOLDEN = bytes.fromhex(
    "00000000000000000000004d0000000002b8b499bc0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff"
    "000000021c000000046b31047631020268027818000a02010c76616c75653200"
)


def known_to_others(rows: Iterable[Sent]) -> list[Sent]:
    """Times that every reader takes: none of them is negative."""
    return [row._replace(timestamp_ms=abs(row.timestamp_ms)) for row in rows]


def write(builder: Any, rows: list[Sent], codec: Codec) -> bytes:
    made = builder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 30,
    )  # fmt: skip
    for offset, row in enumerate(rows):
        made.append(offset, row.timestamp_ms, row.key, row.value, row.headers)
    return bytes(made.build())


def read(reader: Any, data: bytes) -> list[Sent]:
    batch = reader(bytearray(data))
    assert batch.validate_crc()
    return [Sent(found.key, found.value, found.timestamp, list(found.headers)) for found in batch]


def test_the_golden_batch_is_written_and_read() -> None:
    rows = [
        Sent(b"k1", b"v1", 1_700_000_000_000, [("h", b"x")]),
        Sent(None, b"value2", 1_700_000_000_005, []),
    ]
    data = builder_of(rows).build()
    stamp(data, 0, 0)
    assert bytes(data) == GOLDEN
    found = decode_v2(GOLDEN)
    messages = Messages.of(Partition("t", 0), found.batch, found.next_offset)
    assert [Sent(each.key, each.value, each.timestamp_ms, list(each.headers)) for each in messages] == rows


@pytest.mark.parametrize(("name", "codec"), PAIRS)
@given(batches)
def test_they_read_ours(name: str, codec: Codec, rows: list[Sent]) -> None:
    rows = known_to_others(rows)
    assert read(READERS[name], bytes(builder_of(rows).build(codec))) == rows


@pytest.mark.parametrize(("name", "codec"), PAIRS)
@given(batches)
def test_we_read_theirs(name: str, codec: Codec, rows: list[Sent]) -> None:
    rows = known_to_others(rows)
    found = decode_v2(write(WRITERS[name], rows, codec))
    messages = Messages.of(Partition("t", 0), found.batch, found.next_offset)
    assert [Sent(each.key, each.value, each.timestamp_ms, list(each.headers)) for each in messages] == rows


@pytest.mark.parametrize("name", WRITERS)
@given(batches)
def test_uncompressed_batches_are_the_same_bytes(name: str, rows: list[Sent]) -> None:
    rows = known_to_others(rows)
    theirs = bytearray(write(WRITERS[name], rows, Codec.NONE))
    ours = builder_of(rows).build()
    stamp(theirs, 0, 0)
    stamp(ours, 0, 0)
    assert bytes(ours) == bytes(theirs)
