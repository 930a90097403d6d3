"""Several Snodes before one cluster: each knows whose clients all of them have, so that a group is one."""

from penstock.protocols.rocketmq.front.relayed.peers.exchange import Peers
from penstock.protocols.rocketmq.front.relayed.peers.union import Union

__all__ = ["Peers", "Union"]
