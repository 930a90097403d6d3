"""Produce and InitProducerId.

`check_batch` has Kafka's checks of a batch, by the topic's `Rules`; `produce` serves requests in general, and
`produce_single` the most frequent one, a small batch for one partition, in less than half of the time.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.errors import CorruptBatch, PenstockError, ProtocolViolation, UpstreamLost
from penstock.interfaces.enode import Abilities, Appended, TopicState, extent
from penstock.interfaces.framing import Buffer, Pieces
from penstock.interfaces.front import Asker
from penstock.model import Codec, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server import refusals
from penstock.protocols.kafka.server.front import Call, Numbers, Shared, numbers_of
from penstock.protocols.kafka.server.limits import ClientConnection, is_internal
from penstock.protocols.kafka.server.refusals import Refused, bare, code_of
from penstock.protocols.kafka.server.topic_options import Rules, rules_for
from penstock.protocols.kafka.wire.framing import Template, read_header, response
from penstock.protocols.kafka.wire.produce import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from penstock.records.batch import (
    APPEND_TIME,
    BATCH_HEADER,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    InflatesTooFar,
    verify_crc,
)
from penstock.records.validation import (
    ValidatedBatch,
    longest_record,
    plain_records,
    recompressed,
    record_heads,
    true_head,
    walk_records,
)

__all__ = [
    "QUICK_PLAIN",
    "check_batch",
    "inflates_too_far",
    "init_producer_id",
    "looking_takes",
    "produce",
    "produce_single",
    "repacked",
]

# InitProducerId, for idempotent and for transactional producers.
#
# Source: Kafka protocol, InitProducerId v0-v5; KIP-98, KIP-360, KIP-588 (PRODUCER_FENCED from v4 on).

_FENCED_SINCE = 4


async def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Serve InitProducerId: a new id, or a transactional id's own in a new epoch."""
    if request.transactional_id is None:
        return await _idempotent(call)
    if not request.transactional_id or (request.producer_id < 0) != (request.producer_epoch < 0):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    if not call.shared.enode.abilities.transactions:
        # The code on which producers give up: after an unsupported version librdkafka would retry for ever.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    try:
        code, producer_id, epoch = await call.shared.transactions.init(
            request.transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
            call.connection.address.host,
        )
    except PenstockError:
        code, producer_id, epoch = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1
    if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


async def _idempotent(call: Call) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await call.shared.producer_ids.idempotent(), producer_epoch=0)
    except PenstockError:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1)


# Checks of a batch before it is stored: Kafka's checks of a Produce request's records, in Kafka's order.
#
# The checksum is computed once, here; the log itself checks an idempotent producer's sequence. Source: Kafka protocol,
# record batch v2 (KIP-98); Kafka's log validator.

_LENGTH_AFTER: Final = 12
_MAGIC_AT: Final = 16
_CODEC_AT: Final = 22
_CODEC: Final = 7
_KNOWN_CODECS: Final = len(Codec)
_ZSTD_SINCE: Final = 7
_NO_TIME: Final = -1
_COUNT: Final = struct.Struct(">i")
_AT_ONCE, _PACKED_BYTES = 20_000, 3
"""The records of one request that can be checked within a few milliseconds, and the compressed bytes that count as one
record."""
_ANY_SIZE: Final = 2**63 - 1
QUICK_PLAIN: Final = 512 << 10
"""The largest inflated batch, in bytes, that is checked on the event loop."""


