"""Writing batches to queues (`Writing`), one request per queue at a time, and the ends of queues that were just written
to (`Ends`)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, field

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Promise, Runtime
from penstock.errors import BatchTooLarge, PenstockError, Unsupported, UpstreamLost
from penstock.interfaces.enode import Appended, Batch, Stored, bytes_of
from penstock.interfaces.framing import Buffer
from penstock.model import Codec, Partition
from penstock.protocols.rocketmq.backend.relay import Asking
from penstock.protocols.rocketmq.backend.topics import Home, Topics
from penstock.protocols.rocketmq.config import DEAD_LETTER, RETRY
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import Lump, lumps, messages_of
from penstock.protocols.rocketmq.wire.rpc import SEND_BATCH_MESSAGE
from penstock.records.batch import batches

__all__ = ["NODE_GROUP", "Ends", "Writing"]

# Brokers acknowledge a message a moment before it is readable. Until then its queue's end is known from here.
_COUNTS_S: Final = 5.0
"""An end counts for this long; a broker that has not shown a message by then has lost it."""
_MOST: Final = 100_000


class Ends:
    """Ends of queues by acknowledgements to this node. ``monotonic`` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: OrderedDict[Home, tuple[int, float]] = OrderedDict()

    def note(self, home: Home, end: int) -> None:
        """The message just below ``end`` was acknowledged."""
        known = self._known.pop(home, (0, 0.0))[0]
        self._known[home] = (max(known, end), self._monotonic())
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def of(self, home: Home) -> int:
        """A lower bound of the queue's end; 0 if nothing is known."""
        end, at_s = self._known.get(home, (0, 0.0))
        return end if self._monotonic() - at_s < _COUNTS_S else 0


NODE_GROUP: Final = "PENSTOCK_SNODE"
"""The group name with which a node writes and reads for clients of other protocols."""

_STORED: Final = (Code.SUCCESS, Code.FLUSH_DISK_TIMEOUT, Code.SLAVE_NOT_AVAILABLE, Code.FLUSH_SLAVE_TIMEOUT)
"""The last three mean: stored, though less safely than the broker should. Java's producers accept them, too."""
_REQUEST_BYTES: Final = 1 << 20
_WRITE_S: Final = 25.0
"""A batch is stored or refused by then: Kafka's producers send again after 30 s without a response."""
_LEAST_S: Final = 5.0
"""A batch with less time left than this is not sent any more, and its producer may safely send it again."""
_AT_ONCE_BYTES: Final = 64 << 10
"""Larger batches, and compressed ones, are converted in a thread."""
_SAID_OF_ALL: Final = "WAIT\x01true"


class _Entry(Struct):
    """One batch: the number of its first message in its group's first lump, its messages and lumps, its deadline, and
    the promise of its result."""

    first: int
    count: int
    lumps: list[Lump]
    until_s: float
    result: Promise[Stored | PenstockError]


class _Group(Struct):
    """What is sent together: one lump made of several batches, or the lumps of one large batch."""

    lumps: list[Lump]
    entries: list[_Entry] = field(default_factory=list)

    def takes(self, lump: Lump) -> bool:
        """Whether the lump fits into this group."""
        return len(self.lumps) == 1 and len(self.lumps[0].body) + len(lump.body) <= _REQUEST_BYTES


