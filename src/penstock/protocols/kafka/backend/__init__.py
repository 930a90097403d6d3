"""A Kafka cluster as an enode: its topics are read and written through a node's fronts, whatever they speak."""
