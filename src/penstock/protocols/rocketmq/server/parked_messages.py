"""Messages that nobody reads yet, kept in topics of the front's own: delayed ones, and those of open transactions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.concurrency.runtime import Runtime, retry_while_unreachable
from penstock.errors import CorruptBatch, LogOffsetOutOfRange, PenstockError, TopicExists
from penstock.interfaces.enode import Enode, FetchPart, TopicState, fetch_one
from penstock.interfaces.node import OWN_TOPICS, locate_damage
from penstock.model import Partition
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.ledger import Ledger
from penstock.protocols.rocketmq.wire.log_records import number_of
from penstock.protocols.rocketmq.wire.messages import Decision
from penstock.protocols.rocketmq.wire.properties import PREPARED, SYS_FLAG
from penstock.records.scalar_codec import Stored, encode_batch, stored_records
from penstock.records.validation import ValidatedBatch

__all__ = ["GIVEN_UP", "HALF", "LEVELS_S", "Ask", "Delays", "OwnTopic", "Transactions", "header_of", "record_at"]

_CONFIG: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
_READ_BYTES: Final = 256 << 10


class OwnTopic:
    """Made with its first record."""

    def __init__(self, enode: Enode, node_id: int, name: str, partitions: int) -> None:
        self._enode = enode
        self._partitions = partitions
        self.name = f"{OWN_TOPICS}{node_id}_rocketmq_{name}"

    async def found(self) -> TopicState | None:
        """The topic, if it is there by now."""
        return await self._enode.topic(self.name)

    async def made(self) -> TopicState:
        """The topic."""
        topic = await self._enode.topic(self.name)
        while topic is None:
            try:
                return await self._enode.create_topic(self.name, self._partitions, _CONFIG)
            except TopicExists:  # somebody was quicker
                topic = await self._enode.topic(self.name)
        return topic

    async def append(self, number: int, record: Stored) -> int:
        """Write one; its offset. Raises StoreError."""
        await self.made()
        (result,) = await self._enode.append_all(
            ((Partition(self.name, number), ValidatedBatch(encode_batch([record]))),)
        )
        if isinstance(result, PenstockError):
            raise result
        return result.base_offset

    async def read(self, number: int, offset: int) -> list[Stored]:
        """What there is from ``offset`` on, a piece of it; nothing at the end. Raises StoreError, CorruptBatch."""
        part = FetchPart(Partition(self.name, number), offset, _READ_BYTES)
        try:
            found = await fetch_one(self._enode, part)
        except LogOffsetOutOfRange as error:
            if offset >= error.start_offset:
                return []
            found = await fetch_one(self._enode, part._replace(offset=error.start_offset))
        try:
            return list(stored_records(found.read(), offset))
        except CorruptBatch as error:
            await locate_damage(self._enode, part.partition, error)
            raise

    async def forget_before(self, number: int, offset: int) -> None:
        """What lies before is not needed any more."""
        if self._enode.abilities_of(self.name).deletion:
            await self._enode.delete_records(Partition(self.name, number), offset)


async def record_at(enode: Enode, partition: Partition, offset: int) -> Stored | None:
    """One record; None where there is none, or not any more. Raises StoreError, CorruptBatch."""
    try:
        found = await fetch_one(enode, FetchPart(partition, offset, 1, stable=True))
    except LogOffsetOutOfRange:
        return None
    try:
        first = next(stored_records(found.read(), offset, found.aborted), None)
    except CorruptBatch as error:
        await locate_damage(enode, partition, error)
        raise
    return first if first is not None and first.offset == offset else None


# Messages for later: parked by how long they wait, and put into their topics when their time has come.
#
# All of a level wait equally long, so that they come due in the order in which they came: one partition a level, and
# one offset that says how far it was delivered. That offset is remembered after the messages are stored, so that a node
# that dies in between delivers some of them twice, and loses none. Source: Apache RocketMQ 4.9 and 5.x,
# ``ScheduleMessageService``.
_log = logging.getLogger("penstock.node")

LEVELS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
"""Seconds of the levels 1 to 18."""

_DUE: Final = "rocketmq.due"
_TOPIC: Final = "REAL_TOPIC"
_QUEUE: Final = "REAL_QID"
_DELAYED: Final = "delayed"
_AGAIN_S: Final = 1.0
_FORGET_EVERY: Final = 1_000

Deliver = Callable[[str, int, Stored], Awaitable[None]]
"""Puts a record into a queue: topic as RocketMQ calls it, number of the queue."""


class Delays:
    """Of one front. ``scale`` shortens the levels, for tests."""

    def __init__(
        self, enode: Enode, runtime: Runtime, ledger: Ledger, node_id: int, deliver: Deliver, scale: float = 1.0
    ) -> None:
        self._enode = enode
        self._runtime = runtime
        self._ledger = ledger
        self._deliver = deliver
        self._scale = scale
        self._parked = OwnTopic(enode, node_id, "delayed", len(LEVELS_S))
        self._running = False

    async def start(self) -> None:
        """Go on with what waits. Raises StoreError."""
        if await retry_while_unreachable(self._runtime, self._parked.found) is not None:
            self._run()

    def number(self, level: int) -> int:
        """The partition in which messages of a level wait; one that there is not is the last one."""
        return min(level, len(LEVELS_S)) - 1

    async def park(self, level: int, topic: str, queue: int, record: Stored) -> int:
        """Keep a record until its level's time is over, and put it into that queue then; the offset where it waits.

        Raises StoreError.
        """
        number = self.number(level)
        due_ms = self._runtime.now_ms() + int(LEVELS_S[number] * 1_000 * self._scale)
        told = {_DUE: b"%d" % due_ms, _TOPIC: topic.encode(), _QUEUE: b"%d" % queue}
        headers = [pair for pair in record.headers if pair[0] not in told]
        offset = await self._parked.append(number, record._replace(headers=(*headers, *told.items())))
        self._run()
        return offset

    @property
    def topic(self) -> OwnTopic:
        """Where they wait."""
        return self._parked

    def _run(self) -> None:
        if not self._running:
            self._running = True
            for number in range(len(LEVELS_S)):
                self._runtime.spawn(self._follow(number), f"deliver delayed messages of level {number + 1}")

    async def _follow(self, number: int) -> None:
        at = int(self._ledger.get(_DELAYED, str(number)) or 0)
        while True:
            try:
                at = await self._deliver_from(number, at)
            except PenstockError as error:
                _log.warning("cannot deliver delayed messages of level %d now: %s", number + 1, error)
                await self._runtime.sleep(_AGAIN_S)

    async def _deliver_from(self, number: int, at: int) -> int:
        """Deliver a piece of what waits, or wait for some; the offset to go on from."""
        records = await self._parked.read(number, at)
        if not records:
            arrival = self._enode.arrival({Partition(self._parked.name, number): at})
            try:
                await arrival
            finally:
                self._enode.forget_arrival(arrival)
            return at
        for record in records:
            left_ms = number_of(record, _DUE) - self._runtime.now_ms()
            if left_ms > 0:
                await self._remember(number, at)
                await self._runtime.sleep(left_ms / 1_000)
            await self._deliver_one(record)
            at = record.offset + 1
            if not at % _FORGET_EVERY:
                await self._remember(number, at)
                await self._parked.forget_before(number, at)
        await self._remember(number, at)
        return at

    async def _deliver_one(self, record: Stored) -> None:
        topic, queue = header_of(record, _TOPIC), number_of(record, _QUEUE)
        headers = tuple(pair for pair in record.headers if pair[0] != _DUE)
        if topic:
            await self._deliver(topic, queue, record._replace(headers=headers))

    async def _remember(self, number: int, at: int) -> None:
        if self._ledger.get(_DELAYED, str(number)) != at:
            await self._ledger.put(_DELAYED, str(number), at)


def header_of(record: Stored, name: str) -> str:
    """A header's text; "" where there is none."""
    for each, value in record.headers:
        if each == name and value is not None:
            return value.decode(errors="replace")
    return ""


