"""What a message to a topic has to be like, and where it goes: worked out once, until the topic or what is set changes.

What must not live here: the checks themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.interfaces.enode import TopicState
from penstock.model import Partition
from penstock.protocols.tubemq.front.cluster import Cluster
from penstock.protocols.tubemq.front.settings import BrokerSettings, Limits, Settings, TopicSettings
from penstock.protocols.tubemq.names import HEADER_ALLOWANCE_BYTES
from penstock.records.validation import Target, target_of

__all__ = ["Route", "Routes"]

_KEPT: Final = 4_096


class Route(NamedTuple):
    """``partitions``: ours by TubeMQ's ids. ``most_bytes``: of a payload, attributes included.

    ``codec``: what messages are stored in, where the topic wants any. ``settings``: of topic, cluster and broker.
    """

    topic: TopicState
    settings: tuple[TopicSettings, Limits, BrokerSettings]
    accepts_publish: bool
    partitions: Mapping[int, Partition]
    most_bytes: int
    needs_keys: bool
    codec: Target | None


class Routes:
    """Routes by name of topic. A topic's state and what is set for it never change: others take their place."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._known: dict[str, Route] = {}

    def of(self, topic: TopicState) -> Route:
        """The route to a topic that is there."""
        settings, limits, broker = self._settings.topic(topic.name), self._settings.limits, self._settings.broker
        known = self._known.get(topic.name)
        if known is not None and known.topic is topic:
            of_topic, of_cluster, of_broker = known.settings
            if of_topic is settings and of_cluster is limits and of_broker is broker:
                return known
        if len(self._known) >= _KEPT:
            self._known.clear()
        partitions = {each: partition for partition, each in self._cluster.shown(topic)}
        most = (settings.max_message_bytes or limits.max_message_bytes) + HEADER_ALLOWANCE_BYTES
        needs_keys = "compact" in topic.config.get("cleanup.policy", "")
        codec = target_of(topic.config)
        accepts = settings.accepts_publish and broker.accepts_publish
        made = Route(topic, (settings, limits, broker), accepts, partitions, most, needs_keys, codec)
        self._known[topic.name] = made
        return made
