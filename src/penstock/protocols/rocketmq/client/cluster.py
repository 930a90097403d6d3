"""The way to a cluster: options, calls to name servers and brokers, routes and topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock._dataclasses import dataclass
from penstock.config.address import host_and_port
from penstock.errors import (
    ConfigError,
    ConnectionLost,
    ErrorKind,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
)
from penstock.interfaces.channel import Channel, Connection, Outgoing, Pending, Retry, Routing
from penstock.model import Endpoint, Node, Partition, PartitionInfo, TopicInfo
from penstock.protocols.rocketmq.config import RocketConfig, check_group, is_internal, rocket_config
from penstock.protocols.rocketmq.errors import Code, error_of
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.message_format import java_hash
from penstock.protocols.rocketmq.wire.rpc import (
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    GET_BROKER_CLUSTER_INFO,
    GET_ROUTEINFO_BY_TOPIC,
    Account,
    Answered,
    Method,
    read_answer,
    request,
)

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue

__all__ = [
    "MASTER",
    "Calls",
    "NameServers",
    "QueuesOfBroker",
    "RocketOptions",
    "Route",
    "Routes",
    "Started",
    "Topics",
    "addresses_of",
    "options_of",
    "route_of",
    "subscription",
    "tags_of",
]


# Subscriptions as brokers are told them: what a group wants of a topic. Pure.
#
# Source: Apache RocketMQ 4.9 and 5.4, ``FilterAPI``, ``SubscriptionData``.
def subscription(topic: str, expression: str, kind: str, version_ms: int) -> m.SubscriptionData:
    """What is wanted of one topic, as of a time: a later version wins."""
    tags = tags_of(expression) if kind == "TAG" else ()
    return m.SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set=tuple(map(java_hash, tags)),
        sub_version=version_ms,
        expression_type=kind,
    )


def tags_of(expression: str) -> tuple[str, ...]:
    """The tags of ``TagA || TagB``; none for ``*``, which is all.

    >>> tags_of("TagA || TagB")
    ('TagA', 'TagB')
    """
    if expression.strip() in ("", "*"):
        return ()
    return tuple(dict.fromkeys(tag.strip() for tag in expression.split("||") if tag.strip()))


_TICK_S = 5.0
_HOLD_SLACK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketOptions:
    """``rocket`` are the protocol's own options, the rest is what every client has (see
    `penstock.config.ClientConfig`).

    ``group`` is in whose name reads are made. ``publishing``: this client writes, so the queues it is told about are
    those that may be written to. ``from_latest``: where a group begins that has committed nothing.
    ``silent_patience_ms``: so long a server is waited for that others can do without.
    """

    rocket: RocketConfig = field(default_factory=RocketConfig)
    client_id: str = "penstock"
    group: str | None = None
    publishing: bool = False
    from_latest: bool = False
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    unknown_topic_patience_ms: int = 3_000
    short_log_patience_ms: int = 5_000
    silent_patience_ms: int = 3_000

    @property
    def request_timeout_s(self) -> float:
        """``request_timeout_ms`` as the channel wants it."""
        return self.request_timeout_ms / 1_000

    @property
    def reads_as(self) -> str:
        """The group that reads are made as."""
        return self.group or self.rocket.reader_group

    @property
    def held_s(self) -> float:
        """For how long a broker may keep a read that finds nothing: it looks at those it holds every five seconds."""
        return self.rocket.suspend_ms / 1_000 + _TICK_S

    @property
    def held_timeout_s(self) -> float:
        """When a read that was held is given up."""
        return self.held_s + max(_HOLD_SLACK_S, self.request_timeout_s)

    @property
    def expression(self) -> tuple[str, str]:
        """What brokers choose messages by: the expression and its type."""
        return (self.rocket.sql, "SQL92") if self.rocket.sql else (self.rocket.tags.strip() or "*", "TAG")

    @property
    def chooses(self) -> bool:
        """Whether some messages are not wanted, so that one answer does not end where its last message does."""
        return self.expression != ("*", "TAG")

    @property
    def tags(self) -> tuple[str, ...]:
        """Which tags are wanted; none: all, or it is not tags that messages are chosen by. Brokers compare hashes
        only."""
        expression, kind = self.expression
        return tags_of(expression) if kind == "TAG" else ()

    def patience_ms(self, error: PenstockError) -> int:
        """A topic that nobody knows is waited for more briefly than a broker: it may be new, but more often its name is
        misspelt."""
        unknown = isinstance(error, ServerError) and error.kind is ErrorKind.UNKNOWN_TOPIC
        return min(self.api_timeout_ms, self.unknown_topic_patience_ms) if unknown else self.api_timeout_ms


def options_of(config: ClientConfig, extra: Mapping[str, OptionValue]) -> RocketOptions:
    """From what a client of any protocol was told, and what only this one knows. Raises ConfigError."""
    from penstock.config import ConsumerConfig, OffsetReset, ProducerConfig

    consumer = config if isinstance(config, ConsumerConfig) else None
    group = None if consumer is None else consumer.group
    return RocketOptions(
        rocket=rocket_config(extra),
        client_id=config.client_id,
        group=None if group is None else check_group(group),
        publishing=isinstance(config, ProducerConfig),
        from_latest=consumer is not None and consumer.auto_offset_reset is OffsetReset.LATEST,
        request_timeout_ms=config.request_timeout_ms,
        api_timeout_ms=config.api_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
    )


# Calls: every request of this client goes through here: signed, framed, sent, and its answer read.
Request = TypeVar("Request")
Answer = TypeVar("Answer")

_SUCCESS = (Code.SUCCESS,)


class Started(Generic[Request, Answer]):
    """A request that was written; its answer is fetched once."""

    __slots__ = ("_connection", "_method", "pending")

    def __init__(self, connection: Connection, method: Method[Request, Answer], pending: Pending) -> None:
        self._connection = connection
        self._method = method
        self.pending = pending

    async def answer(
        self, accept: Collection[int] = _SUCCESS, *, of: Partition | None = None, offset: int | None = None
    ) -> Answered[Answer]:
        """Raises RequestTimeout, ConnectionLost, ProtocolViolation; ServerError for a code that is not in ``accept``,
        with where it happened."""
        frame = await self.pending.reply()
        try:
            return read_answer(
                self._method,
                frame,
                accept=accept,
                topic=None if of is None else of.topic,
                partition=None if of is None else of.id,
                offset=offset,
                node=str(self._connection.endpoint),
            )
        except ProtocolViolation:
            self._connection.close()  # what follows on it may mean nothing either
            raise

    def abandon(self) -> None:
        """The answer is not wanted any more; closes the connection, because it may be long in coming."""
        self._connection.close()


class Calls:
    """All requests of one client. One connection an address and lane."""

    def __init__(self, channel: Channel[None], options: RocketOptions) -> None:
        self.channel = channel
        self.options = options
        rocket = options.rocket
        self._account = (
            None if rocket.access_key is None or rocket.secret_key is None
            else Account(rocket.access_key, rocket.secret_key)
        )  # fmt: skip

    def request(
        self, method: Method[Request, Answer], header: Request, body: object = b"", *, one_way: bool = False
    ) -> Outgoing:
        """What to write."""
        return request(method, header, body, one_way=one_way, account=self._account)

    async def call(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        header: Request,
        body: object = b"",
        *,
        accept: Collection[int] = _SUCCESS,
        of: Partition | None = None,
        within_s: float | None = None,
        timeout_s: float | None = None,
        lane: str = "",
    ) -> Answered[Answer]:
        """Ask, and read the answer. ``within_s`` is how long to wait for a connection, None: as long as that may take;
        ``timeout_s`` for the answer, None: ``request_timeout_ms``. Raises as ``Started.answer``."""
        if within_s is not None:
            await self.channel.reach(endpoint, lane, within_s=within_s)
        (started,) = await self.start(
            endpoint, method, [self.request(method, header, body)], timeout_s=timeout_s, lane=lane
        )
        return await started.answer(accept, of=of)

    async def start(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        requests: Sequence[Outgoing],
        *,
        timeout_s: float | None = None,
        held_s: float = 0.0,
        lane: str = "",
    ) -> list[Started[Request, Answer]]:
        """Send without waiting for answers, in one write where none is held; ``held_s`` is how long the server may keep
        one on purpose. Servers answer in any order."""
        connection = (await self.channel.link(endpoint, lane)).connection
        patience_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        try:
            pendings: Sequence[Pending]
            if held_s or len(requests) == 1:
                pendings = [connection.start(each, timeout_s=patience_s, held_s=held_s) for each in requests]
            else:
                pendings = connection.start_all(requests, timeout_s=patience_s)
        except PenstockError as error:
            error.node = error.node or str(endpoint)
            raise
        return [Started(connection, method, pending) for pending in pendings]

    async def tell(self, endpoint: Endpoint, method: Method[Request, Any], header: Request, body: object = b"") -> None:
        """Send what is never answered. Raises ConnectionLost."""
        connection = (await self.channel.link(endpoint)).connection
        await connection.send(self.request(method, header, body, one_way=True))


# NameServers: the list of name servers, the one that answers, and the way from it to the next.
#
# Name servers do not talk to each other; each hears of brokers by itself, so that any will do. A call goes to the
# current one. When its connection fails, it does not answer in time or speaks something else, the next one in the ring
# becomes the current one; no call asks any of them twice. What an answer's code says is the caller's business. Source:
# Apache RocketMQ 4.9 and 5.4, ``NettyRemotingClient`` (choice of a name server).


_MOMENT_S = 1.0
"""How long one may take to be connected to while there is another one to ask."""


class NameServers:
    """All name servers of a cluster."""

    def __init__(self, calls: Calls, names: Sequence[Endpoint]) -> None:
        if not names:
            raise ConfigError("no name server is named", hint="Write rocketmq://HOST:PORT")
        self._calls = calls
        self._names = tuple(dict.fromkeys(names))
        self._current = int(calls.channel.random() * len(self._names))

    @property
    def all(self) -> Sequence[Endpoint]:
        """As they were named."""
        return self._names

    async def call(
        self, method: Method[Request, Answer], header: Request, *, accept: Collection[int] = (Code.SUCCESS,)
    ) -> Answered[Answer]:
        """The answer. Raises ConnectionLost, RequestTimeout or ProtocolViolation of the last one asked when none would
        answer; ServerError for a code that is not in ``accept``."""
        begun = self._current
        for attempt in range(len(self._names)):
            at = (begun + attempt) % len(self._names)
            last = attempt == len(self._names) - 1
            within_s = None if last else _MOMENT_S
            try:
                answer = await self._calls.call(self._names[at], method, header, accept=accept, within_s=within_s)
            except (ConnectionLost, ProtocolViolation, RequestTimeout):
                # Others may have moved on meanwhile; only who failed at the current one moves it.
                if self._current == at:
                    self._current = (at + 1) % len(self._names)
                if last:
                    raise
            else:
                self._current = at
                return answer
        raise AssertionError("there is at least one name server")


# Routes: which brokers there are, and which queues of a topic lie on each. Data and lookups; who asks is elsewhere.
#
# A queue is a partition: topic, the queue's number and its broker's name, which several addresses may share (a master,
# number 0, and those that copy it). Partitions of a topic stand in the order (broker, number), as Java's clients sort
# them, so that the n-th partition stays the n-th while no broker comes or goes. Source: Apache RocketMQ 4.9 and 5.4,
# ``TopicRouteData``, ``MQClientInstance``.
MASTER: Final = 0
_MOST_QUEUES: Final = 100_000
_LARGEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class QueuesOfBroker:
    """Queues of one topic on one broker: how many may be read, and written."""

    readable: int
    writable: int


@dataclass(frozen=True, slots=True)
class Route:
    """Of one topic: queues by broker, and addresses by broker and number (0 is the master)."""

    queues: Mapping[str, QueuesOfBroker]
    brokers: Mapping[str, Mapping[int, Endpoint]]


def route_of(said: m.Route) -> Route:
    """A name server's answer. Raises ProtocolViolation."""
    queues = {
        each.broker_name: QueuesOfBroker(
            _count(each.read_queue_nums) if each.perm & m.Perm.READ else 0,
            _count(each.write_queue_nums) if each.perm & m.Perm.WRITE else 0,
        )
        for each in said.queue_datas
    }
    return Route(queues, {each.broker_name: addresses_of(each) for each in said.broker_datas})


