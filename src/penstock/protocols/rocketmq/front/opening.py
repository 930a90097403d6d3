"""From a node's configuration to its RocketMQ front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocols.rocketmq.front.front import RocketFront
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.seams.node import Services

if TYPE_CHECKING:
    from penstock.config import SnodeConfig

__all__ = ["open_front"]


def open_front(services: Services, config: SnodeConfig) -> RocketFront:
    """The front of a node."""
    return RocketFront(services, RocketFrontOptions(auto_create_topics=config.auto_create_topics))
