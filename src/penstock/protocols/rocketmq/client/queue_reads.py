"""Reads of queues: endless ones by polls (`Polling`), ranges (`RangePulls`), and single messages by key or id.

`try_filter` checks a filter at a broker before the first pull.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from penstock.errors import (
    ConnectionLost,
    OffsetOutOfRange,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
)
from penstock.interfaces.client import ReadFrom, ReadLimits
from penstock.model import LogRange, Node, Partition, Record
from penstock.protocols.rocketmq.client.cluster import subscription
from penstock.protocols.rocketmq.client.offsets import bound
from penstock.protocols.rocketmq.client.pulls import Burst, Got, Pull, RocketFetched, Steps, gone, pull, take
from penstock.protocols.rocketmq.errors import Code, error_of
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import (
    CHECK_CLIENT_CONFIG,
    GET_MAX_OFFSET,
    PULL_MESSAGE,
    QUERY_MESSAGE,
    VIEW_MESSAGE_BY_ID,
)

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.client.shared import Shared
    from penstock.protocols.rocketmq.wire.message_format import StoredMessage

__all__ = ["Polling", "RangePulls", "find_by_id", "find_by_key", "try_filter"]


# Filters by properties are checked at each broker before the first pull, because a broker lets every message through if
# a pull has an invalid expression. Source: Apache RocketMQ 4.9 and 5.4, ``MQClientInstance.checkClientInBroker``,
# ``PullMessageProcessor``.
async def try_filter(shared: Shared, node: Node, topic: str) -> None:
    """Raises ServerError if a broker refuses the client's filter; asks each broker once."""
    expression, kind = shared.options.expression
    if kind == "TAG" or node.endpoint in shared.tried:
        return
    body = m.CheckClientConfig(
        client_id=shared.id,
        group=shared.options.reads_as,
        subscription_data=subscription(topic, expression, kind, 0),
    )
    # Very old brokers have neither this request nor such filters.
    accept = (Code.SUCCESS, Code.REQUEST_CODE_NOT_SUPPORTED)
    await shared.calls.call(node.endpoint, CHECK_CLIENT_CONFIG, m.NoFields(), body, accept=accept)
    shared.tried.add(node.endpoint)


_PULL_LANE: Final = "pull"
_ENOUGH_BYTES: Final = 1 << 20
_FORGOTTEN_S: Final = 120.0
_BROKEN = (ConnectionLost, RequestTimeout, ProtocolViolation)


class _Queue(Struct):
    """A polled queue: its position, the pull that waits at its broker, the time of its last poll, and the last known
    end (-1: unknown)."""

    offset: int
    steps: Steps
    waiting: Pull | None = None
    polled: float = 0.0
    end: int = -1