def check_batch(
    records: Buffer | None, version: int, rules: Rules, now_ms: int, max_inflated_bytes: int
) -> ValidatedBatch:
    """Check that ``records`` are one valid batch; inflates at most so many bytes. Raises Refused, CorruptBatch."""
    if records is None or len(records) == 0:
        raise Refused(ErrorCode.INVALID_RECORD, "no batch")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != 2:
        raise Refused(ErrorCode.INVALID_RECORD, f"magic {records[_MAGIC_AT]}: only record batches v2 are taken")
    if len(records) < HEADER_BYTES:
        raise CorruptBatch(f"{len(records)} bytes are less than a batch header")
    fields = BATCH_HEADER.unpack_from(records)
    base, rest, epoch, magic, crc, attributes, last_delta, first_ms, newest_ms, producer, era, sequence, count = fields
    if rest + _LENGTH_AFTER > len(records) or rest < HEADER_BYTES - _LENGTH_AFTER:
        raise CorruptBatch(f"a batch length of {rest} with {len(records) - _LENGTH_AFTER} bytes left")
    if rest + _LENGTH_AFTER < len(records):
        raise Refused(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    codec = attributes & _CODEC
    if codec == Codec.ZSTD and version < _ZSTD_SINCE:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version {_ZSTD_SINCE}")
    if codec >= _KNOWN_CODECS:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} is unknown")
    if base != 0:
        raise Refused(ErrorCode.INVALID_RECORD, "the base offset of a produced batch must be 0")
    if len(records) > rules.max_bytes:
        raise _too_large(records, rules)
    if last_delta < 0 or count <= 0 or count != last_delta + 1:
        raise Refused(ErrorCode.INVALID_RECORD, f"{count} records with a last offset delta of {last_delta}")
    if attributes & CONTROL:
        raise Refused(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if producer >= 0 and sequence < 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"producer {producer} sent no sequence number")
    if attributes & TRANSACTIONAL and producer < 0:
        raise Refused(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")
    header = BatchHeader(
        base, len(records), epoch, magic, crc, attributes, last_delta, first_ms, newest_ms, producer, era, sequence,
        count, 0,
    )  # fmt: skip
    verify_crc(records, header)
    checked = ValidatedBatch.known(records, header)
    if rules.looks:
        try:
            return _look_at_records(checked, rules, now_ms, max_inflated_bytes)
        except InflatesTooFar as error:
            # Java's producer then splits the batch, and sends it again.
            why = f"{error.message}, the topic takes {rules.max_bytes} compressed"
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE, why) from error
        except CorruptBatch as error:
            # The checksum is right, so the producer wrote it this way. CORRUPT_MESSAGE would make it retry without
            # success.
            raise Refused(ErrorCode.INVALID_RECORD, error.message) from error
    if attributes & APPEND_TIME:
        raise Refused(ErrorCode.INVALID_TIMESTAMP, "only the log itself sets its append time")
    if attributes & DELETE_HORIZON:
        raise Refused(ErrorCode.INVALID_RECORD, "only the log itself sets a delete horizon")
    return checked


def _too_large(records: Buffer, rules: Rules) -> Refused:
    return Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(records)} bytes; the topic takes {rules.max_bytes}")


def looking_takes(records: Buffer | None, rules: Rules | None) -> int:
    """The most memory, in bytes, that checking a batch needs: the inflated records and a copy."""
    if records is None or rules is None or len(records) < HEADER_BYTES:
        return 0
    return 2 * rules.max_inflated_bytes if records[_CODEC_AT] & _CODEC else len(records)


def inflates_too_far(fault: PenstockError) -> bool:
    """Whether inflating too far is the only known fault of a batch."""
    return isinstance(fault.__cause__, InflatesTooFar)


def repacked(batch: ValidatedBatch, rules: Rules) -> ValidatedBatch:
    """A checked batch in the topic's codec. Slow: runs in a thread. Raises Refused."""
    assert rules.target is not None
    try:
        stored = recompressed(batch.data, rules.target, rules.max_inflated_bytes)
    except CorruptBatch as error:
        raise Refused(ErrorCode.INVALID_RECORD, error.message) from error
    if len(stored) > rules.max_bytes:
        raise _too_large(stored, rules)
    return ValidatedBatch(stored)


def _look_at_records(checked: ValidatedBatch, rules: Rules, now_ms: int, max_inflated_bytes: int) -> ValidatedBatch:
    """Check the records, and the header against them. Wrong times in the header are corrected, as Kafka does."""
    header = checked.header
    packed = header.attributes & _CODEC
    plain: bytes | memoryview
    if packed:
        plain = plain_records(checked.data, header, max_inflated_bytes)
    else:
        plain = memoryview(checked.data)[HEADER_BYTES:]
    times = walk_records(plain, header.record_count)
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
    """Raise Refused with the refused rows of a batch. A wrong time takes precedence over a missing key in its code."""
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


