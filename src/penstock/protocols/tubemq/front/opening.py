"""From a node's configuration to its TubeMQ front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.tubemq.front.front import TubeFront
from penstock.protocols.tubemq.front.options import TubeFrontOptions
from penstock.seams.node import Services

if TYPE_CHECKING:
    from penstock.config import SnodeConfig

__all__ = ["open_front"]


def open_front(services: Services, config: SnodeConfig) -> TubeFront:
    """The front of a node."""
    del config
    return TubeFront(services, TubeFrontOptions())
