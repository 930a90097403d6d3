"""Committed offsets of other protocols' groups, at the brokers of their queues: where RocketMQ's tools look for them.

A broker keeps a number a queue and group, and writes its table every five seconds: what was committed just before one
was killed is read again. Text beside an offset is not kept. Everything else that a node's offsets service keeps of a
group, fronts' own descriptions, stays with the node (``rest``).
What must not live here: who may commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from penstock.errors import PenstockError, Unsupported
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import RETRY, is_internal
from penstock.protocols.rocketmq.enode.asking import Asking
from penstock.protocols.rocketmq.enode.groups import group_of, rocket_group
from penstock.protocols.rocketmq.enode.numbering import Queue
from penstock.protocols.rocketmq.enode.offset_tables import OffsetTables, Table
from penstock.protocols.rocketmq.enode.topics import Home, Topics
from penstock.protocols.rocketmq.enode.writing import NODE_GROUP
from penstock.protocols.rocketmq.methods import (
    DELETE_SUBSCRIPTIONGROUP,
    UPDATE_AND_CREATE_TOPIC,
    UPDATE_CONSUMER_OFFSET,
)
from penstock.seams.locks import Locks
from penstock.seams.node import Look, Offsets, Standing, Which
from penstock.seams.runtime import Runtime

__all__ = ["BrokerOffsets"]

_log = logging.getLogger("penstock.node")
_MOST_SHOWN: Final = 100_000
_NOWHERE: Final = -1
"""Of a queue in which a group has nothing: brokers of 4.9 and 5.x take it, and answer 14 then as before any commit."""


class BrokerOffsets:
    """``penstock.seams.node.Offsets``."""

    def __init__(self, rest: Offsets, asking: Asking, topics: Topics, runtime: Runtime) -> None:
        self._rest = rest
        self._asking = asking
        self._topics = topics
        self._turns: Locks[str] = Locks(runtime.promise)
        self._tables = OffsetTables(asking, runtime)
        self._shown: set[str] = set()

    # Looking.

    async def groups(self) -> list[str]:
        """All that have offsets at a broker, whichever protocol their members speak."""
        tables = await self._of_all([broker.name for broker in self._asking.masters()])
        names = {
            key.partition("@")[2]
            for table in tables
            for key, offsets in table.items()
            if max(offsets.values(), default=_NOWHERE) > _NOWHERE
        }
        return sorted(group_of(name) for name in names if name and name != NODE_GROUP)

    async def committed(self, group: str) -> Mapping[Partition, Committed]:
        """Raises UpstreamLost where a broker has never answered: half of it would send readers elsewhere."""
        name = rocket_group(group)
        brokers = [broker.name for broker in self._asking.masters()]
        found: dict[Partition, Committed] = {}
        for broker, table in zip(brokers, await self._of_all(brokers), strict=True):
            for topic, number, offset in _of_group(table, name):
                partition = await self._topics.partition(topic, Queue(broker, number))
                if partition is not None and offset > _NOWHERE:
                    found[partition] = Committed(offset)
        return found

    async def _of_all(self, brokers: Sequence[str]) -> list[Table]:
        tables = await self._asking.gather([self._tables.of(broker) for broker in brokers])
        for table in tables:
            if isinstance(table, PenstockError):
                raise table
        return [table for table in tables if not isinstance(table, PenstockError)]

    async def standing(self, group: str) -> Standing:
        return Standing(await self.committed(group), ())

    # Changing.

    async def commit(
        self, group: str, offsets: Mapping[Partition, Committed], look: Look | None = None, host: str | None = None
    ) -> None:
        """Raises UpstreamLost and its kin; some of them may be committed then. Brokers keep what is committed."""
        async with self._turns.held(group):
            homes = [(await self._topics.home(partition), each.offset) for partition, each in offsets.items()]
            if look is not None:
                look()
            await self._put(group, homes)
            await self._show(rocket_group(group), {home.queue.broker for home, _ in homes})

    async def forget(self, group: str, which: Which, look: Look | None = None) -> None:
        """By an offset that means nowhere: brokers take away nothing less than a group."""
        async with self._turns.held(group):
            known = (await self.committed(group)).items()
            homes = [(await self._topics.home(partition), partition, each) for partition, each in known]
            if look is not None:
                look()
            await self._put(group, [(home, _NOWHERE) for home, partition, each in homes if which(partition, each)])

    async def expire(self, group: str, which: Which) -> None:
        """Brokers do not say when something was committed, and drop by themselves what is of topics that are gone."""

    async def delete_group(self, group: str, look: Callable[[bool], None]) -> None:
        async with self._turns.held(group):
            known = bool(await self.committed(group))

            def looked(described: bool) -> None:
                del described
                look(known)

            await self._rest.delete_group(group, looked)
            header = m.DeleteGroup(group_name=rocket_group(group), clean_offset=True, remove_offset=True)
            for broker in self._asking.masters() if known else ():
                await self._asking.broker(broker.name, DELETE_SUBSCRIPTIONGROUP, header)
                self._tables.forget(broker.name)

    async def _put(self, group: str, offsets: Sequence[tuple[Home, int]]) -> None:
        """All side by side; then the first error, if there is one."""
        name = rocket_group(group)
        for done in await self._asking.gather([self._update(name, home, offset) for home, offset in offsets]):
            if isinstance(done, PenstockError):
                raise done

    async def _update(self, name: str, home: Home, offset: int) -> None:
        topic, (broker, number) = home.topic, home.queue
        header = m.UpdateConsumerOffset(
            consumer_group=name, topic=topic, queue_id=number, commit_offset=offset, broker_name=broker
        )
        await self._asking.of_group(broker, name, UPDATE_CONSUMER_OFFSET, header)
        self._tables.note(broker, f"{topic}@{name}", number, offset)

    async def _show(self, name: str, brokers: Collection[str]) -> None:
        """Have operators' tools find the group: they look for it where its retry topic is, which brokers make when they
        hear of a member. Where that may not be done, its offsets count all the same."""
        if name in self._shown or len(self._shown) >= _MOST_SHOWN:
            return
        self._shown.add(name)
        header = m.CreateTopic(topic=RETRY + name, read_queue_nums=1, write_queue_nums=1)
        try:
            if not await self._topics.there(RETRY + name):
                for broker in sorted(brokers):
                    await self._asking.broker(broker, UPDATE_AND_CREATE_TOPIC, header)
        except PenstockError as error:
            _log.info("group %s is not made known to those who look for it by its retry topic: %s", name, error)

    # What is the node's own.

    async def save_group(self, group: str, record: bytes, look: Look | None = None) -> None:
        await self._rest.save_group(group, record, look)

    async def saved_groups(self) -> Mapping[str, bytes]:
        return await self._rest.saved_groups()

    # Within transactions, of which there are none.

    async def place_of(self, group: str) -> Partition:
        raise _no_transactions()

    async def commit_within(
        self,
        group: str,
        offsets: Mapping[Partition, Committed],
        producer_id: int,
        epoch: int,
        look: Look | None = None,
        host: str | None = None,
    ) -> None:
        raise _no_transactions()

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        raise _no_transactions()


def _no_transactions() -> Unsupported:
    return Unsupported("a RocketMQ cluster takes part in no other protocol's transactions")


def _of_group(table: Table, name: str) -> Iterator[tuple[str, int, int]]:
    """(topic, queue, offset) of one group."""
    for key, offsets in table.items():
        topic, _, of_group = key.partition("@")
        if of_group == name and not is_internal(topic):
            for number, offset in offsets.items():
                yield topic, number, offset
