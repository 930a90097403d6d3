"""What a batch must be like to be stored: Kafka's checks of a Produce request's records, in Kafka's order.

The checksum is computed once, here; the log itself checks an idempotent producer's sequence. What must not live here:
appending.
Source: Kafka protocol, record batch v2 (KIP-98); Kafka's log validator.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final

from penstock._dataclasses import dataclass
from penstock.columnar.batch import APPEND_TIME, HEADER_BYTES, BatchHeader, InflatesTooFar
from penstock.columnar.checked import Checked, plain_records, true_head
from penstock.columnar.recompress import Target, recompressed, target_of
from penstock.columnar.record_walk import longest_record, record_heads, walk_records
from penstock.errors import CorruptBatch, PenstockError
from penstock.model import Codec
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.front.options import LARGEST_RECORD, KafkaFrontOptions
from penstock.seams.framing import Buffer

__all__ = [
    "QUICK_PLAIN",
    "Rules",
    "check_batch",
    "check_single",
    "inflates_too_far",
    "load_arrow",
    "loads_arrow",
    "looking_takes",
    "quick",
    "repacked",
    "rules_for",
]

_LENGTH_AFTER: Final = 12
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22
_CODEC: Final = 7
_KNOWN_CODECS: Final = len(Codec)
_ANY_AGE: Final = 2**63 - 1
_AHEAD_MS: Final = 3_600_000
"""How far a record's time may be ahead where nothing else is set: Kafka 4's default."""
_LIMITS: Final = {"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"}
_NO_TIME: Final = -1
_RATIO: Final = 32
"""How many times what the topic takes a batch may inflate to: text rarely shrinks to less than a thirtieth."""
_LEAST_INFLATED: Final = 1 << 20
_QUICK_PACKED, _QUICK_RECORDS = 64 << 10, 20_000
"""What can be looked into within a few milliseconds, in one request."""
QUICK_PLAIN: Final = 512 << 10
"""Bytes that a batch may inflate to where it is looked into at once."""
_SINGLE_BYTES: Final = 16 << 10
"""Plain batches up to this size are looked into at once."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a topic asks of batches. ``oldest_ms`` and ``newest_ms``: how far a record's time may be from now.

    With ``timed`` the topic itself says so. With ``append_time`` the log sets the time, whatever the producers' is.
    ``target`` is the codec they are stored with, where that is not their producer's choice.
    """

    max_bytes: int
    keyed: bool
    oldest_ms: int
    newest_ms: int
    check_records: bool
    max_inflated_bytes: int
    target: Target | None
    timed: bool = False
    append_time: bool = False
    max_record_bytes: int = LARGEST_RECORD
    """Of a compressed batch's records, each by itself."""

    @property
    def special(self) -> bool:
        """Whether single records have to be looked at, or batches are stored as others."""
        return self.keyed or self.oldest_ms < _ANY_AGE or self.target is not None

    @property
    def looks(self) -> bool:
        """Whether the records themselves are looked at."""
        return self.check_records or self.keyed or self.timed or self.max_record_bytes < LARGEST_RECORD


def rules_for(config: Mapping[str, str], options: KafkaFrontOptions) -> Rules:
    """The rules of a topic with these options set."""
    append_time = config.get("message.timestamp.type") == "LogAppendTime"
    max_bytes = int(config.get("max.message.bytes", options.max_message_bytes))
    return Rules(
        max_bytes,
        "compact" in config.get("cleanup.policy", ""),
        _ANY_AGE if append_time else int(config.get("message.timestamp.before.max.ms", _ANY_AGE)),
        _ANY_AGE if append_time else int(config.get("message.timestamp.after.max.ms", _AHEAD_MS)),
        options.check_records,
        min(options.max_inflated_bytes, max(_LEAST_INFLATED, _RATIO * max_bytes)),
        target_of(config),
        not append_time and not _LIMITS.isdisjoint(config),
        append_time,
        int(config.get("max.decompressed.message.bytes", LARGEST_RECORD)),
    )


