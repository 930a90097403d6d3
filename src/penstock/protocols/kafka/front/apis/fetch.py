"""Fetch: reads what is there, or waits until there is enough; with and without sessions.

What v17 and v18 add is said by followers only (KIP-853, KIP-1166), and a node has none.
Source: Kafka protocol, Fetch v4-v18; KIP-227 (sessions), KIP-516 (topic ids from v13 on).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from penstock._dataclasses import dataclass
from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call, Line, Shared
from penstock.protocols.kafka.front.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, Key, Watched
from penstock.protocols.kafka.front.limits import MORE_ROOM
from penstock.protocols.kafka.front.reading import partitions_of, read_partitions
from penstock.protocols.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from penstock.seams.beside import STEP_BYTES
from penstock.seams.enode import Budget
from penstock.seams.refusals import Asker

__all__ = ["ROUNDING_S", "budget_of", "fetch", "news", "steps_of"]

_FETCH = 1
_IDS_SINCE = 13
_SHARE = 4
_LEAST = 64 * 1024
_AT_ONCE = 64 * 1024
_STEPS = 2
"""That it takes to look into a partition."""
_AT_A_TURN = 100
_LONGEST_LARGE_WAIT_MS = 500
"""Of a fetch with thousands of partitions, whatever it asks for: as long as clients wait by default."""
_LONGEST_THROTTLE_S = 1.0
ROUNDING_S = 1e-6
"""A timer for what is left of the time may ring so much early: a difference and a sum of times round differently."""


@dataclass(slots=True)
class _Plan:
    """What is to be read, in which order, and the session that will remember it."""

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
        # Who ends his session, or changes it by another connection, while this request waits gets what is left of it.
        watched = session.watched
        answers = {key: answer for key, answer in answers.items() if key in watched and _is_news(watched[key], answer)}
    for key, answer in answers.items():
        _remember(session, key, answer)
    return FetchResponse(throttle_time_ms=throttle_ms, session_id=session.id, responses=await _grouped(call, answers))


# Which partitions.


async def _plan(call: Call, request: FetchRequest) -> _Plan | ErrorCode:
    parts = {key: part async for key, part in call.pace.through(_named(call, request), 0.2)}
    sessions = call.shared.sessions
    now = call.shared.services.runtime.monotonic()
    if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        sessions.remove(request.session_id)
        session = None
        if request.session_epoch == INITIAL_EPOCH:
            host = call.line.address.host
            session = sessions.begin(len(parts), call.version >= _IDS_SINCE, now, host, call.line)
        if session is not None:
            session.update(parts.items(), ())
            sessions.resized(session, now)
        return _Plan(parts, session)
    session = sessions.get(request.session_id)
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.by_id != (call.version >= _IDS_SINCE):
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    session.advance(now)  # before it waits: the same number does not come twice
    session.update(parts.items(), _forgotten(call, request))
    if not sessions.resized(session, now):
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # its client begins anew, with all it wants, or does without
    if not session.watched:
        sessions.remove(session.id)
        return _Plan({})
    return _Plan({key: watched.part for key, watched in session.watched.items()}, session, incremental=True)


def _named(call: Call, request: FetchRequest) -> Iterator[tuple[Key, FetchRequestPartition]]:
    for topic in request.topics:
        name = topic.topic_id if call.version >= _IDS_SINCE else topic.topic
        for part in topic.partitions:
            yield (name, part.partition), part


def _forgotten(call: Call, request: FetchRequest) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        name = topic.topic_id if call.version >= _IDS_SINCE else topic.topic
        for number in topic.partitions:
            yield name, number


# Reading and waiting.


async def _read_enough(call: Call, request: FetchRequest, plan: _Plan) -> tuple[dict[Key, FetchResponsePartition], int]:
    """Read; while that is less than the client wants, wait for arrivals and read again, until its time is over.

    Where no more requests are held for the client, it is answered at once, and told for how long not to ask again.
    """
    shared = call.shared
    runtime = shared.services.runtime
    # What a large request takes in memory is kept from others like it, which is no reason to wait for long.
    wait_ms = min(request.max_wait_ms, _LONGEST_LARGE_WAIT_MS) if call.large else request.max_wait_ms
    deadline = runtime.monotonic() + wait_ms / 1_000
    while True:
        answers, taken = await _read_all(call, request, plan)
        left = deadline - runtime.monotonic()
        if left <= ROUNDING_S or taken >= request.min_bytes or call.line.over or _is_urgent(answers):
            return answers, 0
        partitions = await partitions_of(shared, plan.parts, pace=call.pace)
        known = {
            partition: answers[key].high_watermark
            async for key, partition in call.pace.again(partitions.items())
            if isinstance(partition, Partition)
        }
        if (why := await news(shared, call.line, known, left)) is not None:
            _not_held(call, why)
            call.line.throttled_s = min(left, _LONGEST_THROTTLE_S)
            return answers, math.ceil(call.line.throttled_s * 1_000)


def _not_held(call: Call, why: str) -> None:
    meter = call.shared.meter
    meter.refused(_FETCH, ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # counted as such; the answer itself has no code
    meter.tell(Asker(call.client_id, call.line.address), _FETCH, 0, why=why, advice=MORE_ROOM)


async def news(shared: Shared, line: Line, known: Mapping[Partition, int], within_s: float) -> str | None:
    """Return when a partition ends elsewhere than is known, when the time is over, or when the client is gone.

    At once, and why, where the request may not be held.
    """
    if (why := shared.limits.hold(line, len(known))) is not None:
        return why
    arrival = shared.enode.arrival(known)
    timer = shared.services.runtime.call_later(within_s, lambda: arrival.set(None))
    try:
        await line.park(arrival)
    finally:
        timer.cancel()
        shared.enode.forget_arrival(arrival)
        shared.limits.let_go(line)
    return None


async def _read_all(call: Call, request: FetchRequest, plan: _Plan) -> tuple[dict[Key, FetchResponsePartition], int]:
    shared = call.shared
    budget = budget_of(shared, request.max_bytes)
    answers: dict[Key, FetchResponsePartition] = {}
    await shared.turns.take(steps_of(budget, 0))
    parts = list(plan.parts.items())
    for at in range(0, len(parts), _AT_A_TURN):
        lump = dict(parts[at : at + _AT_A_TURN])
        await shared.turns.take(len(lump) * _STEPS)
        answers |= await read_partitions(shared, lump, request.isolation_level, budget)
    return answers, budget.taken


def budget_of(shared: Shared, max_bytes: int) -> Budget:
    """What may be read for an answer to somebody who wants so much at most."""
    # Answers that nobody reads take less and less of what is left, never all of it.
    room = max(_LEAST, shared.services.memory.free // _SHARE)
    return Budget(min(max_bytes, shared.options.fetch_max_bytes), min(_AT_ONCE, room), room)


def steps_of(budget: Budget, partitions: int) -> int:
    """Of a turn: to read what is read at once, and to look into so many partitions."""
    return budget.quick // STEP_BYTES + partitions * _STEPS


def _is_urgent(answers: Mapping[Key, FetchResponsePartition]) -> bool:
    """Nothing to wait for, or something that must not wait: an error, a log that went another way."""
    return not answers or any(answer.error_code or answer.diverging_epoch.epoch >= 0 for answer in answers.values())


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
    # After an error the cached watermark is none, so that the recovery is news.
    watched.high_watermark = -1 if answer.error_code else answer.high_watermark
    watched.log_start = answer.log_start_offset
    if answer.records:
        session.to_end(key)


async def _grouped(call: Call, answers: Mapping[Key, FetchResponsePartition]) -> list[FetchResponseTopic]:
    topics: dict[str | bytes, list[FetchResponsePartition]] = {}
    async for (topic, _), answer in call.pace.again(answers.items()):
        topics.setdefault(topic, []).append(answer)
    return [
        FetchResponseTopic(topic=topic, partitions=parts)
        if isinstance(topic, str)
        else FetchResponseTopic(topic_id=topic, partitions=parts)
        for topic, parts in topics.items()
    ]