class Writing:
    """Writes of one backend."""

    def __init__(self, asking: Asking, topics: Topics, ends: Ends, runtime: Runtime) -> None:
        self._asking = asking
        self._topics = topics
        self._ends = ends
        self._runtime = runtime
        self._turns: Locks[Home] = Locks(runtime.promise)
        self._waiting: dict[Home, deque[_Group]] = {}

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        """Write one batch. Raises what `append_all` returns in its place."""
        (result,) = await self.append_all(((partition, batch),))
        if isinstance(result, PenstockError):
            raise result
        return result

    async def append_all(self, batches_of: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        """Write batches: different queues concurrently, batches of one queue in order."""
        promises: list[Promise[Stored | PenstockError] | PenstockError] = []
        for partition, batch in batches_of:
            try:
                promises.append(await self._queued(partition, bytes_of(batch)))
            except PenstockError as error:
                promises.append(error)
        return [each if isinstance(each, PenstockError) else await each for each in promises]

    async def _queued(self, partition: Partition, batch: Buffer) -> Promise[Stored | PenstockError]:
        home = await self._topics.home(partition)
        if home.topic.startswith((RETRY, DEAD_LETTER)):
            raise Unsupported(
                "what a group could not consume is written by its members only", topic=partition.topic,
                hint="Write to the topic itself",
            )  # fmt: skip
        async with self._turns.held(home):
            groups = self._waiting.get(home)
            last = groups[-1] if groups else None
            work = partial(_converted, batch, partition.topic, last.lumps[0].born_ms if last else None)
            large = len(batch) > _AT_ONCE_BYTES or any(each.codec is not Codec.NONE for each in batches(batch))
            found = await self._runtime.in_thread(work) if large else work()
            return self._take(home, found)

    def _take(self, home: Home, found: list[Lump]) -> Promise[Stored | PenstockError]:
        result: Promise[Stored | PenstockError] = self._runtime.promise()
        groups = self._waiting.get(home)
        begins = groups is None
        if groups is None:
            groups = self._waiting[home] = deque()
        last = groups[-1] if groups else None
        count, until_s = sum(lump.messages for lump in found), self._runtime.monotonic() + _WRITE_S
        if last is not None and len(found) == 1 and last.lumps[0].born_ms == found[0].born_ms and last.takes(found[0]):
            (there,) = last.lumps
            last.lumps = [Lump(there.body + found[0].body, there.messages + count, there.born_ms)]
            last.entries.append(_Entry(there.messages, count, found, until_s, result))
        else:
            groups.append(_Group(found, [_Entry(0, count, found, until_s, result)]))
        if begins:
            self._runtime.spawn(self._drain(home, groups), f"write to {home.topic} at {home.queue.broker}")
        return result

    async def _drain(self, home: Home, groups: deque[_Group]) -> None:
        while groups:
            group = groups.popleft()
            try:
                bases = await self._send_all(home, group)
            except BatchTooLarge as error:
                if len(group.entries) > 1:  # each alone may be small enough
                    for each in reversed(group.entries):
                        alone = _Entry(0, each.count, each.lumps, each.until_s, each.result)
                        groups.appendleft(_Group(each.lumps, [alone]))
                else:
                    group.entries[0].result.set(error)
                continue
            except PenstockError as error:
                self._topics.forget(home.topic)
                for entry in group.entries:
                    entry.result.set(error)
                continue
            last = bases[-1] + group.lumps[-1].messages
            self._ends.note(home, last)
            for entry in group.entries:
                base = bases[0] + entry.first
                entry.result.set(Stored(base, base + entry.count - 1 if len(bases) == 1 else last - 1))
        del self._waiting[home]

    async def _send_all(self, home: Home, group: _Group) -> list[int]:
        """The offset of each lump's first message. Raises as `_send`."""
        until_s = group.entries[0].until_s
        if until_s - self._runtime.monotonic() < _LEAST_S:
            raise UpstreamLost(f"broker {home.queue.broker} is slow: this was not sent to it", node=home.queue.broker)
        return [await self._send(home, lump, until_s) for lump in group.lumps]

    async def _send(self, home: Home, lump: Lump, until_s: float) -> int:
        """The offset of the first message. Raises UpstreamLost; OutcomeUnknown if it may still be stored."""
        left_s = max(until_s - self._runtime.monotonic(), 1.0)
        header = m.SendMessage(
            producer_group=NODE_GROUP,
            topic=home.topic,
            default_topic=home.topic,  # so that this does not create a deleted topic again
            queue_id=home.queue.number,
            sys_flag=0,
            born_timestamp=lump.born_ms,
            properties=_SAID_OF_ALL,
            batch=True,
            broker_name=home.queue.broker,
        )
        answer = await self._asking.broker(
            home.queue.broker, SEND_BATCH_MESSAGE, header, lump.body, accept=_STORED, lane="append", write_s=left_s
        )
        return answer.header.queue_offset


def _converted(batch: Buffer, topic: str, born_ms: int | None) -> list[Lump]:
    return list(lumps(messages_of(batch, topic), _REQUEST_BYTES, born_ms))
