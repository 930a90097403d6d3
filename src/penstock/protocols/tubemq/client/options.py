"""The figures of a TubeMQ client: the protocol's own options and those that every client has. Data only."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError, PenstockError
from penstock.model import Partition
from penstock.protocols.tubemq.authentication import Credentials
from penstock.protocols.tubemq.config.names import parse_filters
from penstock.protocols.tubemq.config.options import ConsumePosition, TubeConfig, tube_config
from penstock.protocols.tubemq.msg_time import MsgTimeZone, msg_time_zone
from penstock.protocols.tubemq.partition_ids import store_of, within_store

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue

__all__ = ["TubeOptions", "options_of"]

_PRODUCER_HEARTBEAT_MS = 13_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TubeOptions:
    """``tube`` are the protocol's own options, the rest is what every client has (see `penstock.config.ClientConfig`).

    ``position`` is where a group begins that has no position in a partition. ``publishing``: this client writes, so
    the topics it is told about are those that may be written to. ``in_order``: a message waits until the one before it
    to the same partition is stored.
    """

    tube: TubeConfig = field(default_factory=TubeConfig)
    client_id: str = "penstock"
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    position: ConsumePosition = ConsumePosition.FIRST
    publishing: bool = False
    in_order: bool = False
    tls: bool = False
    short_log_patience_ms: int = 5_000

    @property
    def rpc_timeout_ms(self) -> int:
        """How long a server may take to answer."""
        return self.tube.rpc_timeout_ms

    def patience_ms(self, error: PenstockError) -> int:
        """The same for all errors: a master that was asked has the last word on which topics there are."""
        del error
        return self.api_timeout_ms

    def lane_of(self, partition: Partition) -> str:
        """Which of the connections to a partition's broker it goes over. The same one always: servers keep order only
        within a connection. Neighbours, in a store and by stores, and topics, come to lie on different ones."""
        lanes = self.tube.connections_per_broker
        number = store_of(partition.id) + within_store(partition.id) + zlib.crc32(partition.topic.encode())
        return str(number % lanes) if number % lanes else ""

    @property
    def producer_heartbeat_ms(self) -> int:
        """How often a producer tells the master that it is there."""
        return self.tube.heartbeat_period_ms or _PRODUCER_HEARTBEAT_MS

    @property
    def credentials(self) -> Credentials | None:
        """Who signs registrations; None: nobody."""
        tube = self.tube
        if not tube.signs or tube.user is None or tube.password is None:
            return None
        return Credentials(tube.user, tube.password)

    @property
    def zone(self) -> MsgTimeZone | None:
        """The zone of messages' minutes; None: UTC."""
        return msg_time_zone(self.tube.msg_time_zone)

    @property
    def filters(self) -> Mapping[str, tuple[str, ...]]:
        """Filter items by topic; those under "" are for every topic."""
        return parse_filters(self.tube.filters)

    def filters_of(self, topic: str) -> tuple[str, ...]:
        """The filter items of a topic; none: everything is wanted."""
        filters = self.filters
        return filters.get(topic, filters.get("", ()))


def options_of(config: ClientConfig, extra: Mapping[str, OptionValue]) -> TubeOptions:
    """From what a client of any protocol was told, and what only this one knows. Raises ConfigError."""
    from penstock.config import ConsumerConfig, OffsetReset, ProducerConfig

    tube = tube_config(extra)
    position = tube.consume_position
    if position is None:
        reset = config.auto_offset_reset if isinstance(config, ConsumerConfig) else OffsetReset.EARLIEST
        if reset is OffsetReset.NONE and isinstance(config, ConsumerConfig) and config.group is not None:
            raise ConfigError(
                "auto_offset_reset is none, but TubeMQ's groups always have a place to begin",
                hint="Say earliest, latest, or consume_position=always-latest",
            )
        position = ConsumePosition.LATEST if reset is OffsetReset.LATEST else ConsumePosition.FIRST
    return TubeOptions(
        tube=tube,
        client_id=config.client_id,
        api_timeout_ms=config.api_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        position=position,
        publishing=isinstance(config, ProducerConfig),
        in_order=isinstance(config, ProducerConfig) and config.max_in_flight == 1,
        tls=config.tls,
    )
