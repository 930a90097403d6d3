"""Reading from queues: pulls as batches (`Reading`), waiting for new messages (`Arrivals`), offsets by time
(`Finding`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import LogOffsetOutOfRange, PenstockError, ProtocolViolation
from penstock.interfaces.enode import Budget, Extent, Fetched, FetchPart
from penstock.interfaces.framing import Buffer
from penstock.model import Partition
from penstock.protocols.rocketmq.backend.queue_writes import NODE_GROUP, Ends
from penstock.protocols.rocketmq.backend.relay import Asking
from penstock.protocols.rocketmq.backend.topics import Home, Topics
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import Cut, cut
from penstock.protocols.rocketmq.wire.rpc import GET_MAX_OFFSET, GET_MIN_OFFSET, PULL_MESSAGE

__all__ = ["MESSAGES", "Arrivals", "Finding", "Pulled", "Reading"]

MESSAGES: Final = 32
"""The most messages that a stock broker gives in one response."""

_AHEAD: Final = 16
_SIDE_BY_SIDE: Final = 32
_AT_ONCE_BYTES: Final = 64 << 10
_SHOWN_WITHIN_MS: Final = 1_000
_EMPTY_ROUNDS: Final = 100
_LOOKS_EVERY_S: Final = 5.0
"""Brokers examine held requests this often, so a hold may last this much longer."""
_ANSWERS: Final = (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED)


class Pulled(NamedTuple):
    """The result of one pull: messages of ``[offset, next_offset)``, of a queue that has ``[first, end)``."""

    offset: int
    body: Buffer
    next_offset: int
    first: int
    end: int


class Reading:
    """Reads of one backend."""

    def __init__(self, asking: Asking, topics: Topics, ends: Ends, runtime: Runtime) -> None:
        self._asking = asking
        self._topics = topics
        self._ends = ends
        self._runtime = runtime

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        """Fetch some parts concurrently, and take them in order up to ``budget``."""
        found: list[Fetched | PenstockError] = []
        for at in range(0, len(parts), _SIDE_BY_SIDE):
            lump = parts[at : at + _SIDE_BY_SIDE]
            for each in await self._asking.gather([self._fetch(part, budget.left) for part in lump]):
                if isinstance(each, Fetched):
                    each = each if budget.left > 0 or not budget.taken else each._replace(data=b"")
                    budget.take(each.data)
                found.append(each)
        return found

    async def _fetch(self, part: FetchPart, most_bytes: int) -> Fetched:
        home = await self._topics.home(part.partition)
        most_bytes = max(0, min(part.max_bytes, most_bytes))
        got = await self._first(home, part)
        found, ends = await self.follow(home, got, most_bytes), self._ends.of(home)
        bodies = [each.body for each in found if len(each.body)]
        end = max(found[-1].end, ends)
        if not bodies:
            return Fetched(b"", found[-1].next_offset, got.first, end, end, 0)
        work = partial(cut, bodies, part.offset, found[-1].next_offset, most_bytes)
        made = await self._cut(work, sum(map(len, bodies)), part.partition)
        return Fetched(made.data, made.next_offset, got.first, end, end, 0)

    async def _cut(self, work: partial[Cut], size: int, partition: Partition) -> Cut:
        try:
            return await self._runtime.in_thread(work) if size > _AT_ONCE_BYTES else work()
        except (PenstockError, ProtocolViolation) as error:
            error.topic, error.partition = partition.topic, partition.id
            raise

    async def _first(self, home: Home, part: FetchPart) -> Pulled:
        """The first response with messages, or the last one without. Raises LogOffsetOutOfRange."""
        offset, shown = part.offset, self._ends.of(home)
        for _ in range(_EMPTY_ROUNDS):
            # A message that is acknowledged but not readable yet is worth a short wait.
            held_ms = _SHOWN_WITHIN_MS if offset < shown else 0
            got = await self.pull(home, offset, held_ms=held_ms)
            if not got.first <= part.offset <= max(got.end, shown):
                error = LogOffsetOutOfRange(
                    "there is no such message", offset=part.offset, start=got.first, end=max(got.end, shown)
                )
                error.topic, error.partition = part.partition.topic, part.partition.id
                raise error
            if len(got.body) or got.next_offset <= offset:
                break
            offset = got.next_offset
        return got

    async def follow(self, home: Home, got: Pulled, most_bytes: int) -> list[Pulled]:
        """The first response and those that follow it, in order and without gaps, up to about ``most_bytes``."""
        found, size = [got], len(got.body)
        while size < most_bytes and found[-1].next_offset < found[-1].end and len(found[-1].body):
            last = found[-1]
            each = min(MESSAGES, last.next_offset - last.offset)  # responses with large messages have fewer
            count = min(_AHEAD, -(-(last.end - last.next_offset) // each), -(-(most_bytes - size) // len(last.body)))
            places = [last.next_offset + row * each for row in range(count)]
            answers = await self._asking.gather([self.pull(home, place, count=each) for place in places])
            before = len(found)
            for at, answer in zip(places, answers, strict=True):
                if isinstance(answer, PenstockError) or at != found[-1].next_offset or not len(answer.body):
                    break
                found.append(answer)
                size += len(answer.body)
            if len(found) == before:
                break
        return found

    async def pull(self, home: Home, offset: int, *, count: int = MESSAGES, held_ms: int = 0) -> Pulled:
        """One pull. ``held_ms``: how long the broker may wait for messages."""
        header = m.PullMessage(
            consumer_group=NODE_GROUP,
            topic=home.topic,
            queue_id=home.queue.number,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=m.PullFlag.INLINE | (m.PullFlag.SUSPEND if held_ms else 0),
            suspend_timeout_millis=held_ms,
            subscription="*",
            expression_type="TAG",
            broker_name=home.queue.broker,
        )
        answer = await self._asking.of_group(
            home.queue.broker,
            NODE_GROUP,
            PULL_MESSAGE,
            header,
            accept=_ANSWERS,
            lane="hold" if held_ms else "pull",
            held_s=held_ms / 1_000 + _LOOKS_EVERY_S if held_ms else 0.0,
            standby=True,
        )
        said = answer.header
        body: Buffer = answer.body if answer.code == Code.SUCCESS else b""
        following = offset if answer.code == Code.PULL_OFFSET_MOVED else max(said.next_begin_offset, offset)
        return Pulled(offset, body, following, said.min_offset, said.max_offset)

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        """The extents of all partitions, asked for concurrently."""
        return await self._asking.gather([self._extent(each) for each in partitions])

    async def _extent(self, partition: Partition) -> Extent:
        home = await self._topics.home(partition)
        start, end = await self.bounds(home)
        end = max(end, self._ends.of(home))
        return Extent(start, end, end, 0)

    async def bounds(self, home: Home) -> tuple[int, int]:
        """The first offset and the end offset of a queue, as its broker reports them."""
        queue = home.queue
        header = m.OfQueue(topic=home.topic, queue_id=queue.number, broker_name=queue.broker)
        both = await self._asking.gather(
            [self._asking.broker(queue.broker, each, header, standby=True) for each in (GET_MIN_OFFSET, GET_MAX_OFFSET)]
        )
        for each in both:
            if isinstance(each, PenstockError):
                raise each
        start, end = (each.header.offset for each in both if not isinstance(each, PenstockError))
        return max(start, 0), max(end, 0)


# Waiting for messages: one held pull for each place (partition and offset), however many callers wait there.
#
# A broker cannot be asked to drop a pull. So a pull without callers stays until its response, and serves the next
# caller that waits at the same place.
_HELD_MS: Final = 15_000
_PAUSE_S: Final = 0.1

_Place = tuple[Partition, int]


class Arrivals:
    """Held pulls of one backend."""

    def __init__(self, reading: Reading, topics: Topics, runtime: Runtime) -> None:
        self._reading = reading
        self._topics = topics
        self._runtime = runtime
        self._waiting: dict[_Place, set[Promise[None]]] = {}
        self._places: dict[Promise[None], list[_Place]] = {}
        self._held: set[_Place] = set()

    def wait(self, known: Mapping[Partition, int]) -> Promise[None]:
        """A promise that is set once a partition has news (``penstock.interfaces.enode.Enode.arrival``)."""
        promise: Promise[None] = self._runtime.promise()
        self._places[promise] = list(known.items())
        for place in known.items():
            self._waiting.setdefault(place, set()).add(promise)
            if place not in self._held:
                self._held.add(place)
                self._runtime.spawn(self._hold(place), f"wait for messages of {place[0]}")
        return promise

    def forget(self, promise: Promise[None]) -> None:
        """The caller no longer waits for this promise."""
        for place in self._places.pop(promise, ()):
            waiting = self._waiting.get(place)
            if waiting is not None:
                waiting.discard(promise)
                if not waiting:
                    del self._waiting[place]

    async def _hold(self, place: _Place) -> None:
        """Hold pulls until there is news or no caller waits any more."""
        partition, end = place
        try:
            while place in self._waiting:
                try:
                    home = await self._topics.home(partition)
                    got = await self._reading.pull(home, max(end, 0), count=1, held_ms=_HELD_MS)
                except PenstockError:
                    await self._runtime.sleep(_PAUSE_S)
                    if await self._gone(partition):
                        break
                    continue
                if got.end > end or got.next_offset > end or got.first > end:
                    break
                if got.end < end:
                    await self._runtime.sleep(_PAUSE_S)  # acknowledged, and not readable yet
        finally:
            self._held.discard(place)
            for promise in list(self._waiting.get(place, ())):
                self.forget(promise)
                promise.set(None)

    async def _gone(self, partition: Partition) -> bool:
        """Whether the partition does not exist any more."""
        try:
            topic = await self._topics.topic(partition.topic)
        except PenstockError:
            return False
        return topic is None or partition.id >= topic.partitions


# Offsets by time: the first message at or after a time, by its record's time.
#
# Brokers search by the time of storing, and 4.9 finds the nearest message. Times of storing grow along a queue, so a
# binary search finds the first message stored at that time or later; from there the queue is read until a record has
# that time, since a message stored later may be older (copies of old records). A record whose producer's clock is ahead
# may be newer than its time of storing; it is found if the difference is below a second.
_SKEW_MS: Final = 1_000
_LUMP_BYTES: Final = 1 << 20


class Finding:
    """Searches by time for one backend."""

    def __init__(self, reading: Reading, runtime: Runtime) -> None:
        self._reading = reading
        self._runtime = runtime

    async def at(self, home: Home, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, time in ms) of the first record that is not before ``timestamp_ms``; None if there is none."""
        start, end = await self._reading.bounds(home)
        at, looked = await self._stored_since(home, timestamp_ms - _SKEW_MS, start, end), False
        while at < end:
            pulled = [await self._reading.pull(home, at)]
            if looked:  # it is not among the first few: read the rest in large pieces, which is faster
                pulled = await self._reading.follow(home, pulled[0], _LUMP_BYTES)
            bodies = [got.body for got in pulled if len(got.body)]
            found = await self._runtime.in_thread(partial(_first, bodies, at, timestamp_ms)) if bodies else None
            if found is not None or pulled[-1].next_offset <= at:
                return found
            at, looked = pulled[-1].next_offset, True
        return None

    async def _stored_since(self, home: Home, since_ms: int, start: int, end: int) -> int:
        """The first offset that was stored at ``since_ms`` or later; ``end`` if there is none."""
        while start < end:
            middle = (start + end) // 2
            got = await self._reading.pull(home, middle, count=1)
            if stored_ms(got) < since_ms:
                start = middle + 1
            else:
                end = middle
        return start


def stored_ms(got: Pulled) -> float:
    """When the first message of a response was stored; infinity for a response without messages."""
    from penstock.protocols.rocketmq.wire.message_format import read_stored

    return next((message.store_ms for message in read_stored(got.body, check_crcs=False)), float("inf"))


def _first(bodies: Sequence[Buffer], start: int, timestamp_ms: int) -> tuple[int, int] | None:
    import numpy as np

    from penstock.protocols.rocketmq.wire.columns import decode

    rows = decode(bodies, start=start, columns=("timestamp", "offset")).batch
    times = np.asarray(rows.column("timestamp").cast("int64")) // 1_000
    late = np.flatnonzero(times >= timestamp_ms)
    if not len(late):
        return None
    row = int(late[0])
    return int(rows.column("offset")[row].as_py()), int(times[row])
