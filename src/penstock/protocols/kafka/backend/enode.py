"""A Kafka cluster as an enode, opened by its address.

The module has `KafkaEnode` and its parts: topics with their options, sizes of logs, and producer ids from the cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from msgspec import Struct, field

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Promise
from penstock.config import parse_address
from penstock.errors import ConfigError, PenstockError, StoreError, TopicExists, UnknownTopic, Unsupported, UpstreamLost
from penstock.interfaces.admin import NewTopic
from penstock.interfaces.channel import Channel, Outgoing, Retry
from penstock.interfaces.enode import (
    Abilities,
    Appended,
    Batch,
    Budget,
    DiskSpace,
    Extent,
    Fetched,
    FetchPart,
    Heard,
    PartitionLocation,
    Relay,
    TopicState,
    Writer,
    extent,
)
from penstock.interfaces.framing import Frame
from penstock.interfaces.node import BackendContext, EnodeIdentity
from penstock.model import Endpoint, Node, Partition, TopicInfo
from penstock.protocols.kafka.backend.appends import Writing, new_producer
from penstock.protocols.kafka.backend.leader_requests import Asking, as_log_says
from penstock.protocols.kafka.backend.reads import Arrivals, Ends, Reading, out_of_range
from penstock.protocols.kafka.client import admin
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.connection import Calls, KafkaDialect, KafkaOptions, Versions, only
from penstock.protocols.kafka.config import ADDED
from penstock.protocols.kafka.errors import NONE, OFFSET_OUT_OF_RANGE, error_for
from penstock.protocols.kafka.wire.cluster import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.protocols.kafka.wire.configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)

__all__ = ["KafkaEnode", "KafkaRelay", "Sizes", "Topic", "TopicOptions", "Topics", "open_enode"]

# Producer ids, which the cluster must assign: ids that a front made itself could be in use by the cluster's producers.
#
# Nothing else is forwarded, because all other requests go through batches. Source: KIP-98.

_NO_FRAMES: Final = "frames of Kafka's clients are not handed on: their requests go by batches"


class KafkaRelay:
    """``penstock.interfaces.enode.Relay``, and `producer_id`."""

    scheme = "kafka"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def producer_id(self) -> int:
        """A producer id that no producer of the cluster has. Raises UpstreamLost."""
        try:
            return (await new_producer(self._cluster)).producer_id
        except PenstockError as error:
            raise as_log_says(error) from error

    async def hand_on(self, request: Outgoing, node: str | None, *, held_s: float = 0.0) -> Frame:
        raise Unsupported(_NO_FRAMES)

    async def hand_over(self, message: Outgoing, node: str | None) -> None:
        raise Unsupported(_NO_FRAMES)

    def hear(self, heard: Heard) -> None:
        """Do nothing: brokers send nothing but responses."""


# Options of topics: those that are set for each topic, as brokers report them, changed by their Kafka names.
#
# The defaults of unset options belong to the cluster and are not changed from here. Source: Kafka protocol guide,
# DescribeConfigs v1-v4, IncrementalAlterConfigs (KIP-339).

_TOPIC: Final = 2
_SET_OF_TOPIC: Final = 1
_SET, _DELETE = 0, 1
_OPTIONS_KEPT_S: Final = 30.0
_AT_ONCE: Final = 100
"""Topics per request: a response has about forty options for each."""
_NOT_YET: Final = 5
_NO_OPTIONS: Final[Mapping[str, str]] = {}


class TopicOptions:
    """A cache of topic options; entries are valid for half a minute."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._now = cluster.calls.channel.monotonic
        self._known: dict[str, tuple[Mapping[str, str], float]] = {}

    def knows(self, name: str) -> bool:
        """Whether the cache has a valid entry for the topic."""
        return name in self._known and self._now() < self._known[name][1]

    def has(self, name: str) -> bool:
        """Whether the cache has an entry of any age. An old entry is used while no broker responds."""
        return name in self._known

    def of(self, name: str) -> Mapping[str, str]:
        """The options of a topic as last reported; the same object while they are unchanged."""
        return self._known[name][0] if name in self._known else _NO_OPTIONS

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Store the options that are set for the topic."""
        before = self.of(name)
        self._known[name] = (before if before == config else dict(config), self._now() + _OPTIONS_KEPT_S)

    def forget(self, name: str) -> None:
        """Remove a deleted topic."""
        self._known.pop(name, None)

    async def learn(self, names: Collection[str]) -> None:
        """Ask for the topics without a valid entry. Raises ConnectionLost, RequestTimeout."""
        due = iter([name for name in names if not self.knows(name)])
        while lump := list(islice(due, _AT_ONCE)):
            resources = [
                DescribeConfigsRequestResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
                for name in lump
            ]
            answer = await self._cluster.ask_anyone(
                DescribeConfigsRequest(resources=resources), DescribeConfigsResponse
            )
            for result in answer.results:
                said = {
                    each.name: each.value
                    for each in result.configs
                    if each.config_source == _SET_OF_TOPIC and each.value is not None
                }
                if result.resource_name in lump:  # a deleted topic, or one whose options are not readable, has none
                    self.put(result.resource_name, said)

    async def replace(self, name: str, config: Mapping[str, str]) -> None:
        """Set exactly these options; returns when brokers report them. Raises ServerError, ConnectionLost."""
        self.forget(name)
        await self.learn((name,))
        before = self.of(name)
        changes = [
            *(_change(key, value, _SET) for key, value in config.items() if before.get(key) != value),
            *(_change(key, None, _DELETE) for key in before if key not in config),
        ]
        if not changes:
            return
        resource = IncrementalAlterConfigsRequestResource(resource_type=_TOPIC, resource_name=name, configs=changes)
        message = IncrementalAlterConfigsRequest(resources=[resource])
        what = "setting a topic's options failed"
        result = only((await self._cluster.ask_anyone(message, IncrementalAlterConfigsResponse)).responses, what)
        if result.error_code != NONE:
            raise error_for(result.error_code, what, topic=name, detail=result.error_message)
        await self._show(name, config)

    async def _show(self, name: str, config: Mapping[str, str]) -> None:
        """Wait until brokers report the change: they get it from the controller a moment after it is made."""
        retry = Retry(self._cluster.calls.channel, self._cluster.calls.options)
        while True:
            self.forget(name)
            await self.learn((name,))
            if self.of(name) == config:
                return
            try:
                await retry.pause(error_for(_NOT_YET, "the options are set, and brokers do not tell them yet"))
            except PenstockError:
                return  # brokers may report a value in another spelling


def _change(name: str, value: str | None, operation: int) -> IncrementalAlterConfigsRequestConfig:
    return IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)


# Topics of the cluster as the enode shows them: names, ids, partition counts, and the options that are set.
#
# The cache lives as long as the client's metadata, so that a Produce request needs no lookup. Changes by other clients
# are seen after that time, or sooner if a request fails because of them.

_ABSENT_S: Final = 0.5
"""A missing name is not looked up again for this time: some clients ask for one very often."""
_MOST_ABSENT: Final = 10_000
_LONGEST: Final = 249


class Topic(Struct, frozen=True):
    """``penstock.interfaces.enode.TopicState``; the same object as long as nothing changes."""

    name: str
    id: bytes
    partitions: int
    config: Mapping[str, str]


class Topics:
    """The topics of the cluster."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._now = asking.cluster.calls.channel.monotonic
        self._options = TopicOptions(asking.cluster)
        self._states: dict[str, tuple[TopicInfo, Mapping[str, str], Topic]] = {}
        self._absent: dict[str, float] = {}

    async def find(self, name: str) -> Topic | None:
        """The topic; None if it does not exist. Raises UpstreamLost."""
        info = self._cluster.at_hand(name)
        if info is None:
            if not 0 < len(name) <= _LONGEST or self._now() < self._absent.get(name, 0.0):
                return None
            info = await self._asked(name)
        return None if info is None else await self._shown(info)

    async def by_id(self, topic_id: bytes) -> Topic | None:
        """The topic; None if it does not exist. Raises UpstreamLost."""
        name = self._cluster.topic_name(topic_id)
        if name is None:
            await self.all()
            name = self._cluster.topic_name(topic_id)
        found = None if name is None else await self.find(name)
        return found if found is not None and found.id == topic_id else None

    async def all(self) -> list[Topic]:
        """All topics. Raises UpstreamLost."""
        try:
            await self._asking.look_at_all()
            known = await self._cluster.topics(None)
            await self._options.learn(known)
        except PenstockError as error:
            raise as_log_says(error) from error
        self._states = {name: state for name, state in self._states.items() if name in known}
        return [self._state(info) for info in known.values()]

    async def places(self, name: str) -> Sequence[PartitionLocation]:
        """The locations of a topic's partitions. Raises UpstreamLost."""
        if await self.find(name) is None:
            return ()
        info = self._cluster.at_hand(name)
        return [
            PartitionLocation(each.leader_epoch, each.partition.id, None if each.leader is None else each.leader.name)
            for each in (() if info is None else info.partitions)
        ]

    # Changes.

    async def create(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """Create a topic with the cluster's default number of replicas. Raises TopicExists and related errors."""
        if await self._asked(name) is not None:
            raise TopicExists("the topic already exists", topic=name)
        try:
            await admin.create_topics(self._cluster, [NewTopic(name, partitions, config=config)])
        except PenstockError as error:
            raise _about(name, error) from error
        self._absent.pop(name, None)
        self._options.put(name, config)
        found = await self.find(name)
        if found is None:
            raise UnknownTopic("the topic was made, and is gone again", topic=name)
        return found

    async def delete(self, name: str) -> None:
        """Delete a topic. Raises UnknownTopic, UpstreamLost."""
        try:
            await admin.delete_topics(self._cluster, [name])
        except PenstockError as error:
            raise _about(name, error) from error
        self._options.forget(name)
        self._states.pop(name, None)

    async def grow(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions. Raises InvalidPartitionCount, UnknownTopic, UpstreamLost."""
        try:
            await admin.add_partitions(self._cluster, name, total)
        except PenstockError as error:
            raise _about(name, error) from error

    async def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Replace a topic's options. Raises InvalidTopicConfig, UnknownTopic, UpstreamLost."""
        try:
            await self._options.replace(name, config)
        except PenstockError as error:
            raise _about(name, error) from error

    # Internals.

    async def _asked(self, name: str) -> TopicInfo | None:
        try:
            await self._asking.look((name,))
        except PenstockError as error:
            raise as_log_says(error) from error
        info = self._cluster.at_hand(name)
        if info is None:
            if len(self._absent) >= _MOST_ABSENT:
                self._absent.clear()
            self._absent[name] = self._now() + _ABSENT_S
        return info

    async def _shown(self, info: TopicInfo) -> Topic:
        if not self._options.knows(info.name):
            try:
                await self._options.learn((info.name,))
            except PenstockError as error:
                if not self._options.has(info.name):
                    raise as_log_says(error) from error
        return self._state(info)

    def _state(self, info: TopicInfo) -> Topic:
        known, config = self._states.get(info.name), self._options.of(info.name)
        if known is not None and known[0] is info and known[1] is config:
            return known[2]
        topic_id = info.id or hashlib.md5(info.name.encode(), usedforsecurity=False).digest()
        made = Topic(info.name, topic_id, len(info.partitions), config)
        if known is not None and known[2] == made:
            made = known[2]
        self._states[info.name] = (info, config, made)
        return made


def _about(name: str, error: PenstockError) -> PenstockError:
    found = as_log_says(error)
    found.topic = name
    return found


# Sizes of logs and free space of brokers: DescribeLogDirs, which asks each broker for all of its logs at once.
#
# A response is cached for a moment, because a caller that asks for one size asks for all of them. Source: Kafka
# protocol guide, DescribeLogDirs v1-v5; KIP-827 (space, from v4 on).

_SIZES_KEPT_S: Final = 2.0
_WHAT: Final = "asking for sizes failed"


class _Disk(Struct):
    """One broker's response; -1 if it does not know a value."""

    until: float
    total: int = 0
    usable: int = 0
    sizes: dict[Partition, int] = field(default_factory=dict)


class Sizes:
    """Sizes and space of an enode; each enode has one."""

    def __init__(self, asking: Asking, new_promise: Callable[[], Promise[Any]]) -> None:
        self._asking = asking
        self._cluster = asking.cluster
        self._disks: dict[str, _Disk] = {}
        self._turns: Locks[str] = Locks(new_promise)

    async def of(self, partition: Partition) -> int:
        """Bytes of a log, from its leader."""

        async def ask(node: Node) -> int | PenstockError:
            return (await self._disk(node)).sizes.get(partition, 0)

        return await self._asking.one(partition, ask, _WHAT)

    async def room(self, url: str) -> DiskSpace:
        """Total and free space of all brokers together."""
        try:
            disks = [await self._disk(node) for node in await self._cluster.nodes()]
        except PenstockError as error:
            raise as_log_says(error) from error
        known = bool(disks) and all(disk.total >= 0 and disk.usable >= 0 for disk in disks)
        if not known:
            return DiskSpace(url, -1, -1)
        return DiskSpace(url, sum(disk.total for disk in disks), sum(disk.usable for disk in disks))

    async def _disk(self, node: Node) -> _Disk:
        now = self._cluster.calls.channel.monotonic
        async with self._turns.held(node.name):
            known = self._disks.get(node.name)
            if known is None or now() >= known.until:
                known = self._disks[node.name] = await self._asked(node, now() + _SIZES_KEPT_S)
        return known

    async def _asked(self, node: Node, until: float) -> _Disk:
        message = DescribeLogDirsRequest(topics=None)
        answer = await self._cluster.calls.call(node.endpoint, message, DescribeLogDirsResponse)
        if answer.error_code != NONE:
            raise error_for(answer.error_code, _WHAT, node=str(node.endpoint))
        disk = _Disk(until)
        for folder in answer.results:
            if folder.error_code != NONE:
                continue  # an offline directory; its logs have other leaders
            disk.total = -1 if folder.total_bytes < 0 or disk.total < 0 else disk.total + folder.total_bytes
            disk.usable = -1 if folder.usable_bytes < 0 or disk.usable < 0 else disk.usable + folder.usable_bytes
            for topic in folder.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        disk.sizes[Partition(topic.name, each.partition_index)] = each.partition_size
        return disk


# The enode, which combines the parts. README.md describes them and the reasons.
#
# A node with this enode stores nothing itself: its topics, records and journals are in the cluster.

_UNNAMED: Final = "a-cluster-without-id"


class KafkaEnode:
    """``penstock.interfaces.node.OpenedEnode``."""

    abilities = Abilities(transactions=False)
    near = False

    def __init__(self, url: str, bootstrap: Sequence[Endpoint], around: BackendContext, options: KafkaOptions) -> None:
        self.url = url
        runtime = around.runtime
        self._channel: Channel[Versions] = around.channel_of(KafkaDialect(options))
        self._cluster = Cluster(Calls(self._channel, options), bootstrap)
        asking = Asking(self._cluster, runtime.promise)
        self._topics = Topics(asking)
        self._ends = Ends(asking)
        self._reading = Reading(asking, self._ends)
        self._writing = Writing(asking, runtime)
        self._sizes = Sizes(asking, runtime.promise)
        self._arrivals = Arrivals(asking, runtime)
        self._relay = KafkaRelay(self._cluster)
        # The enode has no stored state, so its start count comes from the clock.
        self._started = runtime.now_ms() // 1_000
        self._node_id = around.config.node_id

    @property
    def identity(self) -> EnodeIdentity:
        return EnodeIdentity(self._node_id, self._cluster.cluster_id or _UNNAMED, self._started)

    def abilities_of(self, topic: str) -> Abilities:
        return self.abilities

    def relay(self, scheme: str) -> Relay | None:
        """The relay for producer ids; None for any other scheme, because everything else goes through batches."""
        return self._relay if scheme == self._relay.scheme else None

    # Starting and stopping.

    async def start(self) -> list[str]:
        try:
            await self._cluster.nodes()
        except PenstockError as error:
            raise UpstreamLost(
                f"cannot ask {self.url} for its brokers: {error.message}",
                hint="Give the addresses of Kafka brokers (kafka://HOST:9092), without TLS and passwords, and start"
                " them first",
            ) from error
        return []

    async def unreachable(self) -> str | None:
        """Checks that a broker answers. Raises ConnectionLost, RequestTimeout."""
        return None if await self._cluster.nodes() else "no Kafka broker is known to any other"

    def keep_up(self) -> None:
        return

    async def close(self, within_s: float) -> None:
        del within_s  # fronts have answered, or given up; requests in flight have reached the brokers
        await self._channel.close()

    def abandon(self) -> None:
        return

    # Topics.

    async def topics(self) -> Sequence[TopicState]:
        return await self._topics.all()

    async def topic(self, name: str) -> TopicState | None:
        return await self._topics.find(name)

    async def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        return await self._topics.by_id(topic_id)

    async def places(self, topic: str) -> Sequence[PartitionLocation]:
        return await self._topics.places(topic)

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicState:
        return await self._topics.create(name, partitions, config)

    async def delete_topic(self, name: str) -> None:
        await self._topics.delete(name)

    async def add_partitions(self, name: str, total: int) -> None:
        await self._topics.grow(name, total)

    async def set_config(self, name: str, config: Mapping[str, str]) -> None:
        await self._topics.configure(name, config)

    async def defaults(self) -> Mapping[str, str]:
        return {}

    async def node_options(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    async def set_defaults(self, defaults: Mapping[str, str], said: Mapping[str, Mapping[str, str]]) -> None:
        raise Unsupported(
            "what a Kafka cluster does with topics that do not say is set at the cluster",
            hint="Set it there, for example with kafka-configs --entity-type brokers",
        )

    # Writing.

    async def append(self, partition: Partition, batch: Batch) -> Appended:
        (found,) = await self._writing.append_all(((partition, batch),))
        if isinstance(found, PenstockError):
            raise found
        return found

    async def append_all(self, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        return await self._writing.append_all(batches)

    async def delete_records(self, partition: Partition, before: int) -> int:
        try:
            return await self._ends.cut(partition, before)
        except StoreError as error:
            if getattr(error.__cause__, "code", None) != OFFSET_OUT_OF_RANGE:
                raise
        here = await extent(self, partition)
        raise out_of_range(partition, before, here.start, here.end)

    # Reading.

    async def fetch(self, parts: Sequence[FetchPart], budget: Budget) -> list[Fetched | PenstockError]:
        return await self._reading.fetch(parts, budget)

    async def extents(self, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
        return await self._ends.extents(partitions)

    async def epoch_end(self, partition: Partition, epoch: int, *, leader_epoch: int = -1) -> tuple[int, int]:
        return await self._ends.epoch_end(partition, epoch, leader_epoch)

    async def offset_for_time(self, partition: Partition, timestamp_ms: int) -> tuple[int, int] | None:
        return await self._ends.for_time(partition, timestamp_ms)

    async def max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        return await self._ends.newest(partition)

    async def writers(self, partition: Partition) -> Sequence[Writer]:
        return await self._ends.writers(partition)

    async def size(self, partition: Partition) -> int:
        return await self._sizes.of(partition)

    async def room(self) -> DiskSpace:
        return await self._sizes.room(self.url)

    # Waiting.

    def arrival(self, known: Mapping[Partition, int]) -> Promise[None]:
        return self._arrivals.wait(known)

    def forget_arrival(self, promise: Promise[None]) -> None:
        self._arrivals.forget(promise)


# From an address to an enode.
OPTIONS: Final = KafkaOptions(
    client_id="penstock-snode",
    request_timeout_ms=4_000,
    api_timeout_ms=4_000,
    retry_backoff_ms=50,
    retry_backoff_max_ms=500,
    metadata_max_age_ms=30_000,
)
"""The times are shorter than a Kafka client's defaults: the clients of fronts wait from three seconds (RocketMQ's Java
client) to thirty (Kafka's). Changes by other clients are seen within ``metadata_max_age_ms``."""


def open_enode(url: str, around: BackendContext) -> KafkaEnode:
    """``kafka://HOST:PORT[,HOST:PORT…]``: the bootstrap brokers. Raises ConfigError."""
    address = parse_address(url, lambda scheme: ADDED.port)
    if not address.endpoints or address.topics or address.options:
        raise ConfigError(
            f"{url!r} names no Kafka cluster", hint="Write kafka://HOST:9092, with commas between brokers, and no more"
        )
    return KafkaEnode(url, address.endpoints, around, OPTIONS)
