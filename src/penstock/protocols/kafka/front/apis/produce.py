"""Produce: checks each partition's batch, appends them all, answers each by itself.

Source: Kafka protocol, Produce v0-v13; KIP-516 (topic ids in v13); spec of the checks in `incoming`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import partial

from penstock._dataclasses import dataclass
from penstock.columnar.batch import HEADER_BYTES, TRANSACTIONAL, BatchHeader
from penstock.columnar.checked import Checked
from penstock.errors import PenstockError, ProtocolViolation, UpstreamLost
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call, is_internal
from penstock.protocols.kafka.front.faults import Refused, bare, code_of
from penstock.protocols.kafka.front.incoming import (
    QUICK_PLAIN,
    Rules,
    check_batch,
    inflates_too_far,
    load_arrow,
    loads_arrow,
    looking_takes,
    quick,
    repacked,
    rules_for,
)
from penstock.protocols.kafka.front.unstored import Numbers, numbers_of
from penstock.protocols.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from penstock.seams.abilities import Abilities
from penstock.seams.enode import Appended, TopicState, extent
from penstock.seams.framing import Buffer

__all__ = ["answer_of", "produce"]

_LUMP_PARTS, _LUMP_BYTES, _LUMP_STEPS = 50, 8 << 20, 1_000
"""What is appended in one turn of the loop: a log's first batch makes a directory and files, half a millisecond."""
_OLDEST_SERVED = 3
_ABORTABLE_SINCE = 11
_TAKES_PART_SINCE = 12
_IDS_SINCE = 13
_PRODUCER, _PRODUCER_AT = struct.Struct(">qh"), 43
_ATTRIBUTES_LOW_AT = 22


_Topic = tuple[ProduceRequestTopic, str | PenstockError]
"""A topic of the request with its name, or with the reason why it has none."""


@dataclass(slots=True)
class _Part:
    """What is to be stored in one partition, or what is wrong with it. ``topic_id``: None where it goes by its name."""

    partition: Partition
    records: Buffer | None
    topic_id: bytes | None = None
    batch: Checked | None = None
    fault: PenstockError | None = None
    rules: Rules | None = None


