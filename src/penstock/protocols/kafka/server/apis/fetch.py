"""Fetch, with and without sessions, and ListOffsets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from msgspec import Struct

from penstock.concurrency.background import STEP_BYTES, RequestPacer
from penstock.errors import PenstockError
from penstock.interfaces.enode import Budget, Extent, Fetched, FetchPart, extent
from penstock.interfaces.framing import Buffer
from penstock.interfaces.front import Asker
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, Key, Watched
from penstock.protocols.kafka.server.front import Call, Shared
from penstock.protocols.kafka.server.limits import MORE_ROOM, ClientConnection
from penstock.protocols.kafka.server.refusals import Refused, code_of
from penstock.protocols.kafka.wire.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
    FetchResponseTopic,
)
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)

__all__ = [
    "check_leader_epoch",
    "fetch",
    "list_offsets",
    "partitions_of",
]

# Reading partitions for a Fetch: whole batches as stored, within a budget that all partitions share.
#
# Source: Kafka protocol, Fetch; KIP-74 (limits), KIP-320 and KIP-595 (epochs).

_NAMING_STEPS: Final = 0.2
_NOWHERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""With these errors Kafka answers an empty list of aborted transactions, with others null."""


async def partitions_of(
    shared: Shared,
    keys: Iterable[Key],
    lost: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER,
    pace: RequestPacer | None = None,
) -> dict[Key, Partition | ErrorCode]:
    """The partitions that a request names by topic name or topic id.

    UNKNOWN_TOPIC_ID for an unknown id; ``lost`` if it cannot be looked up now.
    """
    names: dict[str | bytes, str | ErrorCode] = {}
    partitions: dict[Key, Partition | ErrorCode] = {}
    for key in keys:
        topic, number = key
        if pace is not None:
            await pace.spend(0, _NAMING_STEPS)
        if topic not in names:
            names[topic] = topic if isinstance(topic, str) else await shared.name_of(topic, lost)
        name = names[topic]
        partitions[key] = name if isinstance(name, ErrorCode) else Partition(name, number)
    return partitions


def _partition_answer(number: int, found: Fetched | PenstockError, committed: bool) -> FetchResponsePartition:
    if isinstance(found, PenstockError):
        return _partition_refused(number, code_of(found))
    if found.parted is not None:
        epoch, end = found.parted
        return FetchResponsePartition(
            partition_index=number,
            high_watermark=found.end,
            last_stable_offset=found.stable,
            log_start_offset=found.start,
            diverging_epoch=FetchResponseDivergingEpoch(epoch=epoch, end_offset=end),
            aborted_transactions=() if committed else None,
        )
    return FetchResponsePartition(
        partition_index=number,
        high_watermark=found.end,
        last_stable_offset=found.stable,
        log_start_offset=found.start,
        aborted_transactions=[
            FetchResponseAbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first in found.aborted
        ]
        if committed
        else None,
        records=cast(Buffer, found.data),  # the codec passes a file's stretch through
    )


def _partition_refused(number: int, code: ErrorCode) -> FetchResponsePartition:
    return FetchResponsePartition(
        partition_index=number,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=() if code in _NOWHERE else None,
    )


# Fetch: returns the available records, or waits until there are enough.
#
# Only followers use the fields of v17 and v18 (KIP-853, KIP-1166), and a node has none. Source: Kafka protocol, Fetch
# v4-v18; KIP-227 (sessions), KIP-516 (topic ids from v13 on).

_FETCH = 1
_IDS_SINCE = 13
_SHARE = 4
_LEAST = 64 * 1024
_AT_ONCE = 64 * 1024
_PARTITION_STEPS = 2
"""The cost of looking at a partition."""
_AT_A_TURN = 100
_LONGEST_LARGE_WAIT_MS = 500
"""The longest wait of a fetch with thousands of partitions, whatever it asks for: the default of clients."""
_LONGEST_THROTTLE_S = 1.0
_ROUNDING_S = 1e-6
"""A timer for the remaining time may fire this much early, because differences and sums of times round differently."""


