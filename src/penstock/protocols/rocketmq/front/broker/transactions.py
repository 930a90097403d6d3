"""Messages of transactions: kept where nobody reads them until their producer has decided, or was asked often enough.

A half message lies in a topic of the node's own; that it is open stands in the ledger, from before its producer is
answered until it is decided. So a node that starts again asks on. What is committed is stored in its topic first, and
closed then: a node that dies in between asks once more, and may store it twice. Source: Apache RocketMQ 4.9 and 5.x,
``TransactionalMessageServiceImpl``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.columnar.plain_records import Stored
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.broker.delays import Deliver, header_of
from penstock.protocols.rocketmq.front.broker.messages import number_of
from penstock.protocols.rocketmq.front.broker.own_topic import OwnTopic, record_at
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.ledger import Ledger
from penstock.protocols.rocketmq.messages import Decision
from penstock.protocols.rocketmq.records.beside import PREPARED, SYS_FLAG
from penstock.seams.enode import Enode
from penstock.seams.runtime import Runtime

__all__ = ["GIVEN_UP", "HALF", "Ask", "Transactions"]

_log = logging.getLogger("penstock.node")

GIVEN_UP: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Where half messages go whose producers never decided."""

HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Where producers are told that half messages lie."""

_KIND: Final = "half"
_TOPIC: Final = "REAL_TOPIC"
_QUEUE: Final = "REAL_QID"
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
        await self._ledger.put(_KIND, str(offset), [0, self._runtime.now_ms()])
        return offset

    async def end(self, partition: Partition, offset: int, place: int, group: str, decision: int) -> None:
        """What its producer says became of it. Raises Refused, StoreError."""
        record = await self._half(offset) if partition.topic == self.topic.name else None
        if record is None:
            raise Refused(Code.SYSTEM_ERROR, "Find prepared transaction message failed")
        if header_of(record, _GROUP) != group:
            raise Refused(Code.SYSTEM_ERROR, "The producer group wrong")
        if self._ledger.get(_KIND, str(offset)) is None:
            return  # decided already
        if decision == Decision.COMMIT:
            numbers = ((SYS_FLAG, b"%d" % _COMMITTED), (PREPARED, b"%d" % place))
            committed = record._replace(headers=(*record.headers, *numbers))
            await self._deliver(header_of(record, _TOPIC), number_of(record, _QUEUE), committed)
        if decision in (Decision.COMMIT, Decision.ROLLBACK):
            await self._ledger.put(_KIND, str(offset), None)

    async def check(self) -> None:
        """Ask for what has been open for too long. Raises StoreError."""
        now_ms = self._runtime.now_ms()
        for name, (asked, since_ms) in list(self._ledger.all(_KIND)):
            record = await self._half(int(name))
            if record is None:
                await self._ledger.put(_KIND, name, None)
            elif now_ms >= since_ms + self._immune_ms(record):
                await self._again(name, record, asked, since_ms)

    async def _again(self, name: str, record: Stored, asked: int, since_ms: int) -> None:
        topic, queue = header_of(record, _TOPIC), number_of(record, _QUEUE)
        if asked >= self._checks:
            await self._deliver(GIVEN_UP, 0, record)
            await self._ledger.put(_KIND, name, None)
            _log.warning("nobody decided on message %s for %s after %d questions", name, topic, asked)
            return
        await self._ledger.put(_KIND, name, [asked + 1, since_ms])
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
