"""Topics: answering who asks for topics and their queues, from what is known or from a name server.

A topic that nobody knows may be written to where brokers make topics: its queues are then thought to lie where the
template topic's do, and its first message makes it.
Source: Apache RocketMQ 4.9 and 5.4, ``MQClientInstance.updateTopicRouteInfoFromNameServer``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from penstock.errors import PenstockError, ServerError
from penstock.model import Node, Partition, TopicInfo
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.client.calls import Calls
from penstock.protocols.rocketmq.client.name_servers import NameServers
from penstock.protocols.rocketmq.client.routes import QueuesOfBroker, Route, Routes, addresses_of, route_of
from penstock.protocols.rocketmq.error_codes import Code, error_of
from penstock.protocols.rocketmq.methods import (
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    GET_BROKER_CLUSTER_INFO,
    GET_ROUTEINFO_BY_TOPIC,
    Method,
)
from penstock.seams.retry import Retry
from penstock.seams.routing import Routing

__all__ = ["Topics"]

Answer = TypeVar("Answer")


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