async def produce(call: Call, request: ProduceRequest) -> ProduceResponse | None:
    """Serve Produce. With acks=0 there is no answer, and an error ends the connection so that the client notices."""
    if any(loads_arrow(part.records) for topic in request.topic_data for part in topic.partition_data):
        await call.shared.services.runtime.in_thread(load_arrow)
    topics = await _named(call, request)
    try:
        refusal = await _take_part(call, request, topics)
    except UpstreamLost as error:
        refusal = code_of(error)
    fault = _request_fault(call, request)
    checked = [await _parts(call, fault, topic, name) for topic, name in topics]
    everything = [part for parts in checked for part in parts]
    await _look_into(call, everything, request.transactional_id)
    await _repack(call, everything)
    _check_numbers(call, everything)
    appended = await _append(call, request.transactional_id, everything, refusal)
    stored = iter(appended)
    outcomes = [part.fault or next(stored) for part in everything]
    _note_numbers(call, everything, outcomes)
    told = iter(outcomes)
    responses = []
    for topic, parts in zip(request.topic_data, checked, strict=True):
        results = [(part.partition, next(told)) for part in parts]
        if request.acks == 0:
            _hang_up_on_errors(results)
        await call.pace.spend(0, 0.5 + len(results) / 10)
        answers = [await answer_of(call, partition, result) for partition, result in results]
        responses.append(ProduceResponseTopic(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    return None if request.acks == 0 else ProduceResponse(responses=responses)


async def _named(call: Call, request: ProduceRequest) -> list[_Topic]:
    """The topics with their names, which the node has to look up from v13 on."""
    if call.version < _IDS_SINCE:
        return [(topic, topic.name) for topic in request.topic_data]
    return [(topic, await _name_of(call, topic.topic_id)) async for topic in call.pace.again(request.topic_data, 0.5)]


async def _name_of(call: Call, topic_id: bytes) -> str | PenstockError:
    try:
        found = await call.shared.enode.topic_by_id(topic_id)
    except UpstreamLost as error:
        return error
    return Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id") if found is None else found.name


async def _parts(
    call: Call, fault: PenstockError | None, topic: ProduceRequestTopic, name: str | PenstockError
) -> list[_Part]:
    """Each partition with its rules, or with what is wrong whatever its batch is like."""
    await call.pace.spend(1, 1)
    topic_id = topic.topic_id if call.version >= _IDS_SINCE else None
    called = name if isinstance(name, str) else ""
    parts = [
        _Part(Partition(called, part.index), part.records, topic_id)
        async for part in call.pace.again(topic.partition_data)
    ]
    if not isinstance(name, str):
        for part in parts:
            part.fault = fault or name
        return parts
    try:
        found = await call.shared.enode.topic(name)
        rules = rules_for(await call.shared.config_of(found), call.shared.options) if found else None
    except PenstockError as error:
        for part in parts:
            part.fault = error
        return parts
    for part in parts:
        await call.pace.spend(1, 0.5)
        part.rules = rules
        try:
            _check_partition(found, part.partition)
        except PenstockError as error:
            part.fault = error
        part.fault = fault or part.fault
    return parts


async def _look_into(call: Call, parts: Sequence[_Part], transactional_id: str | None) -> None:
    """Check each batch, or say what is wrong with it; beside the loop where that takes more than a few milliseconds."""
    runtime = call.shared.services.runtime
    due = [(part, part.rules) for part in parts if part.fault is None and part.rules is not None]

    def look(part: _Part, rules: Rules, max_inflated_bytes: int) -> None:
        part.fault = None
        try:
            part.batch = check_batch(part.records, call.version, rules, runtime.now_ms(), max_inflated_bytes)
            _check_transactional(transactional_id, part.batch.header)
            _check_abilities(call.shared.enode.abilities_of(part.partition.topic), part.batch.header)
        except PenstockError as error:
            part.fault = bare(error)

    if quick(part.records for part, _ in due):
        for part, rules in due:
            await call.pace.spend(0, 1)
            look(part, rules, min(rules.max_inflated_bytes, QUICK_PLAIN))
        due = [(part, rules) for part, rules in due if part.fault is not None and inflates_too_far(part.fault)]
    for part, rules in due:
        work = partial(look, part, rules, rules.max_inflated_bytes)
        await call.shared.beside.run(work, looking_takes(part.records, rules))


async def _repack(call: Call, parts: Sequence[_Part]) -> None:
    """Give each batch the codec that its topic wants; beside the loop, for it takes its time."""

    def work() -> None:
        for part, batch, rules in due:
            try:
                part.batch = repacked(batch, rules)
            except PenstockError as error:
                part.fault = bare(error)

    due = [
        (part, part.batch, part.rules)
        for part in parts
        if part.fault is None
        and part.batch
        and part.rules
        and part.rules.target
        and not part.rules.target.meets(part.batch.data)
    ]
    if due:
        takes = max(looking_takes(part.records, rules) for part, _, rules in due)
        await call.shared.beside.run(work, takes + sum(len(batch) for _, batch, _ in due))


async def _append(
    call: Call, transactional_id: str | None, parts: Sequence[_Part], refusal: ErrorCode
) -> list[Appended | PenstockError]:
    """Store what is right of the parts; many, or large ones, in several turns of the loop."""
    appended: list[Appended | PenstockError] = []
    for lump in _lumps(parts):
        if len(lump) < len(parts):
            await call.shared.turns.take(_LUMP_STEPS)
        await _check_ids(call, lump)
        with call.shared.transactions.appending(transactional_id):
            _check_transactions(call, transactional_id, lump, refusal)
            batches = [(part.partition, part.batch) for part in lump if part.fault is None and part.batch]
            appended += await call.shared.enode.append_all(batches)
    return appended


async def _check_ids(call: Call, parts: Sequence[_Part]) -> None:
    """Refuse what was meant for a topic that was deleted, and maybe made anew, while its batches were looked into."""
    for part in parts:
        if part.fault is None and part.topic_id is not None:
            name = await _name_of(call, part.topic_id)
            if name != part.partition.topic:
                part.fault = name if isinstance(name, PenstockError) else Refused(ErrorCode.UNKNOWN_TOPIC_ID)


def _numbered(call: Call, parts: Sequence[_Part]) -> Iterator[tuple[int, Numbers]]:
    """Rows of the parts that have producers' numbers at which the log behind does not look."""
    abilities = call.shared.enode.abilities
    if abilities.numbered and not abilities.sequences:
        for row, part in enumerate(parts):
            if (numbers := numbers_of(part.records)) is not None:
                yield row, numbers


def _check_numbers(call: Call, parts: Sequence[_Part]) -> None:
    for row, numbers in _numbered(call, parts) if call.shared.unstored else ():
        part = parts[row]
        try:
            call.shared.unstored.check(part.partition, numbers)
        except PenstockError as error:
            part.fault = part.fault or bare(error)


def _note_numbers(call: Call, parts: Sequence[_Part], outcomes: Sequence[Appended | PenstockError]) -> None:
    for row, numbers in _numbered(call, parts):
        outcome = outcomes[row]
        failure = outcome if isinstance(outcome, PenstockError) else None
        call.shared.unstored.tell(parts[row].partition, numbers, failure)


def _lumps(parts: Sequence[_Part]) -> Iterator[Sequence[_Part]]:
    begin = size = 0
    for row, part in enumerate(parts):
        takes = len(part.batch) if part.batch else 0
        if row > begin and (row - begin >= _LUMP_PARTS or size + takes > _LUMP_BYTES):
            yield parts[begin:row]
            begin, size = row, 0
        size += takes
    yield parts[begin:]


def _request_fault(call: Call, request: ProduceRequest) -> PenstockError | None:
    """What is wrong with the request as a whole."""
    if request.acks not in (-1, 0, 1):
        return Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {request.acks}")
    if request.transactional_id is None and any(
        _says_transactional(part.records) for topic in request.topic_data for part in topic.partition_data
    ):
        # As a broker does, which lets nobody write transactions without an id: the whole request is refused.
        return Refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without transactional id"
        )
    if call.version < _OLDEST_SERVED:
        return Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats 0 and 1 are not taken")
    return None


def _says_transactional(records: Buffer | None) -> bool:
    return records is not None and len(records) >= HEADER_BYTES and bool(records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL)


def _check_partition(topic: TopicState | None, partition: Partition) -> None:
    if is_internal(partition.topic):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic")
    if topic is None or not 0 <= partition.id < topic.partitions:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")


async def _take_part(call: Call, request: ProduceRequest, topics: Sequence[_Topic]) -> ErrorCode:
    """From v12 on a batch is its partition's request to take part in the transaction (KIP-890)."""
    if request.transactional_id is None or call.version < _TAKES_PART_SINCE:
        return ErrorCode.NONE
    enode = call.shared.enode
    partitions: dict[tuple[int, int], list[Partition]] = {}
    for topic, name in topics:
        await call.pace.spend(0, 0.5 + len(topic.partition_data) / 10)
        if not isinstance(name, str):
            continue
        found = await enode.topic(name)
        able = enode.abilities_of(name).transactions and not is_internal(name)
        for part in topic.partition_data:
            there = able and found is not None and 0 <= part.index < found.partitions
            if there and part.records is not None and len(part.records) >= HEADER_BYTES:
                producer = _PRODUCER.unpack_from(part.records, _PRODUCER_AT)
                partitions.setdefault(producer, []).append(Partition(name, part.index))
    for (producer_id, epoch), of_producer in partitions.items():
        try:
            code = await call.shared.transactions.add(
                request.transactional_id, producer_id, epoch, of_producer, second=True
            )
        except PenstockError:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code:
            return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
    return ErrorCode.NONE


def _check_transactional(transactional_id: str | None, header: BatchHeader) -> None:
    if header.transactional != (transactional_id is not None):
        raise Refused(ErrorCode.INVALID_TXN_STATE, "transactional are both, the request and its batches, or neither")


def _check_abilities(abilities: Abilities, header: BatchHeader) -> None:
    """What brokers say whose log is in a format that knows no producers, where the log behind knows none."""
    if not abilities.numbered and header.producer_id >= 0:
        raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "the log behind this topic has no sequence numbers")
    if not abilities.transactions and header.transactional:
        raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "the log behind this topic has no transactions")


