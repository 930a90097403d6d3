"""TubeClient: the LogClient of TubeMQ. It only puts the parts together; each family of requests has its own file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.model import Endpoint, Node, Partition, TopicInfo
from penstock.protocols.tubemq.client.dialect import TubeDialect
from penstock.protocols.tubemq.client.options import TubeOptions, options_of
from penstock.protocols.tubemq.client.shared import share
from penstock.seams.channel import Channel, Dialect

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue

__all__ = ["TubeClient", "open_client"]


class TubeClient:
    """``penstock.seams.client.LogClient`` for TubeMQ clusters, and whatever speaks like one."""

    def __init__(self, channel: Channel[None], masters: Sequence[Endpoint], options: TubeOptions | None = None) -> None:
        self._channel = channel
        self.shared = share(channel, masters, options or TubeOptions())

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> Mapping[str, TopicInfo]:
        """Topics by name; see ``LogClient``."""
        return await self.shared.topics.topics(names, fresh=fresh)

    def leader(self, partition: Partition) -> Node | None:
        """From what is known."""
        return self.shared.placements.leader(partition)

    def distrust(self, partition: Partition) -> None:
        """Forget who leads it."""
        self.shared.placements.distrust(partition)

    async def close(self) -> None:
        """Say goodbye to the master and close all connections."""
        await self._channel.close()


def open_client(
    channel_of: Callable[[Dialect[None]], Channel[None]],
    bootstrap: Sequence[Endpoint],
    config: ClientConfig,
    extra: Mapping[str, OptionValue],
) -> TubeClient:
    """A client over the transport that ``channel_of`` makes. Nothing is connected yet. Raises ConfigError."""
    options = options_of(config, extra)
    return TubeClient(channel_of(TubeDialect()), bootstrap, options)
