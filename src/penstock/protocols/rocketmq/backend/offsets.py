"""Committed offsets of other protocols' groups, kept at the brokers of their queues.

`OffsetTables` loads brokers' tables, `rocket_group` and `group_of` convert names, `BrokerOffsets` is the interface.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError, Unsupported, UpstreamLost
from penstock.interfaces.node import Look, Offsets, Standing, Which
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq.backend.queue_writes import NODE_GROUP
from penstock.protocols.rocketmq.backend.relay import Asking
from penstock.protocols.rocketmq.backend.topics import Home, Queue, Topics
from penstock.protocols.rocketmq.config import RETRY, is_internal
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import MAX_FRAME_BYTES
from penstock.protocols.rocketmq.wire.rpc import (
    DELETE_SUBSCRIPTIONGROUP,
    GET_ALL_CONSUMER_OFFSET,
    UPDATE_AND_CREATE_TOPIC,
    UPDATE_CONSUMER_OFFSET,
)

__all__ = ["BrokerOffsets", "OffsetTables", "Table", "group_of", "rocket_group"]

# Brokers' tables of all groups' offsets. They are read as a whole, because no request lists the queues of one group.
#
# A table is valid for a second, with commits of this node merged in. While a broker is unreachable its last table
# counts: nothing can have been committed there since.
_BELIEVED_S: Final = 1.0

Table = Mapping[str, Mapping[int, int]]
"""``topic@group`` → queue → offset."""


class OffsetTables:
    """The offset tables of all brokers, one per node."""

    def __init__(self, asking: Asking, runtime: Runtime) -> None:
        self._asking = asking
        self._runtime = runtime
        self._turns: Locks[str] = Locks(runtime.promise)
        self._known: dict[str, tuple[float, dict[str, dict[int, int]]]] = {}
        self._meanwhile: dict[str, list[tuple[str, int, int]]] = {}

    async def of(self, broker: str) -> Table:
        """A broker's table. Raises UpstreamLost if the broker has never answered."""
        asked_s = self._runtime.monotonic()
        async with self._turns.held(broker):
            known = self._known.get(broker)
            if known is not None and asked_s - known[0] < _BELIEVED_S:
                return known[1]
            try:
                return await self._read(broker)
            except UpstreamLost:
                if known is None:
                    raise
                return known[1]

    def note(self, broker: str, key: str, queue: int, offset: int) -> None:
        """Merge a commit that the broker has acknowledged."""
        if broker in self._meanwhile:
            self._meanwhile[broker].append((key, queue, offset))
        if broker in self._known:
            self._known[broker][1].setdefault(key, {})[queue] = offset

    def forget(self, broker: str) -> None:
        """Load the broker's table anew at its next use."""
        if broker in self._known:
            self._known[broker] = (float("-inf"), self._known[broker][1])

    async def _read(self, broker: str) -> Table:
        at_s = self._runtime.monotonic()
        self._meanwhile[broker] = []
        try:
            answer = await self._asking.broker(broker, GET_ALL_CONSUMER_OFFSET, m.NoFields(), standby=True)
            said = m.read_body(m.ConsumerOffsets, answer.body, max_bytes=MAX_FRAME_BYTES).offset_table
        finally:
            meanwhile = self._meanwhile.pop(broker)
        table = {key: dict(offsets) for key, offsets in said.items()}
        for key, queue, offset in meanwhile:
            table.setdefault(key, {})[queue] = offset
        self._known[broker] = (at_s, table)
        return table


# Names of groups at brokers, which allow fewer characters than other protocols.
_OTHER: Final = re.compile(r"[^|a-zA-Z0-9_-]")
_CODED: Final = re.compile(r"%u([0-9a-f]{1,6})%")


def rocket_group(group: str) -> str:
    """The group's name at brokers: every character that they refuse becomes its number.

    >>> rocket_group("readers"), rocket_group("my.readers")
    ('readers', 'my%u2e%readers')
    """
    return _OTHER.sub(lambda found: f"%u{ord(found[0]):x}%", group)


def group_of(name: str) -> str:
    """The group's name from its name at brokers.

    >>> group_of("my%u2e%readers"), group_of("%odd")
    ('my.readers', '%odd')
    """
    return _CODED.sub(lambda found: chr(int(found[1], 16)) if int(found[1], 16) < 0x110000 else found[0], name)


_log = logging.getLogger("penstock.node")
_MOST_SHOWN: Final = 100_000
_NOWHERE: Final = -1
"""The offset that stands for none: brokers of 4.9 and 5.x accept it, and then answer 14 as before any commit."""


class BrokerOffsets:
    """The committed offsets of a node before a RocketMQ cluster (``penstock.interfaces.node.Offsets``)."""

    def __init__(self, rest: Offsets, asking: Asking, topics: Topics, runtime: Runtime) -> None:
        self._rest = rest
        self._asking = asking
        self._topics = topics
        self._turns: Locks[str] = Locks(runtime.promise)
        self._tables = OffsetTables(asking, runtime)
        self._shown: set[str] = set()

    # Reading.

    async def groups(self) -> list[str]:
        """All groups with offsets at a broker, whatever protocol their members speak."""
        tables = await self._of_all([broker.name for broker in self._asking.masters()])
        names = {
            key.partition("@")[2]
            for table in tables
            for key, offsets in table.items()
            if max(offsets.values(), default=_NOWHERE) > _NOWHERE
        }
        return sorted(group_of(name) for name in names if name and name != NODE_GROUP)

    async def committed(self, group: str) -> Mapping[Partition, Committed]:
        """A group's offsets. Raises UpstreamLost if a broker has never answered: with half of the offsets, readers
        would start at wrong places."""
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
        """Commit at the brokers. Raises UpstreamLost and its subclasses; some of the offsets may be committed then."""
        async with self._turns.held(group):
            homes = [(await self._topics.home(partition), each.offset) for partition, each in offsets.items()]
            if look is not None:
                look()
            await self._put(group, homes)
            await self._show(rocket_group(group), {home.queue.broker for home, _ in homes})

    async def forget(self, group: str, which: Which, look: Look | None = None) -> None:
        """Delete by committing an offset that stands for none: brokers cannot delete less than a whole group."""
        async with self._turns.held(group):
            known = (await self.committed(group)).items()
            homes = [(await self._topics.home(partition), partition, each) for partition, each in known]
            if look is not None:
                look()
            await self._put(group, [(home, _NOWHERE) for home, partition, each in homes if which(partition, each)])

    async def expire(self, group: str, which: Which) -> None:
        """Do nothing: brokers do not say when an offset was committed, and drop those of deleted topics themselves."""

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
        """Commit all concurrently; then raise the first error, if there is one."""
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
        """Make the group visible to operators' tools: they look for it where its retry topic is, which brokers create
        for a group's first member. If that fails, the offsets are valid all the same."""
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

    # Stored by the node itself.

    async def save_group(self, group: str, record: bytes, look: Look | None = None) -> None:
        await self._rest.save_group(group, record, look)

    async def saved_groups(self) -> Mapping[str, bytes]:
        return await self._rest.saved_groups()

    # Within transactions, which the backend does not have.

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