def check_batch(records: Buffer | None, version: int, rules: Rules, now_ms: int, max_inflated_bytes: int) -> Checked:
    """The one batch in a partition's ``records``, inflated to so many bytes at most. Raises Refused, CorruptBatch."""
    if records is None or len(records) == 0:
        raise Refused(ErrorCode.INVALID_RECORD, "no batch")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != 2:
        raise Refused(ErrorCode.INVALID_RECORD, f"magic {records[_MAGIC_AT]}: only record batches v2 are taken")
    if len(records) < HEADER_BYTES:
        raise CorruptBatch(f"{len(records)} bytes are less than a batch header")
    (rest,) = struct.unpack_from(">i", records, 8)
    if rest + _LENGTH_AFTER > len(records) or rest < HEADER_BYTES - _LENGTH_AFTER:
        raise CorruptBatch(f"a batch length of {rest} with {len(records) - _LENGTH_AFTER} bytes left")
    if rest + _LENGTH_AFTER < len(records):
        raise Refused(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    _check_header(records, version, rules)
    checked = Checked(records)
    if rules.looks:
        try:
            return _look_at_records(checked, rules, now_ms, max_inflated_bytes)
        except InflatesTooFar as error:
            # Java's producer splits it then, and sends it again.
            why = f"{error.message}, the topic takes {rules.max_bytes} compressed"
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE, why) from error
        except CorruptBatch as error:
            # The checksum is right, so the producer meant it: sending it again, as CORRUPT_MESSAGE asks for, is vain.
            raise Refused(ErrorCode.INVALID_RECORD, error.message) from error
    if checked.header.attributes & APPEND_TIME:
        raise Refused(ErrorCode.INVALID_TIMESTAMP, "only the log itself sets its append time")
    if checked.header.delete_horizon_ms is not None:
        raise Refused(ErrorCode.INVALID_RECORD, "only the log itself sets a delete horizon")
    return checked


def check_single(records: memoryview, rules: Rules, now_ms: int) -> Checked | None:
    """A small, plain batch that `check_batch` would take as it is, from any version; None where it is for that."""
    if rules.special or not HEADER_BYTES < len(records) <= min(_SINGLE_BYTES, rules.max_bytes):
        return None
    try:
        batch = Checked(records)
        header = batch.header
        if (
            header.base_offset
            or header.attributes
            or not 0 < header.record_count == header.last_offset_delta + 1
            or (header.producer_id >= 0 and header.base_sequence < 0)
        ):
            return None
        if rules.looks:
            newest = header.base_timestamp + walk_records(records[HEADER_BYTES:], header.record_count).largest
            right = _NO_TIME <= newest == header.max_timestamp and newest <= now_ms + rules.newest_ms
            if not right and not rules.append_time:
                return None
    except CorruptBatch:
        return None
    return batch


def quick(batches: Iterable[Buffer | None]) -> bool:
    """Whether looking into all of these at once, each within `QUICK_PLAIN`, keeps nobody waiting."""
    packed = records = 0
    for batch in batches:
        if batch is not None and len(batch) >= HEADER_BYTES:
            packed += len(batch) if batch[_ATTRIBUTES_LOW_AT] & _CODEC else 0
            records += max(0, struct.unpack_from(">i", batch, HEADER_BYTES - 4)[0])
    return packed <= _QUICK_PACKED and records <= _QUICK_RECORDS


def looking_takes(records: Buffer | None, rules: Rules) -> int:
    """Bytes that looking into a batch takes at most: what it inflates to, and a copy of that."""
    if records is None or len(records) < HEADER_BYTES:
        return 0
    return 2 * rules.max_inflated_bytes if records[_ATTRIBUTES_LOW_AT] & _CODEC else len(records)


def inflates_too_far(fault: PenstockError) -> bool:
    """Whether that is all that is known to be wrong with a batch."""
    return isinstance(fault.__cause__, InflatesTooFar)


def repacked(batch: Checked, rules: Rules) -> Checked:
    """A batch that was checked, in the codec that the topic wants. Takes its time. Raises Refused."""
    assert rules.target is not None
    try:
        stored = recompressed(batch.data, rules.target, rules.max_inflated_bytes)
    except CorruptBatch as error:
        raise Refused(ErrorCode.INVALID_RECORD, error.message) from error
    _check_size(stored, rules)
    return Checked(stored)


