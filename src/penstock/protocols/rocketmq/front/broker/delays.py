"""Messages for later: parked by how long they wait, and put into their topics when their time has come.

All of a level wait equally long, so that they come due in the order in which they came: one partition a level, and one
offset that says how far it was delivered. That offset is remembered after the messages are stored, so that a node that
dies in between delivers some of them twice, and loses none. Source: Apache RocketMQ 4.9 and 5.x,
``ScheduleMessageService``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.columnar.plain_records import Stored
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq.front.broker.messages import number_of
from penstock.protocols.rocketmq.front.broker.own_topic import OwnTopic
from penstock.protocols.rocketmq.front.ledger import Ledger
from penstock.seams.enode import Enode
from penstock.seams.patience import patiently
from penstock.seams.runtime import Runtime

__all__ = ["LEVELS_S", "Delays", "header_of"]

_log = logging.getLogger("penstock.node")

LEVELS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
"""Seconds of the levels 1 to 18."""

_DUE: Final = "rocketmq.due"
_TOPIC: Final = "REAL_TOPIC"
_QUEUE: Final = "REAL_QID"
_KIND: Final = "delayed"
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
        if await patiently(self._runtime, self._parked.found) is not None:
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
        at = int(self._ledger.get(_KIND, str(number)) or 0)
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
        if self._ledger.get(_KIND, str(number)) != at:
            await self._ledger.put(_KIND, str(number), at)


def header_of(record: Stored, name: str) -> str:
    """A header's text; "" where there is none."""
    for each, value in record.headers:
        if each == name and value is not None:
            return value.decode(errors="replace")
    return ""
