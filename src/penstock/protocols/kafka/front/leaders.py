"""Leader epochs as clients check them: theirs against the log's (KIP-320)."""

from __future__ import annotations

from penstock.model import Partition
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.faults import Refused
from penstock.seams.node import Enode

__all__ = ["check_leader_epoch"]


def check_leader_epoch(enode: Enode, partition: Partition, claimed: int) -> int:
    """The log's epoch; ``claimed`` is the client's, -1 if it has none. Raises Refused, and UnknownTopic and its kin."""
    epoch = enode.leader_epoch(partition)
    if 0 <= claimed < epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {claimed} is over, the log is in {epoch}")
    if claimed > epoch:
        raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {claimed} has not begun, the log is in {epoch}")
    return epoch
