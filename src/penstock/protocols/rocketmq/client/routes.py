"""Routes: which brokers there are, and which queues of a topic lie on each. Data and lookups; who asks is elsewhere.

A queue is a partition: topic, the queue's number and its broker's name, which several addresses may share (a master,
number 0, and those that copy it). Partitions of a topic stand in the order (broker, number), as Java's clients sort
them, so that the n-th partition stays the n-th while no broker comes or goes.
Source: Apache RocketMQ 4.9 and 5.4, ``TopicRouteData``, ``MQClientInstance``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.config.address import host_and_port
from penstock.errors import ProtocolViolation
from penstock.model import Endpoint, Node, Partition, PartitionInfo, TopicInfo
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import is_internal

__all__ = ["MASTER", "QueuesOfBroker", "Route", "Routes", "addresses_of", "route_of"]

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
