"""Kafka's client: coroutines over a Channel. They use no clocks, sockets or tasks of their own."""
