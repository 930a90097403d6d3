"""What TubeMQ adds to configuration: options, what its other clients call them, their addresses and files."""

from penstock.protocols.tubemq.config.added import ADDED as ADDED
from penstock.protocols.tubemq.config.address import is_go_address as is_go_address
from penstock.protocols.tubemq.config.address import parse_go_address as parse_go_address
from penstock.protocols.tubemq.config.front import TubeNodeConfig as TubeNodeConfig
from penstock.protocols.tubemq.config.ini import ini_options as ini_options
from penstock.protocols.tubemq.config.options import TUBE_OPTIONS as TUBE_OPTIONS
from penstock.protocols.tubemq.config.options import ConsumePosition as ConsumePosition
from penstock.protocols.tubemq.config.options import TubeConfig as TubeConfig
from penstock.protocols.tubemq.config.options import tube_config as tube_config

__all__ = [
    "ADDED",
    "TUBE_OPTIONS",
    "ConsumePosition",
    "TubeConfig",
    "TubeNodeConfig",
    "ini_options",
    "is_go_address",
    "parse_go_address",
    "tube_config",
]
