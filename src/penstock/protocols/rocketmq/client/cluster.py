"""A client's view of a cluster.

`RocketOptions` are its options. `Calls` sends requests to any server, `NameServers` to the name servers. `Routes` is
the known state of topics and brokers, `Topics` keeps it up to date.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

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


# Subscriptions as brokers get them. No I/O. Source: Apache RocketMQ 4.9 and 5.4, ``FilterAPI``, ``SubscriptionData``.
def subscription(topic: str, expression: str, kind: str, version_ms: int) -> m.SubscriptionData:
    """The subscription to one topic, as of a time: a later version wins."""
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
    """The tags of ``TagA || TagB``; none for ``*``, which means all.

    >>> tags_of("TagA || TagB")
    ('TagA', 'TagB')
    """
    if expression.strip() in ("", "*"):
        return ()
    return tuple(dict.fromkeys(tag.strip() for tag in expression.split("||") if tag.strip()))


_TICK_S = 5.0
_HOLD_SLACK_S = 10.0


class RocketOptions(Struct, frozen=True, kw_only=True):
    """Options of a client: ``rocket`` are the protocol's own, the rest is every client's (see
    `penstock.config.ClientConfig`).

    ``group``: the group of reads. ``publishing``: the client writes, so partitions are the queues that may be written
    to. ``from_latest``: a group without a committed offset begins at the end. ``silent_patience_ms``: how long to wait
    for a server whose response is not essential.
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
        """``request_timeout_ms`` in seconds."""
        return self.request_timeout_ms / 1_000

    @property
    def reads_as(self) -> str:
        """The group name in reads."""
        return self.group or self.rocket.reader_group

    @property
    def held_s(self) -> float:
        """How long a broker may hold a read without messages: it examines held reads every five seconds."""
        return self.rocket.suspend_ms / 1_000 + _TICK_S

    @property
    def held_timeout_s(self) -> float:
        """The timeout of a held read."""
        return self.held_s + max(_HOLD_SLACK_S, self.request_timeout_s)

    @property
    def expression(self) -> tuple[str, str]:
        """The filter: the expression and its type."""
        return (self.rocket.sql, "SQL92") if self.rocket.sql else (self.rocket.tags.strip() or "*", "TAG")

    @property
    def chooses(self) -> bool:
        """Whether there is a filter; then a response may end after its last message's offset."""
        return self.expression != ("*", "TAG")

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags to filter by; none for all, or for another filter. Brokers compare only hashes of tags."""
        expression, kind = self.expression
        return tags_of(expression) if kind == "TAG" else ()

    def patience_ms(self, error: PenstockError) -> int:
        """How long to retry. An unknown topic is waited for less long than a broker: it may be new, but more often its
        name is misspelt."""
        unknown = isinstance(error, ServerError) and error.kind is ErrorKind.UNKNOWN_TOPIC
        return min(self.api_timeout_ms, self.unknown_topic_patience_ms) if unknown else self.api_timeout_ms


def options_of(config: ClientConfig, extra: Mapping[str, OptionValue]) -> RocketOptions:
    """The options of a client of any protocol, and RocketMQ's own. Raises ConfigError."""
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


# Requests: all requests of a client go through here, where they are signed, framed and sent.
Request = TypeVar("Request")
Answer = TypeVar("Answer")

_SUCCESS = (Code.SUCCESS,)


class Started(Generic[Request, Answer]):
    """A request that was sent; its response is fetched once."""

    __slots__ = ("_connection", "_method", "pending")

    def __init__(self, connection: Connection, method: Method[Request, Answer], pending: Pending) -> None:
        self._connection = connection
        self._method = method
        self.pending = pending

    async def answer(
        self, accept: Collection[int] = _SUCCESS, *, of: Partition | None = None, offset: int | None = None
    ) -> Answered[Answer]:
        """The response. Raises RequestTimeout, ConnectionLost, ProtocolViolation; ServerError, with its place, for a
        code that is not in ``accept``."""
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
            self._connection.close()  # what follows on it cannot be trusted either
            raise

    def abandon(self) -> None:
        """Give the response up. This closes the connection, because the response may be long in coming."""
        self._connection.close()


