"""RocketMQ's loops over bytes, in two implementations, and what they have to do."""
