"""Who holds rules: a client has its group's and the cluster's, and the group's come first."""

from __future__ import annotations

from typing import Final

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.flow_control.rules import MIB, NOTHING, DataLimit, Intervals, Rules, parse_rules

__all__ = ["UNDEFINED", "UNLIMITED", "FlowControl", "Holder"]

UNDEFINED: Final = -2
"""Id of rules nobody has sent, and priority of queries nobody has set."""

UNLIMITED: Final = DataLimit((1 << 63) - 1, 0)

_ESCAPE_MS: Final = 10_000


@dataclass(slots=True)
class Holder:
    """Rules, and the id under which a master sent them."""

    flow_id: int = UNDEFINED
    rules: Rules = NOTHING

    def update(self, flow_id: int, text: str) -> bool:
        """Take what a master sent; True if it was new. Raises ProtocolViolation, and then keeps what it had."""
        if flow_id < 0 or flow_id == self.flow_id:
            return False
        self.rules = parse_rules(text)
        self.flow_id = flow_id
        return True


class FlowControl:
    """A client's rules. ``lag_unit`` is how many bytes a rule's unit of lag stands for, see `Rules.data_limit`;
    ``priority`` is the group's priority of queries, as the master said last."""

    __slots__ = ("_escapes", "_escapes_until", "_lag_unit", "group", "priority", "shared")

    def __init__(self, *, lag_unit: int = MIB) -> None:
        self.group = Holder()
        self.shared = Holder()
        self.priority = UNDEFINED
        self._lag_unit = lag_unit
        self._escapes = False
        self._escapes_until = 0

    def update_group(self, flow_id: int, text: str) -> bool:
        """Take the group's rules. Raises ProtocolViolation."""
        return self.group.update(flow_id, text)

    def update_shared(self, flow_id: int, text: str) -> bool:
        """Take the cluster's rules. Raises ProtocolViolation."""
        return self.shared.update(flow_id, text)

    def data_limit(self, lag: int, now_ms: int) -> DataLimit:
        """Return the limit for who is ``lag`` bytes behind: the group's, else the cluster's, else none."""
        for holder in (self.group, self.shared):
            limit = holder.rules.data_limit(lag, now_ms, lag_unit=self._lag_unit)
            if limit is not None:
                return limit
        return UNLIMITED

    def intervals(self) -> Intervals:
        """Return the spacing of requests: the group's where it has one."""
        own = self.group.rules.intervals
        return own if own.filtered_ms >= 0 else self.shared.rules.intervals

    def after_empty(self, polls: int, recommended_ms: int) -> int:
        """Return how long to wait after ``polls`` without data; rules of the group replace all of the cluster's."""
        holder = self.group if self.group.rules.empty else self.shared
        return holder.rules.after_empty(polls, recommended_ms)

    def escapes(self, now_ms: int, wall_ms: int) -> bool:
        """Whether requests ask the broker not to apply its own limit, because the group has one now.

        Looked up every ten seconds of ``now_ms``, a clock that never goes back. (``escFlowCtrl`` of GET_MESSAGE.)
        """
        if now_ms >= self._escapes_until:
            everything = UNLIMITED.bytes_a_minute
            found = self.group.rules.data_limit(everything, wall_ms, lag_unit=1)
            self._escapes = found is not None
            self._escapes_until = now_ms + _ESCAPE_MS
        return self._escapes
