"""Kafka's client: plain coroutines over a Channel. No clock, no socket, no task of its own."""

from penstock.protocols.kafka.client.client import KafkaClient as KafkaClient
from penstock.protocols.kafka.client.client import open_client as open_client
from penstock.protocols.kafka.client.dialect import KafkaDialect as KafkaDialect
from penstock.protocols.kafka.client.options import KafkaOptions as KafkaOptions

__all__ = ["KafkaClient", "KafkaDialect", "KafkaOptions", "open_client"]
