"""Small batches that were merged into one say what they said apart, in the same order."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.kafka.backend.appends import count_that_fit, merged
from penstock.records.batch import CRC_START, BatchHeader, crc32c, parse_header, verify_crc
from penstock.records.scalar_codec import Stored, encode_batch, stored_records

CRC_AT = 17
TIMES = st.integers(0, 1 << 42)
FIELDS = st.none() | st.binary(max_size=70)
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELDS), max_size=3).map(tuple)
RECORDS = st.builds(Stored, st.just(0), TIMES, st.just(True), FIELDS, FIELDS, HEADERS)
BATCHES = st.lists(st.lists(RECORDS, min_size=1, max_size=5), min_size=2, max_size=30)


def said(record: Stored) -> tuple[object, ...]:
    return record.timestamp_ms, record.timed, record.key, record.value, record.headers


def headers_of(batches: list[list[Stored]]) -> list[tuple[BatchHeader, memoryview]]:
    return [(parse_header(data), data) for data in map(encode_batch, batches)]


@given(BATCHES)
def test_nothing_is_lost_changed_or_moved(batches: list[list[Stored]]) -> None:
    data = merged(headers_of(batches))
    struct.pack_into(">I", data, CRC_AT, crc32c(data, CRC_START))
    header = parse_header(data)
    verify_crc(data, header)
    assert (header.length, header.last_offset_delta + 1) == (len(data), header.record_count)
    found = list(stored_records(data, 0))
    wanted = [record for batch in batches for record in batch]
    assert [said(record) for record in found] == [said(record) for record in wanted]
    assert [record.offset for record in found] == list(range(len(wanted)))
    assert header.max_timestamp == max(record.timestamp_ms for record in wanted)


def plain(size: int) -> BatchHeader:
    return parse_header(encode_batch([Stored(0, 1, True, None, b"x" * size, ())]))


def test_what_has_a_number_or_is_large_goes_alone_and_in_its_turn() -> None:
    small, large, numbered = plain(10), plain(300 << 10), plain(10)._replace(producer_id=7)
    assert count_that_fit([small, small, small]) == 3
    assert count_that_fit([small, small, numbered, small]) == 2
    assert count_that_fit([numbered, small]) == 1
    assert count_that_fit([large, small]) == 1
    assert count_that_fit([small, large]) == 1
    assert count_that_fit([plain(100 << 10)] * 5) == 2
    assert count_that_fit([small] * 5_000) == 2_000
    assert count_that_fit([small._replace(attributes=1), small]) == 1  # compressed