class Polling:
    """The queues of ``LogClient.read``, with their state between polls."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._queues: dict[tuple[Partition, str], _Queue] = {}

    async def read(
        self, node: Node, reads: Sequence[ReadFrom], limits: ReadLimits, lane: str
    ) -> Sequence[RocketFetched]:
        """One poll. Errors of one queue are in ``RocketFetched.error``; a broken connection is raised."""
        now = self._shared.channel.monotonic()
        queues = {read: self._queue(read, lane, now) for read in reads}
        self._forget(now)
        try:
            await try_filter(self._shared, node, reads[0].partition.topic)
            await self._ask(node, queues, lane)
            waiting = [each.waiting.pending for each in queues.values() if each.waiting is not None]
            await self._shared.channel.any_of(waiting, within_s=limits.max_wait_ms / 1_000)
            work = [self._collect(node, read, queue, lane) for read, queue in queues.items()]
            outcomes = await self._shared.channel.gather(work)
        except PenstockError:
            self._drop(queues, lane)
            raise
        found = []
        for read, outcome in zip(reads, outcomes, strict=True):
            if isinstance(outcome, RocketFetched):
                found.append(outcome)
                continue
            self._drop([read], lane)
            if not isinstance(outcome, PenstockError) or isinstance(outcome, _BROKEN):
                self._drop(reads, lane)
                raise outcome
            found.append(RocketFetched(read.partition, read.offset, (), self._shared.options, outcome))
        return found

    async def _ask(self, node: Node, queues: dict[ReadFrom, _Queue], lane: str) -> None:
        """Send a pull for each queue that has none waiting at the broker."""
        idle = [(read.partition, queue) for read, queue in queues.items() if queue.waiting is None]
        options = self._shared.options
        count = options.rocket.pull_batch_size
        requests = [pull(self._shared.calls, partition, queue.offset, count, held=True) for partition, queue in idle]
        if not requests:
            return
        started = await self._shared.calls.start(
            node.endpoint, PULL_MESSAGE, requests,
            timeout_s=options.held_timeout_s, held_s=options.held_s, lane=lane or _PULL_LANE,
        )  # fmt: skip
        for (_, queue), each in zip(idle, started, strict=True):
            queue.waiting = each

    async def _collect(self, node: Node, read: ReadFrom, queue: _Queue, lane: str) -> RocketFetched:
        """The messages of a queue: none while its pull waits; otherwise those of the pull, and what follows it."""
        partition, options = read.partition, self._shared.options
        waiting = queue.waiting
        if waiting is None or not waiting.pending.answered:
            if queue.end != queue.offset:
                queue.end = await bound(self._shared, node.endpoint, partition, GET_MAX_OFFSET)
            return RocketFetched(partition, read.offset, (), options, end=queue.end)
        queue.waiting = None
        got = await take(waiting, partition, read.offset)
        answers = [got]
        enough = min(read.max_bytes, _ENOUGH_BYTES)
        while not got.moved and got.next_offset < got.end and sum(len(each.body) for each in answers) < enough:
            pulls = 1 if options.chooses else options.rocket.pulls_ahead
            end = min(got.end, got.next_offset + pulls * queue.steps.each)
            burst = Burst(
                self._shared.calls, node.endpoint, partition, (got.next_offset, end), queue.steps, lane or _PULL_LANE
            )
            await burst.start()
            more = await burst.answers()
            before, got = got.next_offset, more[-1]
            if got.moved:
                more = more[:-1]  # the next poll reports it
            answers += more
            if not more or got.next_offset == before:
                break
        self._shared.topics.routes.suggest(partition, got.suggested)
        if got.put_to >= 0:
            self._shared.heard.resets.note(options.group or "", partition, got.put_to)
        fetched = RocketFetched(partition, read.offset, answers, options)
        queue.offset, queue.end = fetched.next_offset, fetched.high_watermark
        return fetched

    def _queue(self, read: ReadFrom, lane: str, now: float) -> _Queue:
        queue = self._queues.get((read.partition, lane))
        if queue is None or queue.offset != read.offset:
            # A pull that waits at the broker for another position is answered some day, and ignored.
            queue = self._queues[read.partition, lane] = _Queue(
                read.offset, Steps(self._shared.options.rocket.pull_batch_size)
            )
        queue.polled = now
        return queue

    def _forget(self, now: float) -> None:
        """Drop queues that were not polled for long."""
        for key in [key for key, queue in self._queues.items() if now - queue.polled > _FORGOTTEN_S]:
            del self._queues[key]

    def _drop(self, reads: Sequence[ReadFrom] | dict[ReadFrom, _Queue], lane: str) -> None:
        for read in reads:
            self._queues.pop((read.partition, lane), None)


# Ranges: bursts of pulls, the next one under way while the last one is processed.
#
# Pulls never go beyond the end, and since offsets have no gaps, no message is missed or read twice. Where brokers
# filter by tags or SQL, a response says how far it has looked.
_RANGE_LANE = "ranges"
_BURSTS_AHEAD = 2


class RangePulls:
    """The reads of one range (``penstock.interfaces.RangeSource``)."""

    def __init__(self, shared: Shared, wanted: LogRange) -> None:
        self.channel = shared.channel
        self.limits = shared.options
        self.start = wanted.start
        self.end = wanted.end
        self._shared = shared
        self._partition = shared.topics.routes.resolve(Partition.of(wanted))
        self._steps = Steps(shared.options.rocket.pull_batch_size)
        self._bursts: deque[Burst] = deque()
        self._asked_to = -1
        self.depth = 1 if shared.options.chooses else _BURSTS_AHEAD

    @property
    def ahead(self) -> int:
        """How many bursts are under way; the maximum once the end has been asked for."""
        done = self._bursts and self._asked_to >= self.end
        return self.depth if done else len(self._bursts)

    async def ask(self, offset: int) -> None:
        """Send the next burst."""
        begin = self._asked_to if self._bursts else offset
        pulls = 1 if self._shared.options.chooses else self._shared.options.rocket.pulls_ahead
        end = min(self.end, begin + pulls * self._steps.each)
        node = await self._shared.topics.leader(self._partition)
        node = self._shared.topics.routes.reader(self._partition) or node
        await try_filter(self._shared, node, self._partition.topic)
        burst = Burst(self._shared.calls, node.endpoint, self._partition, (begin, end), self._steps, _RANGE_LANE)
        await burst.start()
        self._bursts.append(burst)
        self._asked_to = end

    async def take(self) -> RocketFetched:
        """The messages of the first burst."""
        burst = self._bursts.popleft()
        answers = await burst.answers()
        last = answers[-1]
        self._shared.topics.routes.suggest(self._partition, last.suggested)
        if last.next_offset < burst.end or last.moved:
            await self._drain()  # the queue ended, or has changed: later bursts are useless
        if last.moved and last.offset >= last.end and last.offset > burst.start_offset:
            answers = answers[:-1]
        elif last.moved and last.offset >= last.end:
            answers = [Got(last.offset, last.offset, last.first, last.end)]
        return RocketFetched(self._partition, burst.start_offset, answers, self._shared.options)

    def note(self, error: PenstockError) -> None:
        """After an error that is worth a retry, ask a name server for the queue's broker again."""
        if error.retriable:
            self._shared.topics.routing.distrust(self._partition)
            self._shared.topics.routes.suggested.pop(self._partition, None)

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """PULL_OFFSET_MOVED, as a broker would word it."""
        hint = "The end was not this queue's when the range was planned, or its broker came back without its disk"
        return gone(self._partition, text, offset, hint)

    def close(self) -> None:
        """Close the connections with bursts under way."""
        for burst in self._bursts:
            burst.abandon()
        self._bursts.clear()
        self._asked_to = -1

    async def _drain(self) -> None:
        """Await bursts under way and drop them; unlike `close`, this keeps the connection for its other users."""
        while self._bursts:
            with contextlib.suppress(PenstockError):
                await self._bursts.popleft().answers()
        self._asked_to = -1

    async def finish(self) -> None:
        """Pulls never go beyond the end, so there is nothing to wait for."""
        self.close()