class _Plan(Struct):
    """The partitions to read, in order, and the session that remembers them."""

    parts: Mapping[Key, FetchRequestPartition]
    session: FetchSession | None = None
    incremental: bool = False


async def fetch(call: Call, request: FetchRequest) -> FetchResponse:
    """Serve Fetch."""
    plan = await _plan(call, request)
    if isinstance(plan, ErrorCode):
        return FetchResponse(error_code=plan)
    answers, throttle_ms = await _read_enough(call, request, plan)
    session = plan.session
    if session is None:
        return FetchResponse(throttle_time_ms=throttle_ms, responses=await _grouped(call, answers))
    if plan.incremental:
        # If another connection ends or changes the session while this request waits, the rest of it is answered.
        watched = session.watched
        answers = {key: answer for key, answer in answers.items() if key in watched and _is_news(watched[key], answer)}
    for key, answer in answers.items():
        _remember(session, key, answer)
    return FetchResponse(throttle_time_ms=throttle_ms, session_id=session.id, responses=await _grouped(call, answers))


# The partitions to read.


async def _plan(call: Call, request: FetchRequest) -> _Plan | ErrorCode:
    by_id, pace = call.version >= _IDS_SINCE, call.pace
    parts: dict[Key, FetchRequestPartition] = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for part in topic.partitions:
            if pace.used(1, _NAMING_STEPS):
                await pace.rest()
            parts[name, part.partition] = part
    sessions = call.shared.sessions
    now = call.shared.services.runtime.monotonic()
    if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        sessions.remove(request.session_id)
        session = None
        if request.session_epoch == INITIAL_EPOCH:
            host = call.connection.address.host
            session = sessions.begin(len(parts), by_id, now, host, call.connection)
        if session is not None:
            session.update(parts.items(), ())
            sessions.resized(session, now)
        return _Plan(parts, session)
    session = sessions.get(request.session_id)
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.by_id != by_id:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    session.advance(now)  # before any wait, so that a repeated number is refused
    session.update(parts.items(), _forgotten(call, request))
    if not sessions.resized(session, now):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # the client begins a new session, or fetches without one
    if not session.watched:
        sessions.remove(session.id)
        return _Plan({})
    return _Plan({key: watched.part for key, watched in session.watched.items()}, session, incremental=True)


def _forgotten(call: Call, request: FetchRequest) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        name = topic.topic_id if call.version >= _IDS_SINCE else topic.topic
        for number in topic.partitions:
            yield name, number


# Reading and waiting.


async def _read_enough(call: Call, request: FetchRequest, plan: _Plan) -> tuple[dict[Key, FetchResponsePartition], int]:
    """Read. While there is less than the client's minimum, wait for new records and read again, until its time is over.

    If the limit on waiting requests is reached, respond at once with a throttle time.
    """
    shared = call.shared
    runtime = shared.services.runtime
    # A large request's memory counts against the limit for such requests, so it must not wait for long.
    wait_ms = min(request.max_wait_ms, _LONGEST_LARGE_WAIT_MS) if call.large else request.max_wait_ms
    deadline = runtime.monotonic() + wait_ms / 1_000
    while True:
        answers, taken = await _read_all(call, request, plan)
        left = deadline - runtime.monotonic()
        if left <= _ROUNDING_S or taken >= request.min_bytes or call.connection.over or _is_urgent(answers):
            return answers, 0
        partitions = await partitions_of(shared, plan.parts, pace=call.pace)
        known = {
            partition: answers[key].high_watermark
            async for key, partition in call.pace.again(partitions.items())
            if isinstance(partition, Partition)
        }
        if (why := await _news(shared, call.connection, known, left)) is not None:
            _not_held(call, why)
            call.connection.throttled_s = min(left, _LONGEST_THROTTLE_S)
            return answers, math.ceil(call.connection.throttled_s * 1_000)


