"""Groups: assignors and other pure machines that share partitions among members. No I/O, no clock, no protocol."""

from penstock.groups.assignor import Assignor as Assignor
from penstock.groups.assignor import Racks as Racks
from penstock.groups.assignor import Shares as Shares
from penstock.groups.assignor import Subscriber as Subscriber

__all__ = ["Assignor", "Racks", "Shares", "Subscriber"]
