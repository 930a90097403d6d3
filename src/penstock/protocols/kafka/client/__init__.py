"""Kafka's client: plain coroutines over a Channel, without clocks, sockets or tasks of their own."""
