"""The front of a node before real brokers: it serves clients, while messages and offsets stay at the brokers."""
