"""State that the front keeps over a restart.

`Ledger` is the journal. `Settings` are topics', groups' and the broker's settings in it, `Places` the places in the
commit log. `Positions` are groups' committed offsets, which the node stores for all protocols.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from penstock.interfaces.enode import Enode, TopicState
from penstock.interfaces.node import Ended, Entry, Journals, Noted, Offsets
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import rocket_name

__all__ = ["READ", "WRITE", "Ledger", "Places", "Positions", "Queues", "Settings"]

_log = logging.getLogger("penstock.node")

_LEDGER_TOPIC: Final = "__penstock_rocketmq"
_CONFIG: Final = {"cleanup.policy": "compact"}


class Ledger:
    """Small values by kind and name, in a journal: read once at the start, written with each change."""

    def __init__(self, journals: Journals) -> None:
        self._journal = journals.journal(_LEDGER_TOPIC, places=1, config=_CONFIG)
        self._kept: dict[str, dict[str, Any]] = {}

    async def load(self) -> None:
        """Read the journal. Raises StoreError, CorruptBatch."""
        await self._journal.replay(self._apply)

    def get(self, kind: str, name: str) -> Any:
        """The value under a name; None if there is none."""
        return self._kept.get(kind, {}).get(name)

    def of(self, kind: str) -> Mapping[str, Any]:
        """A live view of all values of a kind, by name, for callers that look often."""
        return self._kept.setdefault(kind, {})

    def all(self, kind: str) -> Iterator[tuple[str, Any]]:
        """All values of a kind, by name; consume it before anything else changes the ledger."""
        return iter(self._kept.get(kind, {}).items())

    async def put(self, kind: str, name: str, value: Any) -> None:
        """Set a value; None deletes it. Durable when this returns. Raises StoreError."""
        await self.compose(kind, name, lambda: value)

    async def compose(self, kind: str, name: str, make: Callable[[], Any]) -> Any:
        """Set the value that ``make`` returns. ``make`` is called where no other change can come before the entry.

        Returns the value. Raises StoreError, and what ``make`` raises; then the ledger is unchanged.
        """
        made: list[Any] = []

        def entries() -> list[Entry]:
            made.append(make())
            return [(_json([kind, name]), None if made[-1] is None else _json(made[-1]))]

        await self._journal.append(0, entries)
        self._set(kind, name, made[-1])
        return made[-1]

    def _apply(self, place: int, found: Noted | Ended) -> None:
        del place
        if isinstance(found, Ended):
            return
        try:
            kind, name = json.loads(found.key or b"")
            self._set(str(kind), str(name), json.loads(found.value) if found.value else None)
        except (ValueError, TypeError, RecursionError) as error:
            _log.warning(
                "%s holds something at offset %d that cannot be read: %s", _LEDGER_TOPIC, found.position, error
            )

    def _set(self, kind: str, name: str, value: Any) -> None:
        of_kind = self._kept.setdefault(kind, {})
        if value is None:
            of_kind.pop(name, None)
        else:
            of_kind[name] = value


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# Settings that operators make: of topics, groups and the broker itself.
#
# A topic without settings has as many readable and writable queues as partitions. Settings belong to the topic's id, so
# a topic that is created anew has none. A group without settings has the defaults of `SubscriptionGroupConfig`.
# Source: Apache RocketMQ 4.9 and 5.x, ``TopicConfigManager``, ``SubscriptionGroupManager``, ``PermName``.
READ: Final = int(m.Perm.READ)
WRITE: Final = int(m.Perm.WRITE)

_READ_WRITE: Final = READ | WRITE
_TOPIC: Final = "topic"
_GROUP: Final = "group"
_BROKER: Final = "broker"
_VERSION: Final = "version"
_PERM: Final = "brokerPermission"
_WIPED: Final = "writePermWiped"
_UNSET: Final[Mapping[str, Any]] = {}


class Queues(NamedTuple):
    """How many queues of a topic are readable and writable, and the topic's permission: bits of `Perm`."""

    read: int
    write: int
    perm: int

    @property
    def most(self) -> int:
        """Queue numbers are below this."""
        return max(self.read, self.write)


