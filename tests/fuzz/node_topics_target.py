"""What a node reads of its own topics when it starts: transactional ids, offsets and groups, markers.

The checksum of each batch is mended first, half the time, so that damage gets behind it.
"""

import contextlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import CorruptBatch, PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.transactions import State, Transaction, entry_of, read_entry
from penstock.protocols.kafka.wire.stored_records import OffsetsLog
from penstock.records.batch import CRC_START, AbortedTransactions, batches, control_type, crc32c, end_marker
from penstock.records.scalar_codec import Ended, batch_of, entries_of
from penstock.store.log_state import from_bytes

_BATCHES = Path(__file__).resolve().parents[1] / "data" / "kafka" / "batches"


def run(data: bytes) -> str:
    """Each reader to its end, or to our error."""
    told = 0
    with contextlib.suppress(ValueError):  # the store makes an index anew that is none
        for entry in from_bytes(data, 0, 1 << 62):
            assert 0 <= entry.first < entry.last
            told += 1
    if zlib.crc32(data) % 2:
        data = _mended(data)
    faults = [fault for read in (_ids, _offsets, _markers) if (fault := _outcome(read, data))]
    return f"{bool(told)} {faults}"


def _outcome(read: object, data: bytes) -> str:
    assert callable(read)
    try:
        read(data)
    except PenstockError as error:
        return type(error).__name__
    return ""


def _ids(data: bytes) -> None:
    for each in entries_of(data):
        said = None if isinstance(each, Ended) or each.key is None else read_entry(each.key, each.value)
        if said is not None and said[1] is not None:
            assert said[1].transactional_id == said[0]
            assert said[1].state in State


def _offsets(data: bytes) -> None:
    for each in entries_of(data):
        assert each.position >= 0
        if not isinstance(each, Ended) and each.key is not None:
            OffsetsLog().read(each.key, each.value)


def _markers(data: bytes) -> None:
    aborted = AbortedTransactions([(1, 0)])
    for header in batches(data):
        aborted.skips(header.producer_id, header.last_offset, transactional=header.transactional)
        if header.control and control_type(data[header.position + 61 : header.end]) == 0:
            aborted.end(header.producer_id)


def _mended(data: bytes) -> bytes:
    found = bytearray(data)
    with contextlib.suppress(CorruptBatch):
        for header in batches(data):
            struct.pack_into(">I", found, header.position + 17, crc32c(data, header.position + CRC_START, header.end))
    return bytes(found)


def seeds() -> Iterator[bytes]:
    """Topics of a real broker, and records of ours."""
    for file in sorted([*_BATCHES.glob("*transaction*.bin"), *_BATCHES.glob("*consumer-offsets*.bin")]):
        data = file.read_bytes()
        for header in batches(data):
            yield data[header.position : header.end]
    for state in State:
        known = Transaction("tx", 7, 3, 60_000, state, frozenset({Partition("t", 1)}), 5, 6, True, 1, 2)
        batch = batch_of([entry_of(known)], 0)
        yield bytes(batch.data)
    for commit in (True, False):
        yield end_marker(7, 3, commit=commit, coordinator_epoch=2, now_ms=0)
    yield struct.pack(">hqqqq", 0, 7, 1, 5, 6)
