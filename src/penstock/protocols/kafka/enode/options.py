"""Options of topics: those that were set of each, as brokers tell them, and changed by their names in Kafka.

What a cluster's brokers say for topics that do not is the cluster's, and not changed from here. Source: Kafka protocol
guide, DescribeConfigs v1-v4, IncrementalAlterConfigs (KIP-339).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from penstock.errors import PenstockError
from penstock.protocols.kafka.client.calls import only
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from penstock.seams.retry import Retry

__all__ = ["TopicOptions"]

_TOPIC: Final = 2
_SET_OF_TOPIC: Final = 1
_SET, _DELETE = 0, 1
_KEPT_S: Final = 30.0
_AT_ONCE: Final = 100
"""Topics asked for in one request: an answer has about forty options of each."""
_NOT_YET: Final = 5
_NOTHING: Final[Mapping[str, str]] = {}


class TopicOptions:
    """What is known is believed for half a minute."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._now = cluster.calls.channel.monotonic
        self._known: dict[str, tuple[Mapping[str, str], float]] = {}

    def knows(self, name: str) -> bool:
        """Whether what is known of a topic is young enough."""
        return name in self._known and self._now() < self._known[name][1]

    def has(self, name: str) -> bool:
        """Whether anything is known of it, however old: while nobody answers that has to do."""
        return name in self._known

    def of(self, name: str) -> Mapping[str, str]:
        """What was set of a topic when it was last asked for; the same object while that is the same."""
        return self._known[name][0] if name in self._known else _NOTHING

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """This is what was set of it."""
        before = self.of(name)
        self._known[name] = (before if before == config else dict(config), self._now() + _KEPT_S)

    def forget(self, name: str) -> None:
        """The topic is gone."""
        self._known.pop(name, None)

    async def learn(self, names: Collection[str]) -> None:
        """Ask for those that are not known. Raises ConnectionLost, RequestTimeout."""
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
                if result.resource_name in lump:  # a topic that is gone, or whose options nobody may see, has none
                    self.put(result.resource_name, said)

    async def replace(self, name: str, config: Mapping[str, str]) -> None:
        """Set these, and nothing else; returns when brokers say so. Raises ServerError, ConnectionLost."""
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
        told = only((await self._cluster.ask_anyone(message, IncrementalAlterConfigsResponse)).responses, what)
        if told.error_code != NONE:
            raise error_for(told.error_code, what, topic=name, detail=told.error_message)
        await self._show(name, config)

    async def _show(self, name: str, config: Mapping[str, str]) -> None:
        """Brokers hear of a change from the controller, a moment after it is made."""
        retry = Retry(self._cluster.calls.channel, self._cluster.calls.options)
        while True:
            self.forget(name)
            await self.learn((name,))
            if self.of(name) == config:
                return
            try:
                await retry.pause(error_for(_NOT_YET, "the options are set, and brokers do not tell them yet"))
            except PenstockError:
                return  # they may say a value in other words than it was given in


def _change(name: str, value: str | None, operation: int) -> IncrementalAlterConfigsRequestConfig:
    return IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)