class Settings:
    """One front's settings. Reads are cheap, since every send and pull reads them. Writes raise StoreError."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._topics = ledger.of(_TOPIC)
        self._groups = ledger.of(_GROUP)
        self._broker = ledger.of(_BROKER)

    # The broker.

    @property
    def perm(self) -> int:
        """The broker's own permission; it limits all topics'."""
        return int(self._broker.get(_PERM, _READ_WRITE)) if self._broker else _READ_WRITE

    async def set_perm(self, perm: int) -> None:
        """Set the broker's permission."""
        await self._ledger.put(_BROKER, _PERM, perm)

    @property
    def route_perm(self) -> int:
        """The broker's permission in routes, where an operator may have wiped the right to write."""
        return self.perm & ~WRITE if self._broker.get(_WIPED) else self.perm

    async def wipe(self, *, wiped: bool) -> None:
        """Let the name server report the broker as not writable, or end that."""
        await self._ledger.put(_BROKER, _WIPED, wiped or None)

    # Topics.

    def is_set(self, topic: TopicState) -> bool:
        """Whether an operator has changed any of the topic's settings."""
        return bool(self._topics) and topic.id.hex() in self._topics

    def queues(self, topic: TopicState) -> Queues:
        """The topic's queues and permission."""
        kept = self._topics.get(topic.id.hex()) if self._topics else None
        if kept is None:
            return Queues(topic.partitions, topic.partitions, _READ_WRITE)
        return Queues(kept["readQueueNums"], kept["writeQueueNums"], kept["perm"])

    def topic(self, topic: TopicState) -> m.TopicConfig:
        """All settings of a topic."""
        kept = self._topics.get(topic.id.hex())
        if kept is None:
            return _plain(topic)
        said: m.TopicConfig = _read(m.TopicConfig, kept)
        return replace(said, topic_name=rocket_name(topic.name))

    async def set_topic(self, topic: TopicState, said: m.TopicConfig) -> None:
        """Replace its settings. Defaults are not stored, since other protocols may add partitions."""
        kept = None if said == _plain(topic) else _written(said)
        if kept != self._topics.get(topic.id.hex()):
            await self._ledger.put(_TOPIC, topic.id.hex(), kept)

    async def forget_topic(self, topic: TopicState) -> None:
        """Delete the settings of a topic that is gone."""
        if self.is_set(topic):
            await self._ledger.put(_TOPIC, topic.id.hex(), None)

    # Groups.

    def group(self, name: str) -> m.SubscriptionGroupConfig | None:
        """All settings of a group; None if an operator never set it."""
        kept = self._groups.get(name)
        return None if kept is None else _read(m.SubscriptionGroupConfig, kept)

    def groups(self) -> list[str]:
        """The groups with settings."""
        return list(self._groups)

    async def set_group(self, said: m.SubscriptionGroupConfig) -> None:
        """Replace a group's settings."""
        await self._ledger.put(_GROUP, said.group_name, _written(said))

    async def forget_group(self, name: str) -> bool:
        """Delete a group's settings; returns whether there were any."""
        if name not in self._groups:
            return False
        await self._ledger.put(_GROUP, name, None)
        return True

    def has_group(self, name: str) -> bool:
        """Whether the group has settings."""
        return name in self._groups

    def may_consume(self, group: str) -> bool:
        """Whether the group's members may pull."""
        return bool(self._of(group).get("consumeEnable", True))

    def may_broadcast(self, group: str) -> bool:
        """Whether each of its members may read everything."""
        return bool(self._of(group).get("consumeBroadcastEnable", True))

    def notifies(self, group: str) -> bool:
        """Whether its members are notified when others join or leave."""
        return bool(self._of(group).get("notifyConsumerIdsChangedEnable", True))

    def retry_queues(self, group: str) -> int:
        """How many queues its retry topic has; with 0, messages that it failed on are not redelivered."""
        return max(0, int(self._of(group).get("retryQueueNums", 1)))

    def retries(self, group: str, default: int) -> int:
        """How many redeliveries a message gets before it becomes a dead letter."""
        return int(self._of(group).get("retryMaxTimes", default))

    def _of(self, group: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._groups.get(group, _UNSET) if self._groups else _UNSET
        return found

    # Versions of tables.

    async def version(self, table: str, rows: Iterable[bytes], now_ms: int) -> m.DataVersion:
        """The version of a table with these rows; it grows if the rows differ from those of the last call.

        Rows are compared, because other protocols create and delete topics, too.
        """
        digest = hashlib.blake2b(b"\0".join(rows), digest_size=16).hexdigest()

        def counted() -> list[Any]:
            before = self._ledger.get(_VERSION, table) or ["", 0, 0]
            return list(before) if before[0] == digest else [digest, before[1] + 1, now_ms]

        known = self._ledger.get(_VERSION, table)
        if known is None or known[0] != digest:
            known = await self._ledger.compose(_VERSION, table, counted)
        return m.DataVersion(counter=known[1], timestamp=known[2])


def _plain(topic: TopicState) -> m.TopicConfig:
    return m.TopicConfig(
        topic_name=rocket_name(topic.name), read_queue_nums=topic.partitions, write_queue_nums=topic.partitions
    )


def _written(said: object) -> Any:
    return json.loads(m.write_body(said))


def _read(kind: type[Any], kept: object) -> Any:
    return m.read_body(kind, json.dumps(kept).encode())


# Places in a commit log, by which RocketMQ's clients name single messages. The node has no commit log.
#
# A place is a number of 63 bits: the partition's number and the offset in it. A topic's partitions get a block of
# numbers when the place of one of its messages is first needed. The ledger keeps the blocks, since message ids live
# longer than the front. A topic that is created anew gets other numbers, so that an old id never names another message.
_OFFSET_BITS: Final = 39
_LARGEST_OFFSET: Final = (1 << _OFFSET_BITS) - 1
_KIND: Final = "places"
_KEPT: Final = 100_000


class Places:
    """Places of messages. Only an offset's lowest 39 bits are in a place, so offsets 2^39 apart share one."""

    def __init__(self, ledger: Ledger, enode: Enode) -> None:
        self._ledger = ledger
        self._enode = enode
        self._bases: dict[tuple[bytes, int], int] = {}

    async def base(self, topic: TopicState, number: int) -> int:
        """The place of a partition's first offset. Raises StoreError."""
        known = self._bases.get((topic.id, number))
        return known if known is not None else await self._base(topic, number)

    async def find(self, place: int) -> tuple[Partition, int] | None:
        """The partition and the offset of a place; None if it names none, or none any more."""
        number, offset = place >> _OFFSET_BITS, place & _LARGEST_OFFSET
        for name, blocks in self._ledger.all(_KIND):
            before = 0
            for first, count in blocks:
                if first <= number < first + count:
                    topic = await self._enode.topic_by_id(bytes.fromhex(name))
                    return None if topic is None else (Partition(topic.name, before + number - first), offset)
                before += count
        return None

    async def _base(self, topic: TopicState, number: int) -> int:
        name = topic.id.hex()
        blocks = self._ledger.get(_KIND, name) or []
        if _count(blocks) <= number:
            blocks = await self._ledger.compose(
                _KIND, name, lambda: self._grown(name, max(topic.partitions, number + 1))
            )
        if len(self._bases) >= _KEPT:
            self._bases.clear()
        found = self._bases[topic.id, number] = _number(blocks, number) << _OFFSET_BITS
        return found

    def _grown(self, name: str, total: int) -> list[list[int]]:
        """A topic's blocks, with one more if it has more partitions than before."""
        free = 1
        for _, blocks in self._ledger.all(_KIND):
            free = max(free, *(first + count for first, count in blocks))
        mine = list(self._ledger.get(_KIND, name) or [])
        more = total - _count(mine)
        return [*mine, [free, more]] if more > 0 else mine


def _count(blocks: list[list[int]]) -> int:
    return sum(count for _, count in blocks)


def _number(blocks: list[list[int]], partition: int) -> int:
    """The number of a topic's partition; it must be in one of the blocks."""
    for first, count in blocks:
        if partition < count:
            return first + partition
        partition -= count
    raise IndexError(f"no number for a partition {partition} places behind the last one")


# Committed offsets are stored with those of all protocols: Kafka's tools show how far a RocketMQ group is, and a group
# that changes its protocol continues where it was.
class Positions:
    """Groups' committed offsets. A change is durable when its call returns."""

    def __init__(self, offsets: Offsets, now_ms: Callable[[], int]) -> None:
        self._offsets = offsets
        self._now_ms = now_ms

    async def of(self, group: str, partition: Partition) -> int | None:
        """The group's committed offset; None if it has none."""
        found = (await self._offsets.committed(group)).get(partition)
        return None if found is None else found.offset

    async def set(self, group: str, partition: Partition, offset: int, host: str | None = None) -> None:
        """Commit for a client at ``host``. Going backwards is allowed. Raises StoreError, NoRoom."""
        if await self.of(group, partition) != offset:
            committed = Committed(offset, timestamp_ms=self._now_ms())
            await self._offsets.commit(group, {partition: committed}, host=host)

    async def forget(self, group: str, partition: Partition) -> None:
        """Delete the committed offset. Raises StoreError."""
        await self._offsets.forget(group, lambda each, _: each == partition)
