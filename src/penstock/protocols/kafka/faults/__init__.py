"""How Kafka says no, for fault injection in tests; nothing else runs it."""

from penstock.protocols.kafka.faults.wording import KafkaWording as KafkaWording

__all__ = ["KafkaWording"]
