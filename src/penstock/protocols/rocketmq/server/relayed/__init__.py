"""The front over real brokers: clients talk to the node, messages and offsets stay where they are."""
