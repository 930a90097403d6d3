"""A Kafka cluster as an enode: a node's fronts read and write its topics, in any protocol."""