# Produce: checks each partition's batch, appends the valid ones, and returns one result for each.
#
# Source: Kafka protocol, Produce v0-v13; KIP-516 (topic ids in v13); the checks follow `Rules`.

_LUMP_PARTS, _LUMP_BYTES, _LUMP_STEPS = 50, 8 << 20, 1_000
"""The most that is appended without yielding. A log's first batch takes half a millisecond: it creates files."""
_OLDEST_SERVED = 3
_ABORTABLE_SINCE = 11
_TAKES_PART_SINCE = 12
_TOPIC_IDS_SINCE = 13
_PRODUCER, _PRODUCER_AT = struct.Struct(">qh"), 43
_ATTRIBUTES_LOW_AT = 22
_PART_STEPS = 2
_KEPT: Final = 4_096
"""Topics whose rules are kept."""


class _Part(Struct):
    """One partition's batch, or its error. ``topic``: None if it was not found."""

    partition: Partition
    records: Buffer | None
    topic: TopicState | None
    rules: Rules | None
    fault: PenstockError | None
    batch: ValidatedBatch | None = None


async def produce(call: Call, request: ProduceRequest) -> ProduceResponse | None:
    """Serve Produce. With acks=0 there is no response, so an error closes the connection to make the client notice."""
    pace, transactional_id = call.pace, request.transactional_id
    fault = _request_fault(call, request)
    parts: list[_Part] = []
    slow: list[_Part] = []
    allowance = _AT_ONCE
    for asked in request.topic_data:
        name, topic, rules, topic_fault = await _topic(call, asked)
        for each in asked.partition_data:
            if pace.used(1, _PART_STEPS):
                await pace.rest()
            part = _Part(Partition(name, each.index), each.records, topic, rules, fault or topic_fault)
            parts.append(part)
            if part.fault is None and (topic is None or not 0 <= each.index < topic.partitions):
                part.fault = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
            if part.fault is None:
                allowance -= _effort(each.records)
                if allowance < 0 or not _check(call, part, transactional_id, QUICK_PLAIN):
                    slow.append(part)
    if slow:
        await _check_slowly(call, slow, transactional_id)
    refusal = ErrorCode.NONE if transactional_id is None else await _take_part(call, transactional_id, parts)
    results = await _append(call, transactional_id, parts, refusal)
    if request.acks == 0:
        _hang_up_on_errors(parts, results)
        return None
    responses = []
    row = 0
    for asked in request.topic_data:
        answers = []
        for each in asked.partition_data:
            result = results[row]
            if isinstance(result, PenstockError):
                await pace.spend(0, _PART_STEPS)
                answers.append(await _refused(call, parts[row].partition, result))
            else:
                answers.append(
                    ProduceResponsePartition(
                        index=each.index,
                        base_offset=result.base_offset,
                        log_append_time_ms=result.append_time_ms,
                        log_start_offset=result.log_start_offset,
                    )
                )
            row += 1
        await pace.spend(0, len(answers) / 10)
        responses.append(ProduceResponseTopic(name=asked.name, topic_id=asked.topic_id, partition_responses=answers))
    return ProduceResponse(responses=responses)


async def _topic(
    call: Call, asked: ProduceRequestTopic
) -> tuple[str, TopicState | None, Rules | None, PenstockError | None]:
    """A topic's name, its state and rules, and the error that all its partitions have."""
    enode, name = call.shared.services.enode, asked.name
    topic: TopicState | None = None
    try:
        if call.version < _TOPIC_IDS_SINCE:
            topic = await enode.topic(name)
        else:
            topic = await enode.topic_by_id(asked.topic_id)
            if topic is None:
                return "", None, None, Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
            name = topic.name
        if is_internal(name):
            return name, topic, None, Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic")
        rules = None if topic is None else _rules(call.shared, topic, await enode.defaults())
    except PenstockError as error:
        return name, topic, None, error
    return name, topic, rules, None


