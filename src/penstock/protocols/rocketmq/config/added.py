"""What the registry is told of RocketMQ's configuration."""

from __future__ import annotations

from typing import Final

from penstock.config import ProtocolConfig
from penstock.protocols.rocketmq.config.front import RocketNodeConfig
from penstock.protocols.rocketmq.config.options import ROCKET_OPTIONS
from penstock.protocols.rocketmq.config.properties import property_options
from penstock.protocols.rocketmq.config.spellings import ROCKET_MEANINGLESS, ROCKET_SPELLINGS, ROCKET_VALUES

__all__ = ["ADDED", "NAME_SERVER_PORT"]

NAME_SERVER_PORT: Final = 9876

ADDED: Final = ProtocolConfig(
    port=NAME_SERVER_PORT,
    options=ROCKET_OPTIONS,
    spellings=ROCKET_SPELLINGS,
    absent=ROCKET_MEANINGLESS,
    values=ROCKET_VALUES,
    files={".properties": property_options},
    defaults={"max_request_bytes": 4 << 20},  # Java's maxMessageSize, and that of brokers
    front=RocketNodeConfig,
)