# Messages of transactions: kept where nobody reads them until their producer has decided, or was asked often enough.
#
# A half message lies in a topic of the node's own; that it is open stands in the ledger, from before its producer is
# answered until it is decided. So a node that starts again asks on. What is committed is stored in its topic first, and
# closed then: a node that dies in between asks once more, and may store it twice. Source: Apache RocketMQ 4.9 and 5.x,
# ``TransactionalMessageServiceImpl``.


GIVEN_UP: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Where half messages go whose producers never decided."""

HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Where producers are told that half messages lie."""

_HALF: Final = "half"


_GROUP: Final = "PGROUP"
_COMMITTED: Final = 8

Ask = Callable[[str, Stored, str, int], Awaitable[None]]
"""Asks a producer of a group what became of a record, which was meant for a topic and a queue."""


class Transactions:
    """Of one front. A producer is asked after ``timeout_s``, at most ``checks`` times."""

    def __init__(
        self,
        enode: Enode,
        runtime: Runtime,
        ledger: Ledger,
        node_id: int,
        deliver: Deliver,
        ask: Ask,
        *,
        timeout_s: float,
        checks: int,
    ) -> None:
        self._enode = enode
        self._runtime = runtime
        self._ledger = ledger
        self._deliver = deliver
        self._ask = ask
        self._timeout_ms = int(timeout_s * 1_000)
        self._checks = checks
        self.topic = OwnTopic(enode, node_id, "half", 1)

    async def prepare(self, topic: str, queue: int, record: Stored) -> int:
        """Keep a half message; where it lies. Raises StoreError."""
        told = {_TOPIC: topic.encode(), _QUEUE: b"%d" % queue}
        headers = [pair for pair in record.headers if pair[0] not in told and pair[0] != SYS_FLAG]
        offset = await self.topic.append(0, record._replace(headers=(*headers, *told.items())))
        await self._ledger.put(_HALF, str(offset), [0, self._runtime.now_ms()])
        return offset

    async def end(self, partition: Partition, offset: int, place: int, group: str, decision: int) -> None:
        """What its producer says became of it. Raises Refused, StoreError."""
        record = await self._half(offset) if partition.topic == self.topic.name else None
        if record is None:
            raise Refused(Code.SYSTEM_ERROR, "Find prepared transaction message failed")
        if header_of(record, _GROUP) != group:
            raise Refused(Code.SYSTEM_ERROR, "The producer group wrong")
        if self._ledger.get(_HALF, str(offset)) is None:
            return  # decided already
        if decision == Decision.COMMIT:
            numbers = ((SYS_FLAG, b"%d" % _COMMITTED), (PREPARED, b"%d" % place))
            committed = record._replace(headers=(*record.headers, *numbers))
            await self._deliver(header_of(record, _TOPIC), number_of(record, _QUEUE), committed)
        if decision in (Decision.COMMIT, Decision.ROLLBACK):
            await self._ledger.put(_HALF, str(offset), None)

    async def check(self) -> None:
        """Ask for what has been open for too long. Raises StoreError."""
        now_ms = self._runtime.now_ms()
        for name, (asked, since_ms) in list(self._ledger.all(_HALF)):
            record = await self._half(int(name))
            if record is None:
                await self._ledger.put(_HALF, name, None)
            elif now_ms >= since_ms + self._immune_ms(record):
                await self._again(name, record, asked, since_ms)

    async def _again(self, name: str, record: Stored, asked: int, since_ms: int) -> None:
        topic, queue = header_of(record, _TOPIC), number_of(record, _QUEUE)
        if asked >= self._checks:
            await self._deliver(GIVEN_UP, 0, record)
            await self._ledger.put(_HALF, name, None)
            _log.warning("nobody decided on message %s for %s after %d questions", name, topic, asked)
            return
        await self._ledger.put(_HALF, name, [asked + 1, since_ms])
        await self._ask(header_of(record, _GROUP), record, topic, queue)

    def _immune_ms(self, record: Stored) -> int:
        """For how long nobody is asked."""
        return number_of(record, "CHECK_IMMUNITY_TIME_IN_SECONDS") * 1_000 or self._timeout_ms

    async def _half(self, offset: int) -> Stored | None:
        if await self.topic.found() is None:
            return None
        return await record_at(self._enode, Partition(self.topic.name, 0), offset)

    async def check_for_ever(self, every_s: float) -> None:
        """What the front does by itself now and then."""
        while True:
            await self._runtime.sleep(every_s)
            try:
                await self.check()
            except PenstockError as error:
                _log.warning("cannot ask what became of transactions, will try again: %s", error)
