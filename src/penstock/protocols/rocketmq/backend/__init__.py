"""A RocketMQ cluster as an enode: topics, messages and offsets stay at its brokers."""
