"""The Kafka front: a node that Kafka clients take for a broker."""

from penstock.protocols.kafka.front.front import KafkaFront
from penstock.protocols.kafka.front.options import KafkaFrontOptions

__all__ = ["KafkaFront", "KafkaFrontOptions"]