def _check_size(records: Buffer, rules: Rules) -> None:
    if len(records) > rules.max_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(records)} bytes; the topic takes {rules.max_bytes}"
        )


def _check_header(records: Buffer, version: int, rules: Rules) -> None:
    """Fields that parse_header would call corrupt, or does not look at, and Kafka has codes for."""
    attributes, last_delta = struct.unpack_from(">hi", records, 21)
    producer, _, sequence, count = struct.unpack_from(">qhii", records, 43)
    codec = attributes & 7
    if codec == Codec.ZSTD and version < 7:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
    if codec >= _KNOWN_CODECS:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} is unknown")
    if struct.unpack_from(">q", records)[0] != 0:
        raise Refused(ErrorCode.INVALID_RECORD, "the base offset of a produced batch must be 0")
    _check_size(records, rules)
    if last_delta < 0 or count <= 0 or count != last_delta + 1:
        raise Refused(ErrorCode.INVALID_RECORD, f"{count} records with a last offset delta of {last_delta}")
    if attributes & 32:
        raise Refused(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if producer >= 0 and sequence < 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"producer {producer} sent no sequence number")
    if attributes & 16 and producer < 0:
        raise Refused(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")


def _look_at_records(checked: Checked, rules: Rules, now_ms: int, max_inflated_bytes: int) -> Checked:
    """Check the records, and the head against them. What a head says wrong of times is put right, as Kafka does."""
    header = checked.header
    plain = plain_records(checked.data, header, max_inflated_bytes)
    times = walk_records(plain, header.record_count)
    packed = header.attributes & _CODEC
    if packed and len(plain) > rules.max_record_bytes and longest_record(bytes(plain)) > rules.max_record_bytes:
        why = f"a record of more than {rules.max_record_bytes} bytes; see max.decompressed.message.bytes"
        raise Refused(ErrorCode.INVALID_RECORD, why)
    set_by_client = bool(header.attributes & APPEND_TIME)
    begin, end = now_ms - rules.oldest_ms, now_ms + rules.newest_ms
    within = begin <= header.base_timestamp + times.least and header.base_timestamp + times.largest <= end
    if rules.keyed or (not rules.append_time and not within) or (rules.append_time and set_by_client):
        _check_each(bytes(plain), header, rules, (begin, end))
    return true_head(checked, times, append_time=False if set_by_client else None)


def _check_each(plain: bytes, header: BatchHeader, rules: Rules, span: tuple[int, int]) -> None:
    """Raise Refused with the rows of a batch that are not taken. Wrong times come before missing keys in its code."""
    begin, end = span
    mistimed, keyless = {}, {}
    for row, (delta, _, keyed) in enumerate(record_heads(plain, header.record_count)):
        time = header.base_timestamp + delta
        if rules.append_time and header.attributes & APPEND_TIME:
            mistimed[row] = "the record has the type LogAppendTime, which only the log itself sets"
        elif not rules.append_time and time != _NO_TIME and not begin <= time <= end:
            mistimed[row] = f"timestamp {time} of record {row} is not within [{begin}, {end}]"
        elif rules.keyed and not keyed:
            keyless[row] = "a compacted topic's records need keys"
    if mistimed:
        why = "timestamps are wrong; see message.timestamp.before.max.ms, message.timestamp.after.max.ms"
        raise Refused(ErrorCode.INVALID_TIMESTAMP, why, rows=dict(sorted({**mistimed, **keyless}.items())))
    if keyless:
        raise Refused(ErrorCode.INVALID_RECORD, "a compacted topic's records need keys", rows=keyless)


def loads_arrow(records: Buffer | None) -> bool:
    """Whether to look into these means to load Arrow, which the loop must not wait for."""
    if records is None or len(records) < HEADER_BYTES or "penstock.columnar.compression" in sys.modules:
        return False
    return bool(records[_ATTRIBUTES_LOW_AT] & _CODEC)


def load_arrow() -> None:
    """Load what inflates; in a thread."""
    import_module("penstock.columnar.compression")
