"""From a node's configuration to its TubeMQ front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.interfaces.node import Services
from penstock.protocols.tubemq.config import TubeNodeConfig
from penstock.protocols.tubemq.front.front import TubeFront
from penstock.protocols.tubemq.front.options import TubeFrontOptions

if TYPE_CHECKING:
    from penstock.config import SnodeConfig

__all__ = ["open_front"]

_SCHEME = "tubemq"


def open_front(services: Services, config: SnodeConfig) -> TubeFront:
    """The front of a node. Raises ConfigError for an address that TubeMQ's strings cannot carry."""
    listening = {listen.scheme: listen.endpoint for listen in config.listen}
    told = config.advertised.get(_SCHEME) or listening.get(_SCHEME)
    if told is not None and ":" in told.host:
        raise ConfigError(
            f"TubeMQ clients cannot be told the address {told}", hint="Listen on, or advertise, IPv4 or a name"
        )
    own = config.front(TubeNodeConfig)
    options = TubeFrontOptions(
        balance_period_ms=own.balance_period_ms,
        max_clients=own.tubemq_max_clients,
        max_bookings=own.tubemq_max_bookings,
        address_share_percent=config.address_share_percent,
        consumer_timeout_ms=own.tubemq_timeout_ms,
        producer_timeout_ms=own.tubemq_timeout_ms,
        partition_timeout_ms=own.tubemq_timeout_ms,
        event_timeout_ms=2 * own.tubemq_timeout_ms,
        admin_token=own.admin_token or "",
    )
    return TubeFront(services, options)
