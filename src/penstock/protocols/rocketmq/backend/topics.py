"""The cluster's topics. `Numbering` maps queues to partitions with stable numbers; `Topics` loads routes from name
servers, and creates, grows and deletes topics."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Runtime
from penstock.errors import (
    ConfigError,
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    PenstockError,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
    UpstreamLost,
)
from penstock.model import Partition
from penstock.protocols.rocketmq.backend.relay import Asking
from penstock.protocols.rocketmq.config import check_topic, is_internal
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.log_records import log_name, rocket_name
from penstock.protocols.rocketmq.wire.rpc import (
    DELETE_TOPIC_IN_BROKER,
    DELETE_TOPIC_IN_NAMESRV,
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    GET_ROUTEINFO_BY_TOPIC,
    UPDATE_AND_CREATE_TOPIC,
)

__all__ = ["Home", "Numbering", "Queue", "Topic", "Topics"]

# Partition numbers of queues, which stay while brokers come and go. No I/O.

"""The most queues of one topic that are numbered; more cannot be true."""


class Queue(NamedTuple):
    """One queue: its broker's name, and its number there."""

    broker: str
    number: int


class Numbering:
    """The partitions of one topic. Queues are numbered when they first appear: by their own numbers, then by broker.

    A broker that is reported no longer keeps its partition numbers, so that no other queue gets them; new queues are
    numbered behind them.

    >>> numbers = Numbering()
    >>> numbers.update({"b": 1, "a": 2})
    >>> [f"{queue.broker}{queue.number}" for queue in numbers.queues]
    ['a0', 'b0', 'a1']
    >>> numbers.update({"b": 2})
    >>> [f"{queue.broker}{queue.number}" for queue in numbers.queues]
    ['a0', 'b0', 'a1', 'b1']
    """

    def __init__(self, queues: Sequence[Queue] = ()) -> None:
        self.queues: list[Queue] = list(queues)
        self._numbers = _numbers(self.queues)

    def update(self, counts: Mapping[str, int]) -> None:
        """Take over the queue counts of the reported brokers. Queues above a smaller count than before were deleted."""
        if any(queue.number >= counts.get(queue.broker, queue.number + 1) for queue in self.queues):
            self.queues = [each for each in self.queues if each.number < counts.get(each.broker, each.number + 1)]
            self._numbers = _numbers(self.queues)
        most = min(max(counts.values(), default=0), _MOST)
        for number in range(most):
            for broker in sorted(counts):
                queue = Queue(broker, number)
                if number < counts[broker] and queue not in self._numbers and len(self.queues) < _MOST:
                    self._numbers[queue] = len(self.queues)
                    self.queues.append(queue)

    def number(self, queue: Queue) -> int | None:
        """The partition number of a queue."""
        return self._numbers.get(queue)


def _numbers(queues: Sequence[Queue]) -> dict[Queue, int]:
    return {queue: number for number, queue in enumerate(queues)}


_BELIEVED_S: Final = 10.0
_HEARD_WITHIN_S: Final = 10.0
_MOST: Final = 100_000
"""The most topics that are remembered."""


class Topic(Struct, frozen=True):
    """A topic (``penstock.interfaces.enode.TopicState``). Brokers have no topic ids, so the id is made of the name."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> bytes:
        return hashlib.md5(self.name.encode(), usedforsecurity=False).digest()


class Home(Struct, frozen=True):
    """Where a partition is: RocketMQ's name of its topic, and the queue."""

    topic: str
    queue: Queue


class _Known(Struct):
    numbering: Numbering
    since_s: float


