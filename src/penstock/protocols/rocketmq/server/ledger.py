"""What the front remembers over a restart: settings, places in the commit log; and where groups are."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

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
    """Read once at start, written to as things change."""

    def __init__(self, journals: Journals) -> None:
        self._journal = journals.journal(_LEDGER_TOPIC, places=1, config=_CONFIG)
        self._kept: dict[str, dict[str, Any]] = {}

    async def load(self) -> None:
        """Bring back what was written. Raises StoreError, CorruptBatch."""
        await self._journal.replay(self._apply)

    def get(self, kind: str, name: str) -> Any:
        """What is kept under a name; None for nothing."""
        return self._kept.get(kind, {}).get(name)

    def of(self, kind: str) -> Mapping[str, Any]:
        """Everything of a kind, by its name, also what will be kept later: for who looks often."""
        return self._kept.setdefault(kind, {})

    def all(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Everything of a kind, by its name; to be read at once."""
        return iter(self._kept.get(kind, {}).items())

    async def put(self, kind: str, name: str, value: Any) -> None:
        """Keep something; None takes it away. Durable when this returns. Raises StoreError."""
        await self.compose(kind, name, lambda: value)

    async def compose(self, kind: str, name: str, make: Callable[[], Any]) -> Any:
        """Keep what ``make`` returns, which is called when nothing can come between that and the order of the journal.

        Returns it. Raises StoreError, and what ``make`` raises: then nothing is kept.
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


# What operators set: topics, groups and the broker itself. It is kept over a restart, and obeyed where it is read.
#
# A topic that was never set has as many queues for readers and for writers as it has partitions, and may be read and
# written. Settings go by the topic's id: a topic that is made anew has none. A group that was never set has the
# defaults of `SubscriptionGroupConfig`. Source: Apache RocketMQ 4.9 and 5.x, ``TopicConfigManager``,
# ``SubscriptionGroupManager``, ``PermName``.
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
    """How many queues of a topic are read and written, and what may be done with it: bits of `Perm`."""

    read: int
    write: int
    perm: int

    @property
    def most(self) -> int:
        """Numbers of queues are below this."""
        return max(self.read, self.write)


class Settings:
    """Of one front; reading them costs next to nothing, since sends and pulls do so. What is set raises StoreError."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._topics = ledger.of(_TOPIC)
        self._groups = ledger.of(_GROUP)
        self._broker = ledger.of(_BROKER)

    # The broker.

    @property
    def perm(self) -> int:
        """What the broker lets everyone do, whatever a topic says."""
        return int(self._broker.get(_PERM, _READ_WRITE)) if self._broker else _READ_WRITE

    async def set_perm(self, perm: int) -> None:
        """Set it."""
        await self._ledger.put(_BROKER, _PERM, perm)

    @property
    def route_perm(self) -> int:
        """The same as the name server says it, where an operator may have taken the right to write away."""
        return self.perm & ~WRITE if self._broker.get(_WIPED) else self.perm

    async def wipe(self, *, wiped: bool) -> None:
        """Have the name server say that the broker cannot be written to, or say no more than the broker does."""
        await self._ledger.put(_BROKER, _WIPED, wiped or None)

    # Topics.

    def is_set(self, topic: TopicState) -> bool:
        """Whether an operator has set anything of it."""
        return bool(self._topics) and topic.id.hex() in self._topics

    def queues(self, topic: TopicState) -> Queues:
        """How many queues it has, and what may be done with them."""
        kept = self._topics.get(topic.id.hex()) if self._topics else None
        if kept is None:
            return Queues(topic.partitions, topic.partitions, _READ_WRITE)
        return Queues(kept["readQueueNums"], kept["writeQueueNums"], kept["perm"])

    def topic(self, topic: TopicState) -> m.TopicConfig:
        """All of its settings."""
        kept = self._topics.get(topic.id.hex())
        if kept is None:
            return _plain(topic)
        said: m.TopicConfig = _read(m.TopicConfig, kept)
        return replace(said, topic_name=rocket_name(topic.name))

    async def set_topic(self, topic: TopicState, said: m.TopicConfig) -> None:
        """Replace its settings. Those that are every topic's are not kept: partitions may be added elsewhere."""
        kept = None if said == _plain(topic) else _written(said)
        if kept != self._topics.get(topic.id.hex()):
            await self._ledger.put(_TOPIC, topic.id.hex(), kept)

    async def forget_topic(self, topic: TopicState) -> None:
        """It is gone."""
        if self.is_set(topic):
            await self._ledger.put(_TOPIC, topic.id.hex(), None)

    # Groups.

    def group(self, name: str) -> m.SubscriptionGroupConfig | None:
        """All settings of a group that was set."""
        kept = self._groups.get(name)
        return None if kept is None else _read(m.SubscriptionGroupConfig, kept)

    def groups(self) -> list[str]:
        """Those that were set."""
        return list(self._groups)

    async def set_group(self, said: m.SubscriptionGroupConfig) -> None:
        """Replace a group's settings."""
        await self._ledger.put(_GROUP, said.group_name, _written(said))

    async def forget_group(self, name: str) -> bool:
        """Take them away; whether there were any."""
        if name not in self._groups:
            return False
        await self._ledger.put(_GROUP, name, None)
        return True

    def has_group(self, name: str) -> bool:
        """Whether an operator has set the group."""
        return name in self._groups

    def may_consume(self, group: str) -> bool:
        """Whether its members may pull."""
        return bool(self._of(group).get("consumeEnable", True))

    def may_broadcast(self, group: str) -> bool:
        """Whether each of its members may read everything."""
        return bool(self._of(group).get("consumeBroadcastEnable", True))

    def notifies(self, group: str) -> bool:
        """Whether its members hear who comes and goes."""
        return bool(self._of(group).get("notifyConsumerIdsChangedEnable", True))

    def retry_queues(self, group: str) -> int:
        """How many queues its retry topic has; 0: what it could not consume is not delivered again."""
        return max(0, int(self._of(group).get("retryQueueNums", 1)))

    def retries(self, group: str, default: int) -> int:
        """How often a message is delivered to it again before it is a dead letter."""
        return int(self._of(group).get("retryMaxTimes", default))

    def _of(self, group: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._groups.get(group, _UNSET) if self._groups else _UNSET
        return found

    # Which state of a table it is.

    async def version(self, table: str, rows: Iterable[bytes], now_ms: int) -> m.DataVersion:
        """Of a table with these rows: counted up when it is not the one that was asked for before, whoever changed it.

        Other protocols make and delete topics, too.
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


# Places in a commit log, by which RocketMQ's clients name single messages, where there is no commit log.
#
# A place is a number of 63 bits: which partition, and the offset there. Partitions get numbers of their own, a block a
# topic, when their first message is told to somebody; the front remembers them, since ids of messages outlive it. A
# topic that is made anew gets others, so that an old id never names another message.
_OFFSET_BITS: Final = 39
_LARGEST_OFFSET: Final = (1 << _OFFSET_BITS) - 1
_KIND: Final = "places"
_KEPT: Final = 100_000


class Places:
    """Offsets beyond 2^39 of a partition are told apart by their lowest 39 bits only."""

    def __init__(self, ledger: Ledger, enode: Enode) -> None:
        self._ledger = ledger
        self._enode = enode
        self._bases: dict[tuple[bytes, int], int] = {}

    async def base(self, topic: TopicState, number: int) -> int:
        """The place of a partition's first offset. Raises StoreError."""
        known = self._bases.get((topic.id, number))
        return known if known is not None else await self._base(topic, number)

    async def find(self, place: int) -> tuple[Partition, int] | None:
        """The partition and the offset that a place names; None where there is none, or not any more."""
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
        """A topic's blocks, with one more where it has grown."""
        free = 1
        for _, blocks in self._ledger.all(_KIND):
            free = max(free, *(first + count for first, count in blocks))
        mine = list(self._ledger.get(_KIND, name) or [])
        more = total - _count(mine)
        return [*mine, [free, more]] if more > 0 else mine


def _count(blocks: list[list[int]]) -> int:
    return sum(count for _, count in blocks)


def _number(blocks: list[list[int]], partition: int) -> int:
    """The number of a topic's partition, which is in one of its blocks."""
    for first, count in blocks:
        if partition < count:
            return first + partition
        partition -= count
    raise IndexError(f"no number for a partition {partition} places behind the last one")


# Where each group is in each queue: committed offsets, kept with those of all protocols.
#
# So Kafka's tools see how far a RocketMQ group is, and a group that changes its protocol goes on where it was.
class Positions:
    """What is set is durable when the call returns."""

    def __init__(self, offsets: Offsets, now_ms: Callable[[], int]) -> None:
        self._offsets = offsets
        self._now_ms = now_ms

    async def of(self, group: str, partition: Partition) -> int | None:
        """The group's committed offset; None if it has none."""
        found = (await self._offsets.committed(group)).get(partition)
        return None if found is None else found.offset

    async def set(self, group: str, partition: Partition, offset: int, host: str | None = None) -> None:
        """Commit, also backwards: who asks for that means it; a client at ``host``. Raises StoreError, NoRoom."""
        if await self.of(group, partition) != offset:
            committed = Committed(offset, timestamp_ms=self._now_ms())
            await self._offsets.commit(group, {partition: committed}, host=host)

    async def forget(self, group: str, partition: Partition) -> None:
        """Take it away. Raises StoreError."""
        await self._offsets.forget(group, lambda each, _: each == partition)