class Calls:
    """All requests of one client, over one connection per address and lane."""

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
        """The encoded request, signed if there is an account."""
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
        """Send a request and read the response. ``within_s``: how long to wait for a connection, None for the channel's
        default; ``timeout_s``: for the response, None for ``request_timeout_ms``. Raises as ``Started.answer``."""
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
        """Send requests without waiting for responses, in one write if none is held. ``held_s``: how long the server
        may hold one on purpose. Servers respond in any order."""
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
        """Send a one-way request. Raises ConnectionLost."""
        connection = (await self.channel.link(endpoint)).connection
        await connection.send(self.request(method, header, body, one_way=True))


# Name servers do not talk to each other, but brokers register at each, so any of them will do. Calls go to the current
# one. If its connection fails, it does not answer in time or does not speak the protocol, the next one in the ring
# becomes current; no call asks one twice. The response's code is the caller's concern. Source: Apache RocketMQ 4.9 and
# 5.4, ``NettyRemotingClient`` (choice of a name server).


_MOMENT_S = 1.0
"""The limit of connecting to a server while there is another one to ask."""


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
        """All of them, in the configured order."""
        return self._names

    async def call(
        self, method: Method[Request, Answer], header: Request, *, accept: Collection[int] = (Code.SUCCESS,)
    ) -> Answered[Answer]:
        """The response. If no name server answers, raises the last one's ConnectionLost, RequestTimeout or
        ProtocolViolation; ServerError for a code that is not in ``accept``."""
        begun = self._current
        for attempt in range(len(self._names)):
            at = (begun + attempt) % len(self._names)
            last = attempt == len(self._names) - 1
            within_s = None if last else _MOMENT_S
            try:
                answer = await self._calls.call(self._names[at], method, header, accept=accept, within_s=within_s)
            except (ConnectionLost, ProtocolViolation, RequestTimeout):
                # Concurrent calls may have moved on already; only a failure of the current one moves it.
                if self._current == at:
                    self._current = (at + 1) % len(self._names)
                if last:
                    raise
            else:
                self._current = at
                return answer
        raise AssertionError("there is at least one name server")


# Routes: the brokers, and the queues of each topic on them. No I/O.
#
# A queue is a partition: topic, the queue's number and its broker's name. Several addresses may share the name: a
# master, number 0, and its standbys. Partitions are in the order (broker, number), as Java's clients sort them, so the
# n-th one stays the n-th while no broker comes or goes. Source: Apache RocketMQ 4.9 and 5.4, ``TopicRouteData``,
# ``MQClientInstance``.
MASTER: Final = 0
_MOST_QUEUES: Final = 100_000
_LARGEST_PORT: Final = 65_535


class QueuesOfBroker(Struct, frozen=True):
    """How many queues of one topic on one broker may be read and written."""

    readable: int
    writable: int


class Route(Struct, frozen=True):
    """The route of one topic: queues by broker, and addresses by broker and number (0 is the master)."""

    queues: Mapping[str, QueuesOfBroker]
    brokers: Mapping[str, Mapping[int, Endpoint]]


def route_of(said: m.Route) -> Route:
    """The route in a name server's response. Raises ProtocolViolation."""
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


