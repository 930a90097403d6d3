"""What handlers need: who asks, the front's shared parts, the node as a cluster of one broker, and checks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from penstock.concurrency.background import BackgroundWorker, LoopBudget
from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Deferred
from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.enode import Enode, TopicState
from penstock.interfaces.framing import Buffers
from penstock.interfaces.front import Meter
from penstock.interfaces.node import Offsets, Services
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.tubemq.errors import Code, Refused, Thrown
from penstock.protocols.tubemq.server.settings import Settings, Shape, shape_of
from penstock.protocols.tubemq.wire.protobuf import Message
from penstock.protocols.tubemq.wire.strings import (
    INDEX_BYTES,
    MAX_FILTER_ITEMS,
    STORE_BASE,
    Placement,
    Subscribable,
    format_broker,
    parse_topic_filter,
)

if TYPE_CHECKING:
    from penstock.protocols.tubemq.server.bookings import Bookings, Positions
    from penstock.protocols.tubemq.server.groups import Groups, Producers
    from penstock.protocols.tubemq.server.log import Routes, Warming, Writing
    from penstock.protocols.tubemq.server.settings import SettingsLog

__all__ = [
    "JAVA_THREW",
    "Answered",
    "Call",
    "ClientConnection",
    "Cluster",
    "Continued",
    "Handler",
    "Place",
    "Shared",
    "TubeFrontOptions",
    "conditions_of",
    "deployed",
    "few",
    "named",
    "to_record",
    "to_wire",
    "topics_of",
]


# What an operator may choose about the TubeMQ front. Data only.
class TubeFrontOptions(Struct, frozen=True, kw_only=True):
    """Defaults are TubeMQ's, except where its clients would have to wait for them.

    ``balance_period_ms``: how often the master looks whether partitions should move; TubeMQ's own minute is what people
    wait for their first message. ``consumer_timeout_ms``, ``producer_timeout_ms``, ``partition_timeout_ms``:
    without a heartbeat for so long a client, or its booking of a partition, is given up; not below two beats of a
    client, which come every 13 s by default. ``event_timeout_ms``: an event that a consumer
    does not acknowledge is given up after it.

    ``max_clients`` registered at once (consumers, and as many producers), and ``max_bookings`` of partitions by groups;
    one connection may have a twentieth of each, and one address ``address_share_percent``. ``transfer_bytes`` and
    ``transfer_records``: about the most that one answer to a reader carries; the message that crosses the first is
    still in it. ``max_message_bytes``: payload of a message, without the 10 KiB that attributes may add.
    ``pending_bytes``: messages being written at once; above it producers are asked to slow down.

    ``admin_token``: what modifying calls of the HTTP interface must bring (``confModAuthToken``); empty: nothing.
    """

    balance_period_ms: int = 1_000
    consumer_timeout_ms: int = 30_000
    producer_timeout_ms: int = 30_000
    partition_timeout_ms: int = 30_000
    event_timeout_ms: int = 60_000
    max_clients: int = 10_000
    max_bookings: int = 100_000
    address_share_percent: int = 50
    transfer_bytes: int = 512 << 10
    transfer_records: int = 6_000
    max_message_bytes: int = 1 << 20
    pending_bytes: int = 32 << 20
    max_partitions: int = 10_000
    admin_token: str = ""


# The node as a TubeMQ cluster of one broker: its id and address, and its topics in TubeMQ's terms.
#
# A partition is a store of its own, our n being TubeMQ's n * 10000, unless its topic was made with several partitions a
# store (`Shape`). Each has offsets of its own all the same, and they are dense: our offset o is TubeMQ's 28 * o.
# Topics of the node itself (``__...``) are not shown.
_OWN = "__"


def to_wire(offset: int) -> int:
    """A record's offset as TubeMQ counts."""
    return offset * INDEX_BYTES


def to_record(offset: int) -> int:
    """The offset of the record that begins at or before a TubeMQ offset."""
    return offset // INDEX_BYTES


