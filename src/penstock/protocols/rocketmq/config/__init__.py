"""What RocketMQ adds to configuration: options, what its other clients call them, their property files."""

from penstock.protocols.rocketmq.config.added import ADDED as ADDED
from penstock.protocols.rocketmq.config.front import RocketNodeConfig as RocketNodeConfig
from penstock.protocols.rocketmq.config.options import ROCKET_OPTIONS as ROCKET_OPTIONS
from penstock.protocols.rocketmq.config.options import Allocation as Allocation
from penstock.protocols.rocketmq.config.options import BodyCodec as BodyCodec
from penstock.protocols.rocketmq.config.options import MessageModel as MessageModel
from penstock.protocols.rocketmq.config.options import RocketConfig as RocketConfig
from penstock.protocols.rocketmq.config.options import rocket_config as rocket_config
from penstock.protocols.rocketmq.config.properties import property_options as property_options

__all__ = [
    "ADDED",
    "ROCKET_OPTIONS",
    "Allocation",
    "BodyCodec",
    "MessageModel",
    "RocketConfig",
    "RocketNodeConfig",
    "property_options",
    "rocket_config",
]
