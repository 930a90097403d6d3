"""Topics: answering who asks for topics and their partitions, from what is known or from a master."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.errors import PenstockError, ServerError
from penstock.interfaces.channel import Channel, Retry
from penstock.model import Node, Partition, TopicInfo
from penstock.protocols.tubemq.client.discovery import discover
from penstock.protocols.tubemq.client.identity import Identity
from penstock.protocols.tubemq.client.masters import Masters
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.client.placements import SYSTEM_TOPIC, Placements
from penstock.protocols.tubemq.client.publisher import Publisher
from penstock.protocols.tubemq.error_codes import Code, error_of

__all__ = ["Topics"]

_UNSUBSCRIBABLE = 422
_NEEDS_PERMISSION = frozenset({Code.CONSUME_GROUP_FORBIDDEN, Code.CONSUME_CONTENT_FORBIDDEN})


class Topics:
    """Who writes is told what may be written to, everybody else what may be read."""

    def __init__(
        self,
        channel: Channel[None],
        masters: Masters,
        identity: Identity,
        placements: Placements,
        publisher: Publisher,
        options: TubeOptions,
    ) -> None:
        self._channel = channel
        self._masters = masters
        self._identity = identity
        self._placements = placements
        self._publisher = publisher
        self._options = options

    async def topics(self, names: Collection[str], *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; those that do not exist are absent. No request lists them all."""
        due = list(names) if fresh else sorted(self._placements.routing.due(names))
        if due:
            await self._ask(due)
            self._placements.routing.told(due)
        return self._placements.topics(names)

    async def leader(self, partition: Partition) -> Node:
        """The broker of a partition, asking a master if need be. Raises ServerError if there is none now."""
        node = await self._placements.routing.find(partition, self._ask_again)
        if node is None:
            raise self._no_leader(partition)
        return node

    async def _ask_again(self, names: Collection[str]) -> None:
        await self.topics(names, fresh=True)

    def _no_leader(self, partition: Partition) -> ServerError:
        status = self._placements.status(partition)
        code, text = _UNSUBSCRIBABLE, "the master lets nobody read it"
        if status is None and self._placements.topics([partition.topic]):
            code, text = Code.FORBIDDEN, "the topic has no such partition"
        elif status is None:
            code, text = Code.TOPIC_NOT_DEPLOYED, "the master knows no such topic"
        elif status == 1:
            code, text = Code.SERVICE_UNAVAILABLE, f"broker {partition.node} is not registered at the master now"
        error = error_of(code, text, topic=partition.topic, partition=partition.id, node=partition.node or None)
        if not partition.node:
            error.hint = "A partition of TubeMQ has a node, too: the id of its broker"
        return error

    async def _ask(self, names: Collection[str]) -> None:
        retry = Retry(self._channel, self._options)
        while True:
            try:
                await self._ask_once(names)
            except PenstockError as error:
                await retry.after(error)
            else:
                return

    async def _ask_once(self, names: Collection[str]) -> None:
        if self._options.publishing:
            await self._publisher.publish(names)
        elif not await self._discovered(names):
            await self._ask_around(names)

    async def _discovered(self, names: Collection[str]) -> bool:
        """Whether masters told where ``names`` are; False where groups need permission for one of them."""
        group = self._identity.passing_group(f"{self._options.tube.reader_group}-topics")
        try:
            await discover(self._masters, self._identity, self._placements, names, group)
        except ServerError as error:
            if error.code not in _NEEDS_PERMISSION:
                raise
            return False
        return True

    async def _ask_around(self, names: Collection[str]) -> None:
        """Ask as a producer, then for each that producers are not told of alone: one refusal must not hide all."""
        await self._publisher.publish([name for name in names if name != SYSTEM_TOPIC])
        if len(names) == 1:
            return
        known = self._placements.topics(names)
        for name in (name for name in names if name not in known):
            if not await self._discovered([name]):
                self._placements.forget([name])