class Routes(Struct):
    """The known routes. ``publishing``: partitions are queues that may be written to, else those that may be read.

    Only masters accept messages. A standby serves readers while name servers know no master (they forget one as soon as
    its connection breaks), and where a broker ``suggested`` it because the messages are no longer in its memory.
    """

    publishing: bool = False
    suggested: dict[Partition, int] = field(default_factory=dict)
    brokers: dict[str, Mapping[int, Endpoint]] = field(default_factory=dict)
    _routes: dict[str, Route] = field(default_factory=dict)

    def note(self, topic: str, route: Route | None) -> None:
        """Set a topic's route; None removes it."""
        if route is None:
            self._routes.pop(topic, None)
            return
        self._routes[topic] = route
        self.brokers.update(route.brokers)

    def note_brokers(self, brokers: Mapping[str, Mapping[int, Endpoint]]) -> None:
        """Set all brokers."""
        self.brokers = dict(brokers)

    def known(self, topic: str) -> bool:
        """Whether the topic has a route."""
        return topic in self._routes

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """The known topics of ``names``."""
        return {name: self._info(name) for name in names if name in self._routes}

    def master(self, partition: Partition) -> Node | None:
        """The server of a queue: its broker's master, or for readers a standby; None for an unknown queue."""
        if not self._has(partition.topic, partition.node, partition.id):
            return None
        return self._serving(partition.node)

    def reader(self, partition: Partition) -> Node | None:
        """The server to pull from: the suggested standby if there is one, else `master`."""
        node = self.master(partition)
        number = self.suggested.get(partition, MASTER)
        endpoint = self.brokers.get(partition.node, {}).get(number) if number != MASTER else None
        # It gets a name of its own: one consumer may read the queue there and another one at the master.
        return node if node is None or endpoint is None else Node(f"{partition.node}#{number}", endpoint)

    def suggest(self, partition: Partition, number: int) -> None:
        """Note where a broker wants the next pull; 0 is the master."""
        if number == MASTER:
            self.suggested.pop(partition, None)
        else:
            self.suggested[partition] = number

    def masters(self, topic: str | None = None) -> list[Node]:
        """All masters, or the servers of one topic, by name."""
        if topic is None:
            found = [(name, self.brokers[name].get(MASTER)) for name in sorted(self.brokers)]
            return [Node(name, endpoint) for name, endpoint in found if endpoint is not None]
        names = sorted(self._routes[topic].queues) if topic in self._routes else ()
        return [node for name in names if (node := self._serving(name)) is not None]

    def everybody(self) -> list[Node]:
        """Every address of every broker."""
        return [Node(name, endpoint) for name in sorted(self.brokers) for endpoint in self.brokers[name].values()]

    def resolve(self, partition: Partition) -> Partition:
        """The partition with its broker's name, if that was left out and only one broker has such a queue."""
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


# Topics, from the known routes or from a name server.
#
# An unknown topic may be written to if brokers create topics: its queues are assumed to be where the template topic's
# are, and its first message creates it. Source: Apache RocketMQ 4.9 and 5.4,
# ``MQClientInstance.updateTopicRouteInfoFromNameServer``.


class Topics:
    """One client's topics. ``routes`` is the known state, ``routing`` says how fresh it is."""

    def __init__(self, calls: Calls, names: NameServers) -> None:
        self._calls = calls
        self._options = calls.options
        self._names = names
        self.routes = Routes(publishing=calls.options.publishing)
        self.routing = Routing(calls.channel, calls.options.metadata_max_age_ms, self.routes.master)

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name (None: all); unknown ones are left out."""
        wanted = await self.names() if names is None else names
        due = list(wanted) if fresh else sorted(self.routing.due(wanted))
        if due:
            await self._learn(due)
        return self.routes.topics(wanted)

    async def names(self) -> list[str]:
        """The names of all topics."""
        found = await self._asked(GET_ALL_TOPIC_LIST_FROM_NAMESERVER, m.TopicList)
        return sorted(found.topic_list)

    async def brokers(self) -> list[Node]:
        """The master of every broker, freshly asked for."""
        found = await self._asked(GET_BROKER_CLUSTER_INFO, m.ClusterInfo)
        self.routes.note_brokers({name: addresses_of(data) for name, data in found.broker_addr_table.items()})
        return self.routes.masters()

    async def leader(self, partition: Partition) -> Node:
        """The broker of a queue, from a name server if necessary. Raises ServerError if there is none."""
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
        self.routing.answered([name])

    async def _route(self, name: str) -> Route | None:
        # Without this field, servers write numbers as keys without quotes, as old clients expect them.
        asked = m.GetRoute(topic=name, accept_standard_json_only=True)
        answer = await self._names.call(GET_ROUTEINFO_BY_TOPIC, asked, accept=(Code.SUCCESS, Code.TOPIC_NOT_EXIST))
        if answer.code == Code.TOPIC_NOT_EXIST:
            return None
        return route_of(m.read_body(m.Route, answer.body))

    async def _asked(self, method: Method[m.NoFields, m.NoFields], body: type[Answer]) -> Answer:
        """A name server's response about the whole cluster."""
        retry = Retry(self._calls.channel, self._options)
        while True:
            try:
                answer = await self._names.call(method, m.NoFields())
            except PenstockError as error:
                await retry.after(error)
            else:
                return m.read_body(body, answer.body)


def _like(template: Route, queues: int) -> Route:
    """The assumed route of a topic that its first message will create from this template."""
    counts = {name: min(queues, each.readable) for name, each in template.queues.items()}
    return replace(template, queues={name: QueuesOfBroker(count, count) for name, count in counts.items()})