# Single messages by a key, or by an id, of which there are two kinds that look alike.
#
# One kind is the message's broker and its place in the commit log (``offset_msg_id``). The other is the producer's
# (``UNIQ_KEY``), and is found like a key in every broker's index. Brokers index a message a moment after they store it.
# Source: Apache RocketMQ 4.9 and 5.4, ``MQAdminImpl.viewMessage``, ``queryMessage``.
_ANY_TIME: Final = (0, (1 << 63) - 1)
_OF_AN_ID: Final = 32


async def find_by_key(
    shared: Shared, topic: str, key: str, times_ms: tuple[int, int], most: int, *, unique: bool = False
) -> list[Record]:
    """Messages with a key, as `FindsRecords` says; ``unique``: the key is the producer's id of the message."""
    await shared.topics.topics([topic], fresh=True)
    nodes = shared.topics.routes.masters(topic)
    if not nodes:
        raise error_of(Code.TOPIC_NOT_EXIST, "no name server knows it", topic=topic)
    begin, end = times_ms
    header = m.QueryMessage(
        topic=topic, key=key, max_num=most, begin_timestamp=begin, end_timestamp=end, is_unique_key=unique or None
    )
    accept = (Code.SUCCESS, Code.QUERY_NOT_FOUND)
    answers = await shared.together(
        [shared.calls.call(node.endpoint, QUERY_MESSAGE, header, accept=accept) for node in nodes]
    )
    found = [
        (each, node.name)
        for node, answer in zip(nodes, answers, strict=True)
        if answer.code == Code.SUCCESS
        for each in _stored(bytes(answer.body))
    ]
    # The index has only hashes, so compare the keys.
    meant = [(each, node) for each, node in found if each.topic == topic and _has(each, key, unique=unique)]
    return [_record(each, node) for each, node in sorted(meant, key=lambda pair: pair[0].store_ms)][:most]


async def find_by_id(shared: Shared, topic: str, record_id: str) -> list[Record]:
    """Messages with an id, as `FindsRecords` says."""
    there = await _at_its_place(shared, record_id)
    if there is not None and there[0].topic == topic:
        return [_record(*there)]
    return await find_by_key(shared, topic, record_id, _ANY_TIME, _OF_AN_ID, unique=True)


async def _at_its_place(shared: Shared, record_id: str) -> tuple[StoredMessage, str] | None:
    from penstock.protocols.rocketmq.wire.message_format import parse_offset_id

    try:
        host, place = parse_offset_id(record_id)
    except ProtocolViolation:
        return None
    known = {str(node.endpoint): node for node in await shared.topics.brokers()}
    # Clients of a Snode do not know brokers' addresses. The Snode does, and accepts an address as the broker's name.
    asked = [known[str(host)]] if str(host) in known else list(known.values())
    header = m.ViewMessage(offset=place, broker_name=None if str(host) in known else str(host))
    for node in asked:
        with contextlib.suppress(ServerError):  # not there: it may be the other kind of id
            answer = await shared.calls.call(node.endpoint, VIEW_MESSAGE_BY_ID, header)
            message = next(iter(_stored(bytes(answer.body))), None)
            if message is not None and parse_offset_id(message.offset_id) == (host, place):
                return message, node.name
    return None


def _stored(body: bytes) -> Sequence[StoredMessage]:
    from penstock.protocols.rocketmq.wire.message_format import read_stored

    return list(read_stored(body))


def _has(message: StoredMessage, key: str, *, unique: bool) -> bool:
    properties = message.property_map
    if unique:
        return properties.get("UNIQ_KEY") == key
    return key in properties.get("KEYS", "").split(" ")


def _record(message: StoredMessage, node: str) -> Record:
    from penstock.protocols.rocketmq.wire.properties import read_record

    said = read_record(message.properties, message.plain_body, every=True)
    return Record(
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.born_ms,
        said.key,
        said.value,
        tuple(said.headers),
        node=node,
    )