def _rules(shared: Shared, topic: TopicState, defaults: Mapping[str, str]) -> Rules:
    """The topic's rules; made again only if the topic or the defaults have changed."""
    known = shared.rules.get(topic.name)
    if known is not None and known[0] is topic and known[1] is defaults:
        return known[2]
    if len(shared.rules) >= _KEPT:
        shared.rules.clear()
    rules = rules_for({**defaults, **topic.config} if defaults else topic.config, shared.options)
    shared.rules[topic.name] = (topic, defaults, rules)
    return rules


def _effort(records: Buffer | None) -> int:
    """The work of checking a batch, in the unit of `_AT_ONCE`."""
    if records is None or len(records) < HEADER_BYTES:
        return 0
    effort: int = _COUNT.unpack_from(records, HEADER_BYTES - _COUNT.size)[0]
    if records[_CODEC_AT] & _CODEC:
        effort += len(records) // _PACKED_BYTES
        if "penstock.records.compression" not in sys.modules:  # it loads Arrow, which would block the event loop
            effort += _AT_ONCE
    return effort if effort > 0 else 0


def _check(call: Call, part: _Part, transactional_id: str | None, most: int) -> bool:
    """Check a batch, or set its error. False if it inflates to more than ``most`` bytes, but not more than it may."""
    shared, rules = call.shared, part.rules
    assert rules is not None
    most = min(rules.max_inflated_bytes, most)
    try:
        batch = check_batch(part.records, call.version, rules, shared.services.runtime.now_ms(), most)
        header = batch.header
        if bool(header.attributes & TRANSACTIONAL) != (transactional_id is not None):
            why = "transactional are both, the request and its batches, or neither"
            raise Refused(ErrorCode.INVALID_TXN_STATE, why)
        if header.producer_id >= 0:
            _check_abilities(shared.enode.abilities_of(part.partition.topic), header)
    except PenstockError as error:
        if most < rules.max_inflated_bytes and inflates_too_far(error):
            return False
        part.fault = bare(error)
        return True
    part.batch = batch
    return rules.target is None or rules.target.meets(batch.data)


async def _check_slowly(call: Call, parts: Sequence[_Part], transactional_id: str | None) -> None:
    """Check these in a thread, and recompress them if their topics require it."""
    worker = call.shared.worker
    for part in parts:
        if part.batch is None:
            check = partial(_check, call, part, transactional_id, _ANY_SIZE)
            await worker.run(check, looking_takes(part.records, part.rules))
    due = [
        (part, part.batch, part.rules)
        for part in parts
        if part.batch and part.rules and part.rules.target and not part.rules.target.meets(part.batch.data)
    ]
    if not due:
        return

    def repack() -> None:
        for part, batch, rules in due:
            try:
                part.batch = repacked(batch, rules)
            except PenstockError as error:
                part.fault = bare(error)

    takes = max(looking_takes(part.records, rules) for part, _, rules in due)
    await worker.run(repack, takes + sum(len(batch) for _, batch, _ in due))


async def _append(
    call: Call, transactional_id: str | None, parts: Sequence[_Part], refusal: ErrorCode
) -> list[Appended | PenstockError]:
    """Append the batches without errors; yields to the event loop between parts of a large request."""
    shared = call.shared
    abilities = shared.enode.abilities
    numbered = abilities.numbered and not abilities.sequences
    if numbered and shared.failed_sequences:
        _check_numbers(shared, parts)
    results: list[Appended | PenstockError] = []
    for lump in _lumps(parts):
        if len(lump) < len(parts):
            await shared.turns.take(_LUMP_STEPS)
        if call.version >= _TOPIC_IDS_SINCE:
            await _check_ids(shared, lump)
        if transactional_id is None:
            results += await shared.enode.append_all(_good(lump))
        else:
            with shared.transactions.appending(transactional_id):
                _check_transactions(call, transactional_id, lump, refusal)
                results += await shared.enode.append_all(_good(lump))
    if len(results) < len(parts):
        stored = iter(results)
        results = [part.fault or next(stored) for part in parts]
    if numbered:
        _note_numbers(shared, parts, results)
    return results


def _good(parts: Sequence[_Part]) -> list[tuple[Partition, ValidatedBatch]]:
    return [(part.partition, part.batch) for part in parts if part.fault is None and part.batch is not None]


