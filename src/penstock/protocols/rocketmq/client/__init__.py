"""RocketMQ's client: plain coroutines over a Channel."""
