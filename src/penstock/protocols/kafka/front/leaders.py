"""Leader epochs as clients check them: theirs against the log's (KIP-320)."""

from __future__ import annotations

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.faults import Refused

__all__ = ["check_leader_epoch"]


def check_leader_epoch(epoch: int, claimed: int) -> None:
    """``epoch`` is the log's, ``claimed`` the client's, -1 if it has none. Raises Refused."""
    if 0 <= claimed < epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {claimed} is over, the log is in {epoch}")
    if claimed > epoch:
        raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {claimed} has not begun, the log is in {epoch}")
