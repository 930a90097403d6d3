"""From a node's configuration to its RocketMQ front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.front.front import RocketFront
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.protocols.rocketmq.front.relayed import RelayedFront
from penstock.seams.node import Services

if TYPE_CHECKING:
    from penstock.config import SnodeConfig

__all__ = ["open_front"]


def open_front(services: Services, config: SnodeConfig) -> RocketFront | RelayedFront:
    """The front of a node: over its log, or where that is a RocketMQ cluster, over the brokers. Raises ConfigError."""
    own = config.front(RocketNodeConfig)
    options = RocketFrontOptions(
        cluster=own.rocketmq_cluster,
        max_clients=own.rocketmq_max_clients,
        max_locks=own.rocketmq_max_locks,
        max_held=own.rocketmq_max_held,
        address_share_percent=config.address_share_percent,
        snode_name=own.snode_name,
        register_snode_ms=own.register_snode_ms,
        auto_create_topics=config.auto_create_topics,
        housekeeping_ms=own.rocketmq_housekeeping_ms,
        notify_members=own.rocketmq_notify_members,
        auto_create_groups=own.rocketmq_auto_create_groups,
        producer_beat_ms=own.producer_beat_ms,
        accounts=own.accounts,
        flow_requests=own.flow_requests,
        flow_kilobytes=own.flow_kilobytes,
        client_timeout_ms=own.rocketmq_timeout_ms,
        check_every_ms=own.transaction_check_ms,
        delay_scale=own.delay_scale_percent / 100,
        peers=own.other_snodes(),
        finds_peers=own.find_snodes,
        broker_ports=own.broker_ports,
    )
    relay = services.enode.relay("rocketmq")
    if isinstance(relay, RocketRelay):
        return RelayedFront(services, options, relay)
    if options.broker_ports:
        raise ConfigError(
            "rocketmq_broker_ports is for nodes before a RocketMQ cluster: here is one broker, the node",
            hint="Leave it out",
        )
    return RocketFront(services, options)
