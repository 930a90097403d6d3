"""Messages that are parked in hidden topics of the front: delayed ones (`Delays`) and half messages (`Transactions`).

`OwnTopic` is such a topic; `record_at` reads one record.
"""

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
    """A hidden topic of this node, created with its first record."""

    def __init__(self, enode: Enode, node_id: int, name: str, partitions: int) -> None:
        self._enode = enode
        self._partitions = partitions
        self.name = f"{OWN_TOPICS}{node_id}_rocketmq_{name}"

    async def found(self) -> TopicState | None:
        """The topic; None before its first record."""
        return await self._enode.topic(self.name)

    async def made(self) -> TopicState:
        """The topic, created if it does not exist."""
        topic = await self._enode.topic(self.name)
        while topic is None:
            try:
                return await self._enode.create_topic(self.name, self._partitions, _CONFIG)
            except TopicExists:  # created concurrently
                topic = await self._enode.topic(self.name)
        return topic

    async def append(self, number: int, record: Stored) -> int:
        """Write one record; returns its offset. Raises StoreError."""
        await self.made()
        (result,) = await self._enode.append_all(
            ((Partition(self.name, number), ValidatedBatch(encode_batch([record]))),)
        )
        if isinstance(result, PenstockError):
            raise result
        return result.base_offset

    async def read(self, number: int, offset: int) -> list[Stored]:
        """Some records from ``offset`` on; none at the end. Raises StoreError, CorruptBatch."""
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
        """Delete what lies before ``offset``, if the backend can."""
        if self._enode.abilities_of(self.name).deletion:
            await self._enode.delete_records(Partition(self.name, number), offset)


async def record_at(enode: Enode, partition: Partition, offset: int) -> Stored | None:
    """One record; None if there is none, or none any more. Raises StoreError, CorruptBatch."""
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


# Delayed messages: parked by their delay level, and delivered to their topics when their time has come.
#
# All messages of a level wait equally long, so they become due in the order of arrival: a level needs one partition and
# one offset, up to which its messages are delivered. The offset is stored after the messages, so a node that dies in
# between delivers some of them twice and loses none. Source: Apache RocketMQ 4.9 and 5.x, ``ScheduleMessageService``.
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
"""Puts a record into a queue: RocketMQ's name of the topic, the queue's number, the record."""


class Delays:
    """One front's delayed messages. ``scale`` shortens the levels, for tests."""

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
        """Continue with messages from before the restart. Raises StoreError."""
        if await retry_while_unreachable(self._runtime, self._parked.found) is not None:
            self._run()

    def number(self, level: int) -> int:
        """The partition of a level; a level that does not exist uses the last one."""
        return min(level, len(LEVELS_S)) - 1

    async def park(self, level: int, topic: str, queue: int, record: Stored) -> int:
        """Park a record for its level's time, then deliver it to that queue. Returns its offset where it is parked.

        Raises StoreError.
        """
        number = self.number(level)
        due_ms = self._runtime.now_ms() + int(LEVELS_S[number] * 1_000 * self._scale)
        own = {_DUE: b"%d" % due_ms, _TOPIC: topic.encode(), _QUEUE: b"%d" % queue}
        headers = [pair for pair in record.headers if pair[0] not in own]
        offset = await self._parked.append(number, record._replace(headers=(*headers, *own.items())))
        self._run()
        return offset

    @property
    def topic(self) -> OwnTopic:
        """The topic in which messages are parked."""
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
        """Deliver some of the parked messages, or wait for new ones; returns the offset to continue from."""
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
    """A header's text; "" if there is none."""
    for each, value in record.headers:
        if each == name and value is not None:
            return value.decode(errors="replace")
    return ""


# Messages of transactions: hidden until their producer has decided, or was asked often enough.
#
# A half message lies in a hidden topic. The ledger says that it is open, from before its producer gets its response
# until the decision, so a restarted node continues to ask. A committed message is stored in its topic first and closed
# afterwards: a node that dies in between asks once more, and may store it twice. Source: Apache RocketMQ 4.9 and 5.x,
# ``TransactionalMessageServiceImpl``.


GIVEN_UP: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""The topic of half messages whose producers never decided."""

HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
"""The topic of half messages, as producers see it."""

_HALF: Final = "half"


_GROUP: Final = "PGROUP"
_COMMITTED: Final = 8

Ask = Callable[[str, Stored, str, int], Awaitable[None]]
"""Asks a producer of a group about a half message, which was meant for a topic and a queue."""


class Transactions:
    """One front's half messages. A producer is first asked after ``timeout_s``, at most ``checks`` times."""

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
        """Park a half message; returns its offset there. Raises StoreError."""
        own = {_TOPIC: topic.encode(), _QUEUE: b"%d" % queue}
        headers = [pair for pair in record.headers if pair[0] not in own and pair[0] != SYS_FLAG]
        offset = await self.topic.append(0, record._replace(headers=(*headers, *own.items())))
        await self._ledger.put(_HALF, str(offset), [0, self._runtime.now_ms()])
        return offset

    async def end(self, partition: Partition, offset: int, place: int, group: str, decision: int) -> None:
        """Carry out the producer's decision. Raises Refused, StoreError."""
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
        """Ask about messages that have been open for too long. Raises StoreError."""
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
            _log.warning("no producer decided on message %s for %s after %d questions", name, topic, asked)
            return
        await self._ledger.put(_HALF, name, [asked + 1, since_ms])
        await self._ask(header_of(record, _GROUP), record, topic, queue)

    def _immune_ms(self, record: Stored) -> int:
        """The time before the first question."""
        return number_of(record, "CHECK_IMMUNITY_TIME_IN_SECONDS") * 1_000 or self._timeout_ms

    async def _half(self, offset: int) -> Stored | None:
        if await self.topic.found() is None:
            return None
        return await record_at(self._enode, Partition(self.topic.name, 0), offset)

    async def check_for_ever(self, every_s: float) -> None:
        """The front's background task: `check` every ``every_s`` seconds."""
        while True:
            await self._runtime.sleep(every_s)
            try:
                await self.check()
            except PenstockError as error:
                _log.warning("cannot ask what became of transactions, will try again: %s", error)
