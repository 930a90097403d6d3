"""Brokers as strings: ``id:host:port``; in a master's lists a blank port is the default."""

from __future__ import annotations

from typing import Final

from penstock._dataclasses import dataclass
from penstock.model import Endpoint, Node
from penstock.protocols.tubemq.strings.parts import malformed, number_of

__all__ = [
    "BROKER_PORT",
    "BROKER_TLS_PORT",
    "BrokerIdentity",
    "format_broker",
    "parse_broker",
    "parse_broker_identity",
]


BROKER_PORT: Final = 8123
BROKER_TLS_PORT: Final = 8124


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """A broker as it names itself to a master."""

    node: Node
    version: str


def format_broker(node: Node, default_port: int | None = None) -> str:
    """Return ``id:host:port``; with a blank for the port where it is ``default_port``."""
    port = node.endpoint.port
    return f"{node.name}:{node.endpoint.host}:{' ' if port == default_port else port}"


def parse_broker(text: str, default_port: int = BROKER_PORT) -> Node:
    """Read ``id:host:port``; a blank or absent port is ``default_port``."""
    what = "a broker (id:host:port)"
    broker_id, colon, rest = text.partition(":")
    host, last, port = rest.rpartition(":")
    if not last:
        host, port = rest, ""
    if not colon or not host.strip():
        raise malformed(what, text)
    number = default_port if not port.strip() else number_of(port, what, text, 65_535, least=1)
    return Node(str(number_of(broker_id, what, text)), Endpoint(host.strip(), number))


def parse_broker_identity(text: str) -> BrokerIdentity:
    """Read ``id:host:port:version``, a broker's client id."""
    broker, colon, version = text.rpartition(":")
    if not colon or broker.count(":") < 2:
        raise malformed("a broker's client id (id:host:port:version)", text)
    return BrokerIdentity(parse_broker(broker), version)
