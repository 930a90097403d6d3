"""Groups: assignors and other pure machines that share partitions among members. No I/O, no clock, no protocol."""

from penstock.groups.assignors import Assignor as Assignor
from penstock.groups.assignors import Racks as Racks
from penstock.groups.assignors import Shares as Shares
from penstock.groups.assignors import Subscriber as Subscriber

__all__ = ["Assignor", "Racks", "Shares", "Subscriber"]