class Cluster:
    """``config_id``: names the list of brokers, which does not change while the node runs."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings
        self.broker_id = services.identity.node_id
        self.config_id = services.runtime.now_ms()

    @property
    def node(self) -> Node:
        """The one broker, where clients reach it."""
        return Node(str(self.broker_id), self._services.identity.advertised["tubemq"])

    @property
    def brokers(self) -> list[str]:
        """The list of brokers in the form that clients get."""
        return [format_broker(self.node)]

    # Topics.

    async def topics(self) -> list[TopicState]:
        """All that clients may see."""
        return [topic for topic in await self._services.enode.topics() if not topic.name.startswith(_OWN)]

    async def topic(self, name: str) -> TopicState | None:
        """A topic that clients may see."""
        return None if name.startswith(_OWN) else await self._services.enode.topic(name)

    async def known(self, name: str) -> TopicState:
        """A topic that is there. Raises Refused (FORBIDDEN), as brokers do."""
        topic = await self.topic(name)
        if topic is None:
            raise Refused(Code.FORBIDDEN, f"topicName {name} not existed, please check your configure")
        return topic

    def shape(self, topic: TopicState) -> Shape:
        """Its stores, and TubeMQ's ids of its partitions."""
        return shape_of(self._settings.topic(topic.name).shapes, topic.partitions)

    def placement(self, topic: TopicState) -> Placement:
        """Where a topic is: all of it here."""
        shape = self.shape(topic)
        return Placement(self.broker_id, shape.stores, shape.partitions)

    def subscribable(self, topic: TopicState) -> Subscribable:
        """The same for client-balanced consumers."""
        return Subscribable(topic.name, (self.placement(topic),))

    # Partitions.

    async def partitions(self, topic: str) -> list[Partition]:
        """A topic's partitions under TubeMQ's ids, with the broker's id as node; none where there is no such topic."""
        found = await self.topic(topic)
        name = str(self.broker_id)
        return [Partition(topic, each, name) for each in sorted(self.shape(found).ids)] if found else []

    def shown(self, topic: TopicState) -> list[tuple[Partition, int]]:
        """Our partitions that clients may see, and TubeMQ's ids of them."""
        return [(Partition(topic.name, number), each) for number, each in enumerate(self.shape(topic).ids)]

    def own(self, topic: TopicState, partition_id: int) -> Partition:
        """Our partition of a TubeMQ id. Raises Refused (FORBIDDEN)."""
        number = self.shape(topic).numbers.get(partition_id)
        if number is None:
            raise Refused(
                Code.FORBIDDEN, f"partitionId {topic.name}-{partition_id} not existed, please check your configure"
            )
        return Partition(topic.name, number)

    async def id_of(self, partition: Partition) -> int:
        """TubeMQ's id of one of our partitions; that of a store of its own for one that is not shown."""
        topic = await self.topic(partition.topic)
        ids = self.shape(topic).ids if topic is not None else ()
        return ids[partition.id] if partition.id < len(ids) else partition.id * STORE_BASE


# A handler's other arguments: who asks, and the front's shared parts.
T = TypeVar("T")

_QUICK_BYTES: Final = 32 << 10
_PARSED: Final = 8
"""Bytes of objects that a byte of text becomes, about."""

Place = tuple[str, str, int]
"""A group's place in a partition as clients name it: group, topic, TubeMQ's id of the partition."""


class Shared(Struct, frozen=True):
    """What all handlers of a front share. ``visit_token``: what the master gives and the broker does not look at.

    ``readers``: what a group's readers ask of a partition is done in the order of the requests. ``senders``: messages
    to a partition, by topic and TubeMQ's id, are put into the log in the order in which they came.
    """

    services: Services
    options: TubeFrontOptions
    cluster: Cluster
    settings: Settings
    settings_log: SettingsLog
    groups: Groups
    producers: Producers
    bookings: Bookings
    positions: Positions
    writing: Writing
    routes: Routes
    warming: Warming
    background: BackgroundWorker
    turns: LoopBudget
    readers: Locks[Place]
    senders: Locks[tuple[str, int]]
    meter: Meter
    visit_token: int

    @property
    def enode(self) -> Enode:
        return self.services.enode

    @property
    def offsets(self) -> Offsets:
        return self.services.offsets

    @property
    def now(self) -> float:
        """Seconds for deadlines."""
        return self.services.runtime.monotonic()

    async def parsed(self, size: int, parse: Callable[[], T]) -> T:
        """What ``parse`` makes of so many bytes of a request; of many in a thread, since that takes its time."""
        return parse() if size <= _QUICK_BYTES else await self.background.run(parse, _PARSED * size)

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        return self.services.runtime.now_ms()


