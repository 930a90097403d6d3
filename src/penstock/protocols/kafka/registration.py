"""The entry of Kafka in the protocol registry; the client and the front are imported when one of them is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.interfaces import ChannelFactory, LogClient, WireProtocol
from penstock.model import Endpoint
from penstock.protocols.kafka.config import ADDED, AUTO_CREATE, KafkaNodeConfig

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue, SnodeConfig
    from penstock.interfaces import Front, OffsetsCodec, Services
    from penstock.interfaces.front import Wording
    from penstock.interfaces.node import BackendContext, OpenedEnode
    from penstock.protocols.kafka.client.connection import KafkaOptions

__all__ = ["PROTOCOL"]

_FLAGS = {"true": True, "false": False}


def _client(
    channel_of: ChannelFactory, bootstrap: Sequence[Endpoint], config: ClientConfig, extra: Mapping[str, OptionValue]
) -> LogClient:
    from penstock.protocols.kafka.client.client import open_client

    return open_client(channel_of, bootstrap, _options(config, extra))


def _front(services: Services, config: SnodeConfig) -> Front:
    from penstock.protocols.kafka.groups.classic_group import GroupSettings
    from penstock.protocols.kafka.groups.consumer_group import ConsumerGroupSettings
    from penstock.protocols.kafka.server.front import KafkaFront
    from penstock.protocols.kafka.server.limits import KafkaFrontOptions

    ours = config.front(KafkaNodeConfig)
    options = KafkaFrontOptions(
        auto_create_topics=config.auto_create_topics,
        default_partitions=config.default_partitions,
        max_message_bytes=config.max_message_bytes,
        transaction_partitions=config.offsets_partitions,
        max_request_entries=ours.max_request_entries,
        max_held=ours.max_held,
        max_transactional_ids=ours.max_transactional_ids,
        max_groups=ours.max_groups,
        max_topic_partitions=ours.max_topic_partitions,
        address_share_percent=config.address_share_percent,
        offsets_retention_ms=ours.offsets_retention_minutes * 60_000,
        offsets_check_interval_ms=ours.offsets_check_ms,
        groups=GroupSettings(
            initial_rebalance_delay_ms=ours.initial_rebalance_delay_ms,
            min_session_timeout_ms=ours.group_min_session_timeout_ms,
            max_session_timeout_ms=ours.group_max_session_timeout_ms,
            max_size=ours.group_max_size,
        ),
        newer_groups=ConsumerGroupSettings(
            session_timeout_ms=ours.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=ours.group_consumer_heartbeat_interval_ms,
            max_size=ours.group_max_size,
            min_session_timeout_ms=ours.group_consumer_min_session_timeout_ms,
            max_session_timeout_ms=ours.group_consumer_max_session_timeout_ms,
            min_heartbeat_interval_ms=ours.group_consumer_min_heartbeat_interval_ms,
            max_heartbeat_interval_ms=ours.group_consumer_max_heartbeat_interval_ms,
            migration_policy=ours.group_consumer_migration_policy,
        ),
    )
    return KafkaFront(services, options)


def _enode(url: str, around: BackendContext) -> OpenedEnode:
    from penstock.protocols.kafka.backend.enode import open_enode

    return open_enode(url, around)


def _options(config: ClientConfig, extra: Mapping[str, OptionValue]) -> KafkaOptions:
    from penstock.config import ConsumerConfig, IsolationLevel, ProducerConfig
    from penstock.protocols.kafka.client.connection import KafkaOptions

    reader = config if isinstance(config, ConsumerConfig) else None
    return KafkaOptions(
        client_id=config.client_id,
        request_timeout_ms=config.request_timeout_ms,
        api_timeout_ms=config.api_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        auto_create_topics=_flag(AUTO_CREATE, extra.get(AUTO_CREATE, isinstance(config, ProducerConfig))),
        read_committed=reader is not None and reader.isolation_level is IsolationLevel.READ_COMMITTED,
        rack="" if reader is None else reader.client_rack,
    )


def _flag(name: str, value: OptionValue) -> bool:
    found = _FLAGS.get(str(value).strip().lower())
    if found is None:
        raise ConfigError(f"{name} is {value!r}, wanted is true or false")
    return found


def _offsets() -> OffsetsCodec:
    from penstock.protocols.kafka.wire.stored_records import OffsetsLog

    return OffsetsLog()


def _faults() -> Wording:
    from penstock.protocols.kafka.server.fault_injection import KafkaWording

    return KafkaWording()


_HERE = "penstock.protocols.kafka"
_LOADS = {
    "consumer": (f"{_HERE}.client.reader",),
    "columns": (f"{_HERE}.wire.records",),
    "member": (f"{_HERE}.client.classic_member", f"{_HERE}.client.coordinator"),
    "newer member": (f"{_HERE}.client.consumer_member",),
    "producer": (
        f"{_HERE}.wire.records",
        f"{_HERE}.client.transactions",
        f"{_HERE}.client.coordinator",
    ),
}
PROTOCOL = WireProtocol(
    "kafka",
    _client,
    _front,
    ADDED,
    _offsets,
    keeps_journals=True,
    exact_times=True,
    enode=_enode,
    faults=_faults,
    title="Kafka",
    loads={role: (f"{_HERE}.client.client", *modules) for role, modules in _LOADS.items()},
)
