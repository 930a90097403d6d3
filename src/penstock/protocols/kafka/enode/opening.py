"""From the address of a Kafka cluster to an enode."""

from __future__ import annotations

from typing import Final

from penstock.config import parse_address
from penstock.errors import ConfigError
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.protocols.kafka.config import ADDED
from penstock.protocols.kafka.enode.enode import KafkaEnode
from penstock.seams.opening import Surroundings

__all__ = ["open_enode"]

OPTIONS: Final = KafkaOptions(
    client_id="penstock-snode",
    request_timeout_ms=4_000,
    api_timeout_ms=4_000,
    retry_backoff_ms=50,
    retry_backoff_max_ms=500,
    metadata_max_age_ms=30_000,
)
"""Shorter times than a client's own: who asked waits behind a front, for three seconds (RocketMQ's Java client) to
thirty (Kafka's). What others do to topics is seen within ``metadata_max_age_ms``."""


def open_enode(url: str, around: Surroundings) -> KafkaEnode:
    """``kafka://HOST:PORT[,HOST:PORT…]``: brokers to begin with. Raises ConfigError."""
    address = parse_address(url, lambda scheme: ADDED.port)
    if not address.endpoints or address.topics or address.options:
        raise ConfigError(
            f"{url!r} names no Kafka cluster", hint="Write kafka://HOST:9092, with commas between brokers, and no more"
        )
    return KafkaEnode(url, address.endpoints, around, OPTIONS)