class ClientConnection:
    """One client's connection, from ``address``.

    ``alone``: whether the request that is begun just now came without another one.

    ``sends``: the client's id and the topic that were found to be good in its last message to another one, ``topic``.
    """

    __slots__ = ("address", "alone", "sends", "topic")

    def __init__(self, address: Endpoint) -> None:
        self.address = address
        self.alone = False
        self.sends: tuple[str, str] | None = None
        self.topic = ""


class Call(Struct):
    """One request's circumstances; ``version`` of the protocol as the client says it, 0 where it does not."""

    shared: Shared
    version: int
    line: ClientConnection


class Continued(Struct, frozen=True):
    """An answer whose last fields are encoded already: ``rest`` goes behind the message as it is."""

    message: Message
    rest: Buffers


Answered = Message | Continued | Deferred[Message | PenstockError]

Handler = Callable[[Call, Any], Awaitable[Answered]]
"""Returns the answer, or a later one. Raises Refused for one that says what is wrong, Thrown for an exception in its
place; a later one is given what it would have raised."""

# Checks of what every request names: ids, hosts, groups, topics. As TubeMQ's servers make them, in their order.
JAVA_THREW = "java.lang.reflect.InvocationTargetException"
"""What the real server's answer is called where its own code threw."""

_LONGEST = {"clientId": 1_024, "groupName": 1_024, "hostName": 256, "topicName": 64}
_MOST_TOPICS = 1_024
_LONGEST_LIST = 8 * _MOST_TOPICS
_LONGEST_TOPIC = 249
"""Of topics made through another protocol, which may be longer than TubeMQ's own 64 characters."""


def named(field: str, value: str) -> str:
    """A name that must be there, trimmed. Raises Refused (BAD_REQUEST)."""
    value = value.strip()
    if not value:
        raise Refused(Code.BAD_REQUEST, f"Request miss necessary {field} data!")
    if len(value) > _LONGEST.get(field, _LONGEST_TOPIC):
        raise Refused(Code.BAD_REQUEST, f"{field}'s length over max value, allowed max length is {_LONGEST[field]}")
    return value


def few(listed: Sequence[str]) -> Sequence[str]:
    """A list of topics that may be looked at. Raises Refused (BAD_REQUEST) for one of far too many."""
    if len(listed) > _LONGEST_LIST:
        raise Refused(Code.BAD_REQUEST, f"a list of {len(listed)} topics; a client may have {_MOST_TOPICS}")
    return listed


def topics_of(listed: Sequence[str]) -> list[str]:
    """The topics of a request, trimmed, each once. Raises Refused (BAD_REQUEST) where there are none, or too many."""
    few(listed)
    topics = [topic for topic in dict.fromkeys(name.strip() for name in listed) if topic]
    if not topics:
        raise Refused(Code.BAD_REQUEST, "Request miss necessary subscribed topicList data!")
    if len(topics) > _MOST_TOPICS:
        raise Refused(Code.BAD_REQUEST, f"{len(topics)} topics; a client may have {_MOST_TOPICS}")
    return topics


async def deployed(cluster: Cluster, topics: Sequence[str]) -> None:
    """Raise Refused (TOPIC_NOT_DEPLOYED) unless all topics are there."""
    missing = [topic for topic in topics if await cluster.topic(topic) is None]
    if missing:
        raise Refused(Code.TOPIC_NOT_DEPLOYED, f"Requested topic [[{', '.join(missing)}]] not deployed!")


def conditions_of(listed: Iterable[str], topics: Sequence[str]) -> dict[str, frozenset[str]]:
    """Filter items by topic. Raises Thrown for what the real server cannot read, Refused (BAD_REQUEST)."""
    found: dict[str, frozenset[str]] = {}
    for text in listed:
        if not text.strip():
            continue
        try:
            topic, items = parse_topic_filter(text)
        except ProtocolViolation as error:
            raise Thrown(JAVA_THREW, error.message) from error
        if topic not in topics:
            raise Refused(Code.BAD_REQUEST, f"filter for topic {topic}, which is not in topicList")
        if len(items) > MAX_FILTER_ITEMS:
            raise Refused(Code.BAD_REQUEST, f"{len(items)} filter items; a topic may have {MAX_FILTER_ITEMS}")
        found[topic] = frozenset(items)
    return found