async def _check_ids(shared: Shared, parts: Sequence[_Part]) -> None:
    """Refuse batches for a topic that was deleted, and perhaps recreated, while they were checked."""
    for part in parts:
        if part.fault is None and part.topic is not None:
            try:
                found = await shared.enode.topic_by_id(part.topic.id)
            except UpstreamLost as error:
                part.fault = error
                continue
            if found is None or found.name != part.partition.topic:
                part.fault = Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")


def _numbered(parts: Sequence[_Part]) -> Iterator[tuple[int, Numbers]]:
    """Rows with a producer's sequence numbers."""
    for row, part in enumerate(parts):
        if (numbers := numbers_of(part.records)) is not None:
            yield row, numbers


def _check_numbers(shared: Shared, parts: Sequence[_Part]) -> None:
    for row, numbers in _numbered(parts):
        part = parts[row]
        try:
            shared.failed_sequences.check(part.partition, numbers)
        except PenstockError as error:
            part.fault = part.fault or bare(error)


def _note_numbers(shared: Shared, parts: Sequence[_Part], results: Sequence[Appended | PenstockError]) -> None:
    for row, numbers in _numbered(parts):
        result = results[row]
        shared.failed_sequences.note(
            parts[row].partition, numbers, result if isinstance(result, PenstockError) else None
        )


def _lumps(parts: Sequence[_Part]) -> list[Sequence[_Part]]:
    if len(parts) == 1:
        return [parts]
    lumps = []
    begin = size = 0
    for row, part in enumerate(parts):
        takes = len(part.batch) if part.batch else 0
        if row > begin and (row - begin >= _LUMP_PARTS or size + takes > _LUMP_BYTES):
            lumps.append(parts[begin:row])
            begin, size = row, 0
        size += takes
    return [*lumps, parts[begin:]]


def _request_fault(call: Call, request: ProduceRequest) -> PenstockError | None:
    """The error of the request as a whole; None if it has none."""
    if request.acks not in (-1, 0, 1):
        return Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {request.acks}")
    if request.transactional_id is None:
        for topic in request.topic_data:
            for part in topic.partition_data:
                records = part.records
                if records is not None and len(records) >= HEADER_BYTES and records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL:
                    # As a broker does: without a transactional id nothing transactional may be written, so the whole
                    # request is refused.
                    return Refused(
                        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                        "a transactional batch without transactional id",
                    )
    if call.version < _OLDEST_SERVED:
        return Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats 0 and 1 are not taken")
    return None


async def _take_part(call: Call, transactional_id: str, parts: Sequence[_Part]) -> ErrorCode:
    """From v12 on a batch also adds its partition to the transaction (KIP-890)."""
    if call.version < _TAKES_PART_SINCE:
        return ErrorCode.NONE
    partitions: dict[tuple[int, int], list[Partition]] = {}
    for part in parts:
        await call.pace.spend(0, 0.1)
        if isinstance(part.fault, UpstreamLost):
            return code_of(part.fault)
        there = part.topic is not None and part.rules is not None and 0 <= part.partition.id < part.topic.partitions
        able = there and call.shared.enode.abilities_of(part.partition.topic).transactions
        if able and part.records is not None and len(part.records) >= HEADER_BYTES:
            producer = _PRODUCER.unpack_from(part.records, _PRODUCER_AT)
            partitions.setdefault(producer, []).append(part.partition)
    for (producer_id, epoch), of_producer in partitions.items():
        try:
            code = await call.shared.transactions.add(transactional_id, producer_id, epoch, of_producer, second=True)
        except PenstockError:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code:
            return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
    return ErrorCode.NONE


def _check_abilities(abilities: Abilities, header: BatchHeader) -> None:
    """If the log behind has no producers or no transactions, answer as brokers with an old log format do."""
    if not abilities.numbered and header.producer_id >= 0:
        raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "the log behind this topic has no sequence numbers")
    if not abilities.transactions and header.transactional:
        raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "the log behind this topic has no transactions")