def _check_transactions(call: Call, transactional_id: str | None, parts: Sequence[_Part], refusal: ErrorCode) -> None:
    """To be asked within `appending`: the transaction cannot be ended between this and the append."""
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


def _hang_up_on_errors(results: list[tuple[Partition, Appended | PenstockError]]) -> None:
    for partition, result in results:
        if isinstance(result, PenstockError):
            raise ProtocolViolation(
                f"produced with acks=0 and refused: {result.message}", topic=partition.topic, partition=partition.id
            )


async def answer_of(call: Call, partition: Partition, result: Appended | PenstockError) -> ProduceResponsePartition:
    """What is said of one partition."""
    if not isinstance(result, PenstockError):
        return ProduceResponsePartition(
            index=partition.id,
            base_offset=result.base_offset,
            log_append_time_ms=result.append_time_ms,
            log_start_offset=result.log_start_offset,
        )
    rows = result.rows if isinstance(result, Refused) else {}
    return ProduceResponsePartition(
        index=partition.id,
        error_code=code_of(result),
        base_offset=-1,
        log_start_offset=await _start(call, partition) if rows else -1,
        record_errors=[
            ProduceResponseRecordError(batch_index=row, batch_index_error_message=why) for row, why in rows.items()
        ],
        error_message=result.message,
    )


async def _start(call: Call, partition: Partition) -> int:
    try:
        return (await extent(call.shared.enode, partition)).start
    except PenstockError:  # deleted while the other batches were being written
        return -1
