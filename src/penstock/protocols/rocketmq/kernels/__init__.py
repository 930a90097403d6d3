"""RocketMQ's loops over stored messages: their interface and two implementations."""