def _not_held(call: Call, why: str) -> None:
    meter = call.shared.meter
    meter.refused(_FETCH, ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # only counted; the response has no code
    meter.tell(Asker(call.client_id, call.connection.address), _FETCH, 0, why=why, advice=MORE_ROOM)


async def _news(
    shared: Shared, connection: ClientConnection, known: Mapping[Partition, int], within_s: float
) -> str | None:
    """Return when a partition's end has changed, when the time is over, or when the client has disconnected.

    Returns the reason at once if the request may not be held.
    """
    if (why := shared.limits.hold(connection, len(known))) is not None:
        return why
    arrival = shared.enode.arrival(known)
    timer = shared.services.runtime.call_later(within_s, lambda: arrival.set(None))
    try:
        await connection.park(arrival)
    finally:
        timer.cancel()
        shared.enode.forget_arrival(arrival)
        shared.limits.let_go(connection)
    return None


async def _read_all(call: Call, request: FetchRequest, plan: _Plan) -> tuple[dict[Key, FetchResponsePartition], int]:
    """The response for each partition, with errors as codes, and the total bytes of records."""
    shared = call.shared
    # Unread responses get less and less of the remaining memory, but never all of it.
    room = max(_LEAST, shared.services.memory.free // _SHARE)
    budget = Budget(min(request.max_bytes, shared.options.fetch_max_bytes), min(_AT_ONCE, room), room)
    steps = budget.quick // STEP_BYTES
    answers: dict[Key, FetchResponsePartition] = {}
    parts = list(plan.parts.items())
    for at in range(0, len(parts) or 1, _AT_A_TURN):
        lump = parts[at : at + _AT_A_TURN]
        await shared.turns.take(steps + len(lump) * _PARTITION_STEPS)
        steps = 0
        await _read_lump(shared, lump, bool(request.isolation_level), budget, answers)
    return answers, budget.taken


async def _read_lump(
    shared: Shared,
    parts: Sequence[tuple[Key, FetchRequestPartition]],
    committed: bool,
    budget: Budget,
    answers: dict[Key, FetchResponsePartition],
) -> None:
    enode = shared.services.enode
    epochs = enode.abilities.epochs
    names: dict[str | bytes, str | ErrorCode] = {}
    wanted: list[FetchPart] = []
    for (topic, number), part in parts:
        if isinstance(topic, str):
            name: str | ErrorCode = topic
        elif topic in names:
            name = names[topic]
        else:
            name = names[topic] = await shared.name_of(topic, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if isinstance(name, str):
            wanted.append(
                FetchPart(
                    Partition(name, number),
                    part.fetch_offset,
                    part.partition_max_bytes,
                    committed,
                    part.current_leader_epoch if epochs else -1,
                    part.last_fetched_epoch if epochs else -1,
                )
            )
    found = iter(await enode.fetch(wanted, budget))
    for key, _ in parts:
        topic, number = key
        name = names.get(topic, "")
        if isinstance(name, str):
            answers[key] = _partition_answer(number, next(found), committed)
        else:
            answers[key] = _partition_refused(number, name)


def _is_urgent(answers: Mapping[Key, FetchResponsePartition]) -> bool:
    """Whether the response must not wait: no partitions, an error, or a diverging log."""
    for answer in answers.values():
        if answer.error_code or answer.diverging_epoch.epoch >= 0:
            return True
    return not answers


# Sessions.


def _is_news(watched: Watched, answer: FetchResponsePartition) -> bool:
    return bool(
        answer.records
        or answer.error_code
        or answer.diverging_epoch.epoch >= 0
        or answer.high_watermark != watched.high_watermark
        or answer.log_start_offset != watched.log_start
    )


def _remember(session: FetchSession, key: Key, answer: FetchResponsePartition) -> None:
    if (watched := session.watched.get(key)) is None:
        return
    # After an error no watermark is cached, so that the recovery counts as a change.
    watched.high_watermark = -1 if answer.error_code else answer.high_watermark
    watched.log_start = answer.log_start_offset
    if answer.records:
        session.to_end(key)


async def _grouped(call: Call, answers: Mapping[Key, FetchResponsePartition]) -> list[FetchResponseTopic]:
    topics: dict[str | bytes, list[FetchResponsePartition]] = {}
    for (topic, _), answer in answers.items():
        if call.pace.used(0, _NAMING_STEPS):
            await call.pace.rest()
        if topic in topics:
            topics[topic].append(answer)
        else:
            topics[topic] = [answer]
    return [
        FetchResponseTopic(topic=topic, partitions=parts)
        if isinstance(topic, str)
        else FetchResponseTopic(topic_id=topic, partitions=parts)
        for topic, parts in topics.items()
    ]


# Clients' leader epochs checked against the log's (KIP-320).
def check_leader_epoch(epoch: int, claimed: int) -> None:
    """``epoch`` is the log's, ``claimed`` the client's, -1 if it has none. Raises Refused."""
    if 0 <= claimed < epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {claimed} is over, the log is in {epoch}")
    if claimed > epoch:
        raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {claimed} has not begun, the log is in {epoch}")


# ListOffsets: the ends of a log, and offsets by time.
#
# No log is tiered, so nothing waits for remote storage: the timeout of v10 (KIP-1075) is never used up. Source: Kafka
# protocol, ListOffsets v1-v11; KIP-734 (max timestamp), KIP-405 (earliest local, latest tiered), KIP-1023 (earliest
# pending upload).

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NOTHING = (-1, -1)
_LOOKUP_STEPS, _LOOKUP_STEPS_BY_TIME = 2, 1_000
"""A lookup by time reads, and may inflate, a batch."""


async def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Serve ListOffsets."""
    asked = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    topics = []
    for topic in request.topics:
        await call.pace.spend(0, 0.5)
        answers = []
        for part in topic.partitions:
            twice = asked[topic.name, part.partition_index] > 1
            reads = not twice and (part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP)
            await call.pace.spend(1, _LOOKUP_STEPS_BY_TIME if reads else _LOOKUP_STEPS)
            answers.append(await _offset_answer(call, topic.name, part, twice, committed=bool(request.isolation_level)))
        topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


async def _offset_answer(
    call: Call, topic: str, part: ListOffsetsRequestPartition, twice: bool, *, committed: bool
) -> ListOffsetsResponsePartition:
    partition = Partition(topic, part.partition_index)
    try:
        if twice:
            raise Refused(ErrorCode.INVALID_REQUEST)
        here = await extent(call.shared.enode, partition)
        abilities = call.shared.enode.abilities_of(topic)
        if abilities.epochs:
            check_leader_epoch(here.epoch, part.current_leader_epoch)
        if not abilities.times and (part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP):
            # The code for logs without timestamps; clients take it for "no such record".
            raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        offset, timestamp = await _find(call, partition, here, part.timestamp, committed=committed)
    except PenstockError as error:
        return ListOffsetsResponsePartition(partition_index=partition.id, error_code=code_of(error))
    return ListOffsetsResponsePartition(
        partition_index=partition.id,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=here.epoch if offset >= 0 and abilities.epochs else -1,
    )


async def _find(call: Call, partition: Partition, here: Extent, timestamp: int, *, committed: bool) -> tuple[int, int]:
    """(offset, timestamp), or -1 and -1. For read-committed readers the log ends at the last stable offset."""
    enode = call.shared.enode
    start, end = here.start, here.stable if committed else here.end
    if timestamp >= 0:
        return _below(end, await enode.offset_for_time(partition, timestamp))
    if timestamp == LATEST:
        return end, -1
    if timestamp == EARLIEST:
        return start, -1
    if call.version < _SINCE.get(timestamp, call.version + 1):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == MAX_TIMESTAMP:
        return _below(end, await enode.max_timestamp(partition))
    return (start, -1) if timestamp == EARLIEST_LOCAL else _NOTHING


def _below(end: int, found: tuple[int, int] | None) -> tuple[int, int]:
    return found if found is not None and found[0] < end else _NOTHING
