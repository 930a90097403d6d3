"""The Kafka front: a node that Kafka clients take for a broker."""
