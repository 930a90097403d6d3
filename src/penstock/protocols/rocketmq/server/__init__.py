"""A node that RocketMQ clients take for a name server and its one broker."""