def _check_transactions(call: Call, transactional_id: str | None, parts: Sequence[_Part], refusal: ErrorCode) -> None:
    """Call this within `appending`: the transaction then cannot end between this check and the append."""
    if transactional_id is None:
        return
    for part in parts:
        if part.fault is None and part.batch:
            header = part.batch.header
            code = call.shared.transactions.may_write(
                transactional_id, header.producer_id, header.producer_epoch, part.partition
            )
            if code is ErrorCode.INVALID_TXN_STATE and call.version >= _ABORTABLE_SINCE:
                code = ErrorCode.TRANSACTION_ABORTABLE
            if refusal or code:
                words = f"transactional id {transactional_id!r} may not write here now"
                part.fault = Refused(refusal or code, words)
            part.batch.transaction_v2 = call.version >= _TAKES_PART_SINCE


def _hang_up_on_errors(parts: Sequence[_Part], results: Sequence[Appended | PenstockError]) -> None:
    for part, result in zip(parts, results, strict=True):
        if isinstance(result, PenstockError):
            raise ProtocolViolation(
                f"produced with acks=0 and refused: {result.message}",
                topic=part.partition.topic,
                partition=part.partition.id,
            )


async def _refused(call: Call, partition: Partition, error: PenstockError) -> ProduceResponsePartition:
    """One partition's part of the response, if its batch is not stored."""
    rows = error.rows if isinstance(error, Refused) else {}
    return ProduceResponsePartition(
        index=partition.id,
        error_code=code_of(error),
        base_offset=-1,
        log_start_offset=await _start(call, partition) if rows else -1,
        record_errors=[
            ProduceResponseRecordError(batch_index=row, batch_index_error_message=why) for row, why in rows.items()
        ],
        error_message=error.message,
    )


async def _start(call: Call, partition: Partition) -> int:
    try:
        return (await extent(call.shared.enode, partition)).start
    except PenstockError:  # deleted while the other batches were written
        return -1


# Produce of one small batch, the most frequent request: the same checks and response as `produce`, and nothing else.
#
# Any unusual request (several topics, transactions, compression, a refusal) is left to `produce`, which alone reports
# errors. Source: Kafka protocol, Produce v5-v13 (topic ids in v13: KIP-516).

_PRODUCE: Final = 0
_SINGLE_FIRST, _SINGLE_FLEXIBLE, _SINGLE_IDS_SINCE, _SINGLE_LAST = 5, 9, 13, 13
_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_OLD: Final = struct.Struct(">hhiih")
_NEW: Final = struct.Struct(">BBhiBB")
"""The fields after it: (tags,) transactional id, acks, timeout, number of topics, length of the name."""
_BY_ID: Final = struct.Struct(">BBhiB16s")
"""With the topic's id instead of its name."""
_OLD_PART: Final = struct.Struct(">iii")
_NEW_PART: Final = struct.Struct(">Bi")
"""Number of partitions, the partition(, length of its records)."""
_RUN: Final = struct.Struct(">ihqqq")
"""In the response: partition, code, base offset, append time, log start."""
_SHOWN: Final = (0x5A5A5A5A, 0x5A5A, *(3 * (0x5A5A5A5A_5A5A5A5A,)))
_NO_TAGS: Final = b"\0\0\0"
_SINGLE_BYTES: Final = 16 << 10
"""The largest batch: its records are checked within a millisecond."""


class _Asked(NamedTuple):
    topic: str | bytes
    """Name, or id from v13 on."""
    partition: int
    records: memoryview
    version: int
    correlation: int