def addresses_of(data: m.BrokerData) -> Mapping[int, Endpoint]:
    """The addresses of one broker, by number. Raises ProtocolViolation."""
    return {number: _endpoint(address) for number, address in data.broker_addrs.items()}


def _count(number: int) -> int:
    if not 0 <= number <= _MOST_QUEUES:
        raise ProtocolViolation(f"a topic with {number} queues on one broker")
    return number


def _endpoint(text: str) -> Endpoint:
    host, port = host_and_port(text)
    if not host or not port.isdecimal() or int(port) > _LARGEST_PORT:
        raise ProtocolViolation(f"a broker's address is {text[:100]!r}")
    return Endpoint(host, int(port))


@dataclass(slots=True)
class Routes:
    """What is known. ``publishing``: partitions are those that may be written to, else those that may be read.

    Only masters take messages. Who reads is served by a standby while name servers know no master (they forget one as
    soon as its connection breaks), and where a broker ``suggested`` it, because what is read lies on disk only.
    """

    publishing: bool = False
    suggested: dict[Partition, int] = field(default_factory=dict)
    brokers: dict[str, Mapping[int, Endpoint]] = field(default_factory=dict)
    _routes: dict[str, Route] = field(default_factory=dict)

    def note(self, topic: str, route: Route | None) -> None:
        """What a name server told of a topic; None: it knows none of that name."""
        if route is None:
            self._routes.pop(topic, None)
            return
        self._routes[topic] = route
        self.brokers.update(route.brokers)

    def note_brokers(self, brokers: Mapping[str, Mapping[int, Endpoint]]) -> None:
        """Every broker there is."""
        self.brokers = dict(brokers)

    def known(self, topic: str) -> bool:
        """Whether there is a route."""
        return topic in self._routes

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Those of ``names`` that there are."""
        return {name: self._info(name) for name in names if name in self._routes}

    def master(self, partition: Partition) -> Node | None:
        """Who serves a queue: its broker's master, or for readers a standby, if its topic has that queue."""
        if not self._has(partition.topic, partition.node, partition.id):
            return None
        return self._serving(partition.node)

    def reader(self, partition: Partition) -> Node | None:
        """The same for who pulls: the standby that was suggested, if there is one."""
        node = self.master(partition)
        number = self.suggested.get(partition, MASTER)
        endpoint = self.brokers.get(partition.node, {}).get(number) if number != MASTER else None
        # A name of its own: one consumer may read a queue there and another one at the master.
        return node if node is None or endpoint is None else Node(f"{partition.node}#{number}", endpoint)

    def suggest(self, partition: Partition, number: int) -> None:
        """A broker says where to pull from next; 0 is the master."""
        if number == MASTER:
            self.suggested.pop(partition, None)
        else:
            self.suggested[partition] = number

    def masters(self, topic: str | None = None) -> list[Node]:
        """Every broker that has a master, or those that serve a topic, by name."""
        if topic is None:
            found = [(name, self.brokers[name].get(MASTER)) for name in sorted(self.brokers)]
            return [Node(name, endpoint) for name, endpoint in found if endpoint is not None]
        names = sorted(self._routes[topic].queues) if topic in self._routes else ()
        return [node for name in names if (node := self._serving(name)) is not None]

    def everybody(self) -> list[Node]:
        """Every address of every broker."""
        return [Node(name, endpoint) for name in sorted(self.brokers) for endpoint in self.brokers[name].values()]

    def resolve(self, partition: Partition) -> Partition:
        """The same with its broker's name, where it was left out and only one broker can be meant."""
        if partition.node or partition.topic not in self._routes:
            return partition
        names = [
            name for name in self._routes[partition.topic].queues if self._has(partition.topic, name, partition.id)
        ]
        return Partition(partition.topic, partition.id, names[0]) if len(names) == 1 else partition

    def _serving(self, name: str) -> Node | None:
        addresses = self.brokers.get(name, {})
        endpoint = addresses.get(MASTER)
        if endpoint is None and addresses and not self.publishing:
            endpoint = addresses[min(addresses)]
        return None if endpoint is None else Node(name, endpoint)

    def _info(self, topic: str) -> TopicInfo:
        infos = [
            PartitionInfo(partition, self.master(partition))
            for broker in sorted(self._routes[topic].queues)
            for partition in (Partition(topic, number, broker) for number in range(self._queues(topic, broker)))
        ]
        return TopicInfo(topic, tuple(infos), internal=is_internal(topic))

    def _queues(self, topic: str, broker: str) -> int:
        queues = self._routes[topic].queues[broker]
        return queues.writable if self.publishing else queues.readable

    def _has(self, topic: str, broker: str, number: int) -> bool:
        route = self._routes.get(topic)
        if route is None or broker not in route.queues:
            return False
        queues = route.queues[broker]
        return 0 <= number < max(queues.readable, queues.writable)


