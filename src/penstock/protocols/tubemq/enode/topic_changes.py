"""Making, growing and deleting topics, which takes the masters' web API (``admin_address``).

What is made here has one partition a store, for there offsets are places and nothing has to be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.errors import (
    ErrorKind,
    InvalidPartitionCount,
    InvalidTopicConfig,
    InvalidTopicName,
    PenstockError,
    ServerError,
    TopicExists,
    UnknownTopic,
    Unsupported,
    UsageError,
)
from penstock.interfaces.admin import NewTopic
from penstock.interfaces.node import OWN_TOPICS
from penstock.protocols.tubemq.enode.catalog import Catalog, Topic, is_topic

if TYPE_CHECKING:
    from penstock.protocols.tubemq.client.admin import TubeAdmin

__all__ = ["TopicChanges"]

_RETENTION: Final = "retention.ms"
_MOST_HOURS: Final = 168
_HOUR_MS, _SECOND_MS = 3_600_000, 1_000


class TopicChanges:
    """What Kafka's and other fronts may ask for of topics, done by ``admin``."""

    def __init__(self, admin: TubeAdmin, catalog: Catalog) -> None:
        self._admin = admin
        self._catalog = catalog

    async def create(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """Raises TopicExists, InvalidTopicName, InvalidTopicConfig, Unsupported, ServerError, ConnectionLost."""
        if name.startswith(OWN_TOPICS):
            raise Unsupported(
                "a TubeMQ cluster keeps nothing for longer than a week, so groups' offsets would be lost in it: "
                "start the node with --journals file:DIRECTORY, where it keeps them"
            )
        if not is_topic(name):
            raise InvalidTopicName(
                f"{name!r} cannot be a TubeMQ topic's name: a letter, then 1 to 63 letters, digits or '_'", topic=name
            )
        settings = _settings(config)
        if await self._catalog.topic(name) is not None:
            raise TopicExists(f"there is a topic {name}", topic=name)
        try:
            await self._admin.create_topics([NewTopic(name, partitions, config={**settings, "numPartitions": "1"})])
        except ServerError as error:
            if await self._there(name):
                raise TopicExists(f"there is a topic {name}", topic=name) from error
            raise
        await self._catalog.look([name], fresh=True)
        return Topic(name, len(self._catalog.homes(name)))

    async def delete(self, name: str) -> None:
        """Raises UnknownTopic, ServerError, ConnectionLost."""
        try:
            await self._admin.delete_topics([name])
        except ServerError as error:
            if error.kind is ErrorKind.UNKNOWN_TOPIC:
                raise UnknownTopic("the TubeMQ cluster has no such topic", topic=name) from error
            raise
        await self._catalog.forget(name)

    async def grow(self, name: str, total: int) -> None:
        """Raises InvalidPartitionCount where the cluster's stores cannot share that number."""
        try:
            await self._admin.add_partitions(name, total)
        except UsageError as error:
            raise InvalidPartitionCount(error.message, topic=name, hint=error.hint) from error
        await self._catalog.look([name], fresh=True)

    async def _there(self, name: str) -> bool:
        try:
            await self._catalog.look([name], fresh=True)
        except PenstockError:
            return False
        return bool(self._catalog.homes(name))


def _settings(config: Mapping[str, str]) -> dict[str, str]:
    """TubeMQ's words for a topic's options. Raises InvalidTopicConfig for what it has no word for."""
    for name in config:
        if name != _RETENTION:
            raise InvalidTopicConfig(f"a TubeMQ topic has no option {name}: there is {_RETENTION} only")
    if _RETENTION not in config:
        return {}
    kept_ms = int(config[_RETENTION])
    if not _SECOND_MS <= kept_ms <= _MOST_HOURS * _HOUR_MS:
        raise InvalidTopicConfig(f"{_RETENTION} is {kept_ms}: TubeMQ keeps messages for 1 s to {_MOST_HOURS} hours")
    whole = kept_ms % _HOUR_MS == 0
    return {"deletePolicy": f"delete,{kept_ms // _HOUR_MS}h" if whole else f"delete,{kept_ms // _SECOND_MS}s"}
