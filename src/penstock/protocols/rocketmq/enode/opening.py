"""From an address of name servers to an enode."""

from __future__ import annotations

from penstock.config import parse_address
from penstock.errors import ConfigError
from penstock.protocols.rocketmq.config import RocketNodeConfig
from penstock.protocols.rocketmq.config.added import NAME_SERVER_PORT
from penstock.protocols.rocketmq.enode.enode import RocketEnode
from penstock.seams.opening import Surroundings

__all__ = ["open_enode"]


def open_enode(url: str, around: Surroundings) -> RocketEnode:
    """``rocketmq://HOST:PORT[,HOST:PORT…]``: name servers. Raises ConfigError."""
    address = parse_address(url, lambda scheme: NAME_SERVER_PORT)
    if not address.endpoints or address.topics or address.options:
        raise ConfigError(
            f"{url!r} names no RocketMQ cluster", hint="Write rocketmq://HOST:9876, with commas between name servers"
        )
    own = around.config.front(RocketNodeConfig)
    return RocketEnode(url, address.endpoints, around, own.enode_timeout_ms / 1_000)