# Topics: answering who asks for topics and their queues, from what is known or from a name server.
#
# A topic that nobody knows may be written to where brokers make topics: its queues are then thought to lie where the
# template topic's do, and its first message makes it. Source: Apache RocketMQ 4.9 and 5.4,
# ``MQClientInstance.updateTopicRouteInfoFromNameServer``.


class Topics:
    """Of one client. ``routes`` is what is known, ``routing`` what of it is believed."""

    def __init__(self, calls: Calls, names: NameServers) -> None:
        self._calls = calls
        self._options = calls.options
        self._names = names
        self.routes = Routes(publishing=calls.options.publishing)
        self.routing = Routing(calls.channel, calls.options.metadata_max_age_ms, self.routes.master)

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name (None: all); those that do not exist are absent."""
        wanted = await self.names() if names is None else names
        due = list(wanted) if fresh else sorted(self.routing.due(wanted))
        if due:
            await self._learn(due)
        return self.routes.topics(wanted)

    async def names(self) -> list[str]:
        """Of all topics."""
        found = await self._asked(GET_ALL_TOPIC_LIST_FROM_NAMESERVER, m.TopicList)
        return sorted(found.topic_list)

    async def brokers(self) -> list[Node]:
        """The master of every broker that a name server knows now."""
        found = await self._asked(GET_BROKER_CLUSTER_INFO, m.ClusterInfo)
        self.routes.note_brokers({name: addresses_of(data) for name, data in found.broker_addr_table.items()})
        return self.routes.masters()

    async def leader(self, partition: Partition) -> Node:
        """The broker of a queue, asking a name server if need be. Raises ServerError if there is none now."""
        node = await self.routing.find(partition, self._learn)
        if node is None:
            raise self._no_leader(partition)
        return node

    def _no_leader(self, partition: Partition) -> ServerError:
        known = self.routes.known(partition.topic)
        code, text = (
            (501, "no broker has such a queue now") if known else (Code.TOPIC_NOT_EXIST, "no name server knows it")
        )
        error = error_of(code, text, topic=partition.topic, partition=partition.id, node=partition.node or None)
        if not partition.node:
            error.hint = "A partition of RocketMQ's has a node, too: the name of its broker"
        return error

    async def _learn(self, names: Collection[str]) -> None:
        retry = Retry(self._calls.channel, self._options)
        while True:
            try:
                for outcome in await self._calls.channel.gather([self._ask(name) for name in names]):
                    if isinstance(outcome, BaseException):
                        raise outcome
            except PenstockError as error:
                await retry.after(error)
            else:
                return

    async def _ask(self, name: str) -> None:
        route = await self._route(name)
        rocket = self._options.rocket
        if route is None and self._options.publishing and rocket.auto_create_topics:
            template = await self._route(rocket.template_topic)
            route = None if template is None else _like(template, rocket.topic_queues)
        self.routes.note(name, route)
        self.routing.told([name])

    async def _route(self, name: str) -> Route | None:
        # Standard JSON on request: else servers write numbers as keys for older clients.
        asked = m.GetRoute(topic=name, accept_standard_json_only=True)
        answer = await self._names.call(GET_ROUTEINFO_BY_TOPIC, asked, accept=(Code.SUCCESS, Code.TOPIC_NOT_EXIST))
        if answer.code == Code.TOPIC_NOT_EXIST:
            return None
        return route_of(m.read_body(m.Route, answer.body))

    async def _asked(self, method: Method[m.NoFields, m.NoFields], body: type[Answer]) -> Answer:
        """A name server's answer about everything."""
        retry = Retry(self._calls.channel, self._options)
        while True:
            try:
                answer = await self._names.call(method, m.NoFields())
            except PenstockError as error:
                await retry.after(error)
            else:
                return m.read_body(body, answer.body)


def _like(template: Route, queues: int) -> Route:
    """Of a topic that will be made like this one by its first message."""
    counts = {name: min(queues, each.readable) for name, each in template.queues.items()}
    return replace(template, queues={name: QueuesOfBroker(count, count) for name, count in counts.items()})
