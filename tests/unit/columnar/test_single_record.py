"""One record's batch, written at once, is what the general encoder writes; and its header is at hand, as read."""

from __future__ import annotations

import pytest

from penstock.records.batch import parse_header, verify_crc
from penstock.records.scalar_codec import Stored, batch_of, encode_batch, encode_single, stored_records
from penstock.records.scalar_writer import FewRows, encode_few
from penstock.records.validation import ValidatedBatch

HEADERS = (("tubemq.filter", b"red"), ("", b""), ("n", None), ("ü" * 70, b"x" * 20_000))


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("headers", [(), HEADERS[:1], HEADERS])
@pytest.mark.parametrize(("key", "value"), [(None, b"v"), (b"", None), (b"k" * 100, b"v" * 70_000), (b"k", b"")])
def test_as_the_general_encoder(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...], timed: bool
) -> None:
    record = Stored(0, 1_790_000_000_000, timed, key, value, headers)
    batch = encode_single(record)
    assert bytes(batch.data) == bytes(encode_batch([record]))
    assert batch.header == parse_header(batch.data)
    verify_crc(batch.data, batch.header)
    assert [*stored_records(batch.data, 0)] == [record]


@pytest.mark.parametrize(("key", "value"), [(b"k", None), (b"", b""), (b"k" * 100, b"v" * 70_000)])
def test_a_single_entry_of_a_journal_comes_with_its_header(key: bytes, value: bytes | None) -> None:
    batch = batch_of([(key, value)], 1_790_000_000_000)
    assert isinstance(batch, ValidatedBatch)
    assert bytes(batch.data) == bytes(encode_few(FewRows([key], [value], [1_790_000_000_000])))
    assert batch.header == parse_header(batch.data)
    within = batch_of([(key, value)], 1_790_000_000_000, 7, 1)
    assert isinstance(within, ValidatedBatch)
    assert within.header == parse_header(within.data)
    assert (within.header.producer_id, within.header.transactional) == (7, True)
