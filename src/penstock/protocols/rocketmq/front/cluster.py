"""The node as a RocketMQ cluster of one broker: its name and address, and its topics in RocketMQ's terms.

A partition is a queue of the same number. Topics of the node itself (``__...``) are not shown. Source: Apache RocketMQ
4.9 and 5.x, ``TopicConfigManager``.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.errors import TopicExists
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.config.names import DEAD_LETTER, RETRY
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.naming import is_hidden, log_name, rocket_name
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.protocols.rocketmq.records.ids import Host
from penstock.seams.enode import TopicState
from penstock.seams.node import Services

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.front.broker.settings import Settings

__all__ = ["TEMPLATE", "Cluster"]

TEMPLATE: Final = "TBW102"
"""The topic after which producers have others made."""

_SCHEME: Final = "rocketmq"
_NO_ADDRESS: Final = b"\0\0\0\0"
_INHERIT: Final = int(m.Perm.INHERIT)


class Cluster:
    """``broker`` is the one broker's name, ``name`` the cluster's."""

    def __init__(self, services: Services, options: RocketFrontOptions, settings: Settings) -> None:
        self._services = services
        self._options = options
        self._settings = settings
        self._host: Host | None = None
        self.name = options.cluster
        self.broker = f"penstock-{services.identity.node_id}"

    @property
    def address(self) -> str:
        """``host:port`` of the broker, which is the name server's, too."""
        return str(self._services.identity.advertised[_SCHEME])

    @property
    def host(self) -> Host:
        """The same as ids of messages carry it, which have no room for names."""
        if self._host is None:
            told = self._services.identity.advertised[_SCHEME]
            self._host = Host(_packed(told.host), told.port)
        return self._host

    # Topics.

    async def topics(self) -> list[TopicState]:
        """All that clients may see."""
        return [topic for topic in await self._services.enode.topics() if not is_hidden(topic.name)]

    async def names(self) -> list[str]:
        """The same as RocketMQ calls them."""
        return [rocket_name(topic.name) for topic in await self.topics()]

    async def topic(self, name: str) -> TopicState | None:
        """A topic that clients may see, by RocketMQ's name."""
        inner = log_name(name)
        return None if is_hidden(inner) else await self._services.enode.topic(inner)

    async def known(self, name: str) -> TopicState:
        """A topic that is there. Raises Refused (TOPIC_NOT_EXIST)."""
        topic = await self.topic(name)
        if topic is None:
            raise Refused(Code.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        return topic

    async def queue(self, name: str, number: int) -> Partition:
        """A queue that is there. Raises Refused."""
        topic = await self.known(name)
        if not 0 <= number < topic.partitions:
            raise Refused(
                Code.INVALID_PARAMETER, f"queueId[{number}] is illegal, topic:[{name}] has {topic.partitions} queues"
            )
        return Partition(topic.name, number)

    async def ensure(self, name: str, queues: int) -> TopicState:
        """A topic, made if it is not there. Raises Refused."""
        inner = log_name(name)
        if is_hidden(inner):
            raise Refused(Code.NO_PERMISSION, f"topic[{name}] is the node's own")
        enode = self._services.enode
        topic = await enode.topic(inner)
        while topic is None:
            try:
                return await enode.create_topic(inner, queues, {})
            except TopicExists:  # somebody was quicker
                topic = await enode.topic(inner)
        return topic

    async def written(self, name: str, template: str, queues: int) -> TopicState:
        """A topic to be written to, made if its producer may have that. Raises Refused (TOPIC_NOT_EXIST)."""
        topic = await self.topic(name)
        if topic is not None:
            return topic
        if name.startswith((RETRY, DEAD_LETTER)):
            return await self.ensure(name, 1)
        if template == TEMPLATE:
            most, perm = self._options.template_queues if self._options.auto_create_topics else 0, None
        else:
            most, perm = await self._offers(template)
        if not most:
            raise Refused(Code.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        made = await self.ensure(name, max(1, min(queues, most)))
        if perm is not None and perm != self._settings.queues(made).perm:
            await self._settings.set_topic(made, replace(self._settings.topic(made), perm=perm))
        return made

    async def _offers(self, template: str) -> tuple[int, int | None]:
        """How many queues topics get that are made after this one, 0 if none may be, and what may be done with them."""
        topic = await self.topic(template)
        if topic is None:
            return 0, None
        found = self._settings.queues(topic)
        return (found.write, found.perm & ~_INHERIT) if found.perm & _INHERIT else (0, None)


def _packed(host: str) -> bytes:
    if host == "localhost":
        host = "127.0.0.1"
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return _NO_ADDRESS
