"""What the registry is told of TubeMQ's configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.protocols.tubemq.config.address import WORDS, go_address
from penstock.protocols.tubemq.config.front import TubeNodeConfig
from penstock.protocols.tubemq.config.ini import ini_options

__all__ = ["ADDED"]

ADDED: Final = replace(
    WORDS,
    address=go_address,
    files={".ini": ini_options, ".conf": ini_options},
    theirs={"auto_offset_reset": "latest"},
    front=TubeNodeConfig,
)
