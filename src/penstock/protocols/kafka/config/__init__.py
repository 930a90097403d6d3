"""What Kafka adds to configuration: names that its clients' users know, its port, options of its own."""

from penstock.protocols.kafka.config.added import ADDED as ADDED
from penstock.protocols.kafka.config.added import AUTO_CREATE as AUTO_CREATE
from penstock.protocols.kafka.config.front import KafkaNodeConfig as KafkaNodeConfig

__all__ = ["ADDED", "AUTO_CREATE", "KafkaNodeConfig"]
