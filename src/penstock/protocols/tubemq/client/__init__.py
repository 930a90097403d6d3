"""TubeMQ's client: plain coroutines over a Channel. No clock, no socket, no task of its own."""