async def produce_single(shared: Shared, connection: ClientConnection, body: memoryview) -> Pieces | None:
    """The response, or None for a request that is left to `produce`."""
    asked = _read(body)
    if asked is None:
        return None
    enode, called = shared.enode, asked.topic
    try:
        topic = await (enode.topic(called) if isinstance(called, str) else enode.topic_by_id(called))
        if topic is None or is_internal(topic.name) or not 0 <= asked.partition < topic.partitions:
            return None
        rules = _rules(shared, topic, await enode.defaults())
        if rules.target is not None:
            return None
        batch = check_batch(asked.records, asked.version, rules, shared.services.runtime.now_ms(), 0)
    except PenstockError:
        return None
    if batch.header.producer_id >= 0 and not (enode.abilities.sequences and enode.abilities_of(topic.name).numbered):
        return None  # only `produce` knows the producer's failed batches
    partition = Partition(topic.name, asked.partition)
    (result,) = await enode.append_all(((partition, batch),))
    if isinstance(result, PenstockError):
        refusals.begin()  # keeps this request's notes apart
        said = await _refused(Call(shared, connection, asked.version, "", shared.pace()), partition, result)
        shared.meter.refused(_PRODUCE, said.error_code)
        shared.meter.tell(
            Asker(read_header(body)[0].client_id or "", connection.address),
            _PRODUCE,
            said.error_code,
            topic=partition.topic,
            partition=partition.id,
            why=result.message,
            advice=result.hint or "",
        )
        return response(_around(called, said), asked.version, asked.correlation)
    packed = _template(asked.version, called).packed(
        asked.correlation,
        asked.partition,
        0,
        result.base_offset,
        result.append_time_ms,
        result.log_start_offset,
    )
    return (packed,)


def _read(body: memoryview) -> _Asked | None:
    """The request, if it is one batch for one partition, with acks."""
    try:
        _, version, correlation, size = _HEAD.unpack_from(body)
        at = _HEAD.size + max(size, 0)
        topic: str | bytes
        if _SINGLE_IDS_SINCE <= version <= _SINGLE_LAST:
            tags, named, acks, _, topics, topic = _BY_ID.unpack_from(body, at)
            at += _BY_ID.size
            parts, partition = _NEW_PART.unpack_from(body, at)
            begin, size = _length(body, at + _NEW_PART.size)
            usual = not tags and not named and topics == parts == 2 and bytes(body[begin + size :]) == _NO_TAGS
        elif _SINGLE_FLEXIBLE <= version < _SINGLE_IDS_SINCE:
            tags, named, acks, _, topics, name = _NEW.unpack_from(body, at)
            at += _NEW.size + name - 1
            parts, partition = _NEW_PART.unpack_from(body, at)
            usual = not tags and not named and topics == parts == 2 and 1 < name < 128
            begin, size = _length(body, at + _NEW_PART.size)
            name -= 1
            usual = usual and bytes(body[begin + size :]) == _NO_TAGS
            topic = str(body[at - name : at], "utf-8")
        elif _SINGLE_FIRST <= version < _SINGLE_FLEXIBLE:
            named, acks, _, topics, name = _OLD.unpack_from(body, at)
            at += _OLD.size + name
            parts, partition, size = _OLD_PART.unpack_from(body, at)
            usual = named == -1 and topics == parts == 1 and name > 0
            begin = at + _OLD_PART.size
            topic = str(body[at - name : at], "utf-8")
        else:
            return None
        if not usual or acks not in (-1, 1) or not HEADER_BYTES <= size <= min(_SINGLE_BYTES, len(body) - begin):
            return None
        if body[begin + _CODEC_AT]:  # compressed, transactional, or otherwise unusual
            return None
        return _Asked(topic, partition, body[begin : begin + size], version, correlation)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _length(body: memoryview, at: int) -> tuple[int, int]:
    """(where the bytes begin, their length); length 0 if its varint has more than three bytes."""
    value = shift = 0
    while shift < 21:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return at, value - 1
        shift += 7
    return at, 0


def _around(topic: str | bytes, part: ProduceResponsePartition) -> ProduceResponse:
    """``topic``: its name, or its id."""
    found = (
        ProduceResponseTopic(name=topic, partition_responses=[part])
        if isinstance(topic, str)
        else ProduceResponseTopic(topic_id=topic, partition_responses=[part])
    )
    return ProduceResponse(responses=[found])


@functools.lru_cache(_KEPT)
def _template(version: int, topic: str | bytes) -> Template:
    index, code, base, time, start = _SHOWN
    shown = ProduceResponsePartition(
        index=index, error_code=code, base_offset=base, log_append_time_ms=time, log_start_offset=start
    )
    return Template(_around(topic, shown), version, _RUN, _SHOWN)
