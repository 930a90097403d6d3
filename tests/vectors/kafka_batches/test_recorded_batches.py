"""What real brokers stored and sent decodes to what Kafka's own record classes read from it, with either kernel."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import kernels
from penstock.errors import CorruptBatch
from penstock.model import Codec
from penstock.protocols.kafka.wire.records import decode
from penstock.records.batch import ABORT, COMMIT, BatchHeader, as_array, batches, control_type, verify_crc
from penstock.records.compression import inflate
from tests.vectors.kafka_batches.recorded import Recorded, recordings, unhex

RECORDINGS = recordings()
NEWEST = [recorded for recorded in RECORDINGS if all(batch["magic"] == 2 for batch in recorded.batches)]
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


@pytest.fixture(params=["pure", "numba"])
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    with kernels.using(request.param):
        yield request.param


@pytest.fixture(params=RECORDINGS, ids=lambda recorded: recorded.name)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    found: Recorded = request.param
    return found


def as_row(record: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": unhex(record["key"]),
        "value": unhex(record["value"]),
        "offset": record["offset"],
        "timestamp": record["timestamp"] * 1000,
        "timestampType": TIMESTAMP_TYPES[batch["timestamp_type"]],
        "headers": [
            {"key": (unhex(key) or b"").decode(), "value": unhex(value)} for key, value in record.get("headers", [])
        ],
    }


def rows(data: bytes, **options: Any) -> list[dict[str, Any]]:
    batch = decode(data, **options).batch
    batch.validate(full=True)
    index = batch.schema.get_field_index("timestamp")
    found: list[dict[str, Any]] = batch.set_column(index, "timestamp", batch.column(index).view("int64")).to_pylist()
    return found


def test_there_are_recordings_of_every_format() -> None:
    assert {batch["magic"] for recorded in RECORDINGS for batch in recorded.batches} == {0, 1, 2}
    assert len(RECORDINGS) == 38


@pytest.mark.usefixtures("kernel")
def test_records_are_those_that_kafkas_own_reader_sees(recorded: Recorded) -> None:
    assert rows(recorded.data) == [as_row(record, batch) for record, batch in recorded.records()]


def test_reading_goes_on_after_the_last_batch(recorded: Recorded) -> None:
    found = decode(recorded.data)
    assert found.next_offset == recorded.batches[-1]["last_offset"] + 1
    assert found.consumed == sum(batch["size"] for batch in recorded.batches)


def test_any_range_of_offsets_has_exactly_its_records(recorded: Recorded) -> None:
    everything = rows(recorded.data)
    offsets = sorted({row["offset"] for row in everything})
    middle = offsets[len(offsets) // 2] if offsets else 0
    found = rows(recorded.data, start=middle)
    assert found == [row for row in everything if row["offset"] >= middle]
    found = rows(recorded.data, stop=middle)
    assert found == [row for row in everything if row["offset"] < middle]
    assert decode(recorded.data, start=middle, stop=middle).batch.num_rows == 0
    assert decode(recorded.data, stop=middle).next_offset == middle


def test_a_run_cut_anywhere_has_the_records_of_its_whole_batches(recorded: Recorded) -> None:
    sizes = [batch["size"] for batch in recorded.batches]
    whole = sum(sizes[:-1])
    expected = [as_row(*found) for found in recorded.records() if found[1] is not recorded.batches[-1]]
    for cut in (whole, whole + 1, whole + 16, whole + 17, whole + sizes[-1] - 1):
        found = decode(recorded.data, end=cut)
        assert (found.consumed, found.batch.num_rows) == (whole, len(expected))
    assert rows(recorded.data[: whole + 20]) == expected


def test_one_changed_byte_is_found_by_the_checksum(recorded: Recorded) -> None:
    first = recorded.batches[0]
    if not first["records"]:
        pytest.skip("an empty batch")
    data = bytearray(recorded.data)
    data[first["size"] - 1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        decode(data)


@pytest.mark.parametrize("recorded", NEWEST, ids=lambda recorded: recorded.name)
def test_batch_headers_are_those_that_kafkas_own_reader_sees(recorded: Recorded) -> None:
    scan = batches(recorded.data)
    headers = list(scan)
    assert scan.position == len(recorded.data)
    assert len(headers) == len(recorded.batches)
    for header, batch in zip(headers, recorded.batches, strict=True):
        verify_crc(recorded.data, header)
        assert described(header) == {name: batch[name] for name in described(header)}
        assert header.last_sequence == (
            -1 if header.base_sequence < 0 else header.base_sequence + header.last_offset_delta
        )
        assert header.record_count == len(batch["records"])


def described(header: BatchHeader) -> dict[str, Any]:
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "magic": header.magic,
        "size": header.length,
        "crc": header.crc,
        "compression": header.codec.name.lower(),
        "timestamp_type": {0: "CreateTime", 1: "LogAppendTime"}[header.timestamp_type],
        "max_timestamp": header.max_timestamp,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.transactional,
        "control": header.control,
    }


@pytest.mark.parametrize("recorded", NEWEST, ids=lambda recorded: recorded.name)
def test_control_records_say_commit_or_abort(recorded: Recorded) -> None:
    found = [
        control_type(as_array(inflate(header.codec, recorded.data[header.position + 61 : header.end])))
        for header in batches(recorded.data)
        if header.control
    ]
    types = {"COMMIT": COMMIT, "ABORT": ABORT}
    expected = [
        types[record["control_type"]] for batch in recorded.batches if batch["control"] for record in batch["records"]
    ]
    assert found == expected


def test_an_aborted_transaction_is_left_out_and_the_next_one_of_its_producer_is_not() -> None:
    recorded = next(found for found in RECORDINGS if found.name == "segment-4.3-transactions-0")
    aborted = next(batch for batch in recorded.batches if batch["base_offset"] == 3)
    found = rows(recorded.data, aborted=[(aborted["producer_id"], 3)])
    assert [row["offset"] for row in found] == [0, 1, 6]
    assert decode(recorded.data, aborted=[(aborted["producer_id"], 3)]).next_offset == 8


def test_every_codec_of_the_recordings_is_one_we_know() -> None:
    names = {batch["compression"] for recorded in RECORDINGS for batch in recorded.batches}
    assert names == {codec.name.lower() for codec in Codec}
