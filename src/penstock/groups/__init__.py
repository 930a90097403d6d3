"""Consumer groups without I/O, clock or protocol: assignors, committed offsets, rebalance history, state tables."""

from penstock.groups.assignors import Assignor as Assignor
from penstock.groups.assignors import Racks as Racks
from penstock.groups.assignors import Shares as Shares
from penstock.groups.assignors import Subscriber as Subscriber

__all__ = ["Assignor", "Racks", "Shares", "Subscriber"]
