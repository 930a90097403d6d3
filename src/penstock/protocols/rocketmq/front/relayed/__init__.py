"""The front over real brokers: clients talk to the node, messages and offsets stay where they are."""

from penstock.protocols.rocketmq.front.relayed.front import RelayedFront

__all__ = ["RelayedFront"]