class Topics:
    """One backend's topics. Calls raise UpstreamLost if no name server answers and nothing is known."""

    def __init__(self, asking: Asking, runtime: Runtime) -> None:
        self._asking = asking
        self._runtime = runtime
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._ids: dict[bytes, str] = {}
        self._turns: Locks[str] = Locks(runtime.promise)

    # Reading.

    async def all(self) -> list[Topic]:
        """All topics, by name; without brokers' own ones, retry topics and dead letter topics."""
        answer = await self._asking.names(GET_ALL_TOPIC_LIST_FROM_NAMESERVER, m.NoFields())
        own = await self._own_names()
        listed = m.read_body(m.TopicList, answer.body).topic_list
        names = sorted(each for each in listed if not is_internal(each) and each not in own and "%" not in each)
        found = await self._asking.gather([self.topic(each) for each in names])
        return [each for each in found if isinstance(each, Topic)]

    async def _own_names(self) -> set[str]:
        """Names of clusters and brokers, for which the cluster has topics of these names."""
        clusters = self._asking.clusters
        return {*clusters, *(name for names in clusters.values() for name in names)}

    async def topic(self, name: str) -> Topic | None:
        """A topic by the log's name; None if there is none."""
        known = await self._fresh(rocket_name(name))
        if known is None or not known.queues:
            return None
        topic = Topic(name, len(known.queues))
        if len(self._ids) < _MOST:
            self._ids[topic.id] = name
        return topic

    async def there(self, rocket_topic: str) -> bool:
        """Whether a name server knows a topic, by RocketMQ's name."""
        return await self._fresh(rocket_topic) is not None

    async def by_id(self, topic_id: bytes) -> Topic | None:
        """A topic by the id made of its name; None if there is none."""
        if topic_id not in self._ids:
            await self.all()
        name = self._ids.get(topic_id)
        return None if name is None else await self.topic(name)

    async def queues(self, name: str) -> list[Queue]:
        """A topic's queues in the order of partitions; none for an unknown topic."""
        known = await self._fresh(rocket_name(name))
        return [] if known is None else known.queues

    async def home(self, partition: Partition) -> Home:
        """Where a partition is. Raises UnknownTopic, UnknownPartition."""
        name = rocket_name(partition.topic)
        known = self._known.get(name)
        if known is None or not 0 <= partition.id < len(known.numbering.queues):
            await self._fresh(name, again=known is not None)
            known = self._known.get(name)
        if known is None:
            raise UnknownTopic("the RocketMQ cluster has no such topic", topic=partition.topic)
        queues = known.numbering.queues
        if not 0 <= partition.id < len(queues):
            raise UnknownPartition(f"the topic has {len(queues)} queues", topic=partition.topic, partition=partition.id)
        return Home(name, queues[partition.id])

    async def partition(self, topic: str, queue: Queue) -> Partition | None:
        """The partition of a queue, by RocketMQ's name of the topic; None if the topic has no valid name in the log."""
        try:
            name = log_name(topic)
        except PenstockError:
            return None
        known = await self._fresh(topic)
        number = None if known is None else known.number(queue)
        return None if number is None else Partition(name, number)

    def forget(self, rocket_topic: str) -> None:
        """Load the topic's route anew at its next use; numbers stay."""
        known = self._known.get(rocket_topic)
        if known is not None:
            known.since_s = float("-inf")

    async def _fresh(self, name: str, *, again: bool = False) -> Numbering | None:
        known = self._known.get(name)
        asked_s = self._runtime.monotonic()
        if known is not None and not again and asked_s - known.since_s < _BELIEVED_S:
            return known.numbering
        async with self._turns.held(name):
            known = self._known.get(name)
            if known is not None and known.since_s >= asked_s:
                return known.numbering  # another call has loaded it in the meantime
            try:
                return await self._learn(name)
            except UpstreamLost:
                if known is None:
                    raise
                return known.numbering

    async def _learn(self, name: str) -> Numbering | None:
        asked = m.GetRoute(topic=name, accept_standard_json_only=True)
        at_s = self._runtime.monotonic()
        answer = await self._asking.names(GET_ROUTEINFO_BY_TOPIC, asked, accept=(Code.SUCCESS, Code.TOPIC_NOT_EXIST))
        if answer.code == Code.TOPIC_NOT_EXIST:
            self._known.pop(name, None)
            return None
        route = m.read_body(m.Route, answer.body)
        known = self._known.setdefault(name, _Known(Numbering(), at_s))
        known.numbering.update({each.broker_name: _count(each) for each in route.queue_datas})
        known.since_s = at_s
        self._known.move_to_end(name)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return known.numbering

    # Changing.

    async def create(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """Create a topic with queues at all masters. Raises TopicExists, InvalidTopicName, InvalidTopicConfig."""
        try:
            check_topic(rocket_name(name))
        except ConfigError as error:
            raise InvalidTopicName(f"{error.message}: {error.hint}", topic=name) from error
        if config:
            raise InvalidTopicConfig(
                f"topics of a RocketMQ cluster have no {', '.join(sorted(config))} of their own: leave it out, "
                "brokers decide for all topics (fileReservedTime)",
                topic=name,
            )
        if partitions < 1:
            raise InvalidPartitionCount(f"{partitions} partitions", topic=name)
        if await self._fresh(rocket_name(name), again=True) is not None:
            raise TopicExists(f"the RocketMQ cluster has a topic {name}", topic=name)
        return await self._deal(name, partitions)

    async def grow(self, name: str, total: int) -> None:
        """Add partitions. Raises UnknownTopic, InvalidPartitionCount."""
        known = await self._fresh(rocket_name(name), again=True)
        if known is None:
            raise UnknownTopic("the RocketMQ cluster has no such topic", topic=name)
        if total < len(known.queues):
            raise InvalidPartitionCount(f"the topic has {len(known.queues)} queues", topic=name)
        await self._deal(name, total)

    async def delete(self, name: str) -> None:
        """Delete a topic at every master and every name server. Raises UnknownTopic."""
        topic = rocket_name(name)
        if await self._fresh(topic, again=True) is None:
            raise UnknownTopic("the RocketMQ cluster has no such topic", topic=name)
        header = m.OfTopic(topic=topic)
        for broker in self._asking.masters():
            await self._asking.broker(broker.name, DELETE_TOPIC_IN_BROKER, header)
        await self._asking.all_names(DELETE_TOPIC_IN_NAMESRV, header)
        self._known.pop(topic, None)

    async def _deal(self, name: str, total: int) -> Topic:
        """Make the masters have ``total`` queues together, as evenly as their present ones allow. Partitions are
        numbered by queue numbers first: the n-th queue of every broker comes before any (n+1)-th."""
        topic = rocket_name(name)
        known = self._known.get(topic)
        masters = [broker.name for broker in self._asking.masters()]
        has = Counter(queue.broker for queue in known.numbering.queues) if known is not None else Counter[str]()
        wanted = Counter(has)
        for _ in range(total - has.total()):
            wanted[min(masters, key=lambda broker: (wanted[broker], broker))] += 1
        for broker in masters:
            if wanted[broker] > has[broker]:
                count = wanted[broker]
                header = m.CreateTopic(topic=topic, read_queue_nums=count, write_queue_nums=count)
                await self._asking.broker(broker, UPDATE_AND_CREATE_TOPIC, header)
        return await self._heard(name, total)

    async def _heard(self, name: str, total: int) -> Topic:
        """The topic, once a name server knows all of its queues, which takes a moment."""
        until_s = self._runtime.monotonic() + _HEARD_WITHIN_S
        while True:
            found = await self._fresh(rocket_name(name), again=True)
            if found is not None and len(found.queues) >= total:
                return Topic(name, len(found.queues))
            if self._runtime.monotonic() >= until_s:
                raise UpstreamLost("brokers have the topic, but name servers have not heard of it yet", topic=name)
            await self._runtime.sleep(0.05)


def _count(queues: m.QueueData) -> int:
    return max(queues.read_queue_nums, queues.write_queue_nums, 0)
