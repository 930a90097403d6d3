"""A Kafka cluster as an enode: its topics are read and written through a node's fronts, whatever they speak."""

from penstock.protocols.kafka.enode.enode import KafkaEnode
from penstock.protocols.kafka.enode.opening import open_enode

__all__ = ["KafkaEnode", "open_enode"]
