"""Where a member of a group stands with what it reads: a table.

Nobody hands out queues in RocketMQ: members work out by themselves what each of them reads, from who is there and from
which queues there are. ABSENT a member has told nobody of itself. UNSURE it may be reading what it should not, or not
reading what it should: it must look at who is there. SURE it has looked, and nothing has come since that says
otherwise.

Rule 1: only a look that saw everything (members and queues of every topic) leads from UNSURE to SURE; whoever could not
see goes on with what it has. Rule 2: notices get lost, so that SURE never lasts longer than ``rebalance_ms``.
"""

from __future__ import annotations

import enum
from typing import Final

from penstock.groups.tables import Table

__all__ = ["TABLE", "Event", "State"]


class State(enum.Enum):
    """What this member knows of its share."""

    ABSENT = "absent"
    UNSURE = "unsure"
    SURE = "sure"


class Event(enum.Enum):
    """What can happen to a member."""

    JOINS = "it subscribes, and tells brokers that it is there"
    NOTICE = "a broker says that members came or went"
    DUE = "it has not looked for rebalance_ms, or topics changed"
    SEEN = "it saw all members and queues, and took its share"
    BLIND = "members or queues of some topic could not be seen"
    LEAVES = "it tells brokers that it goes"


TABLE: Final = Table(
    "a member of a RocketMQ group",
    {
        State.ABSENT: {
            Event.JOINS: State.UNSURE,
            Event.NOTICE: State.ABSENT,
            Event.LEAVES: State.ABSENT,
        },
        State.UNSURE: {
            Event.JOINS: State.UNSURE,
            Event.NOTICE: State.UNSURE,
            Event.DUE: State.UNSURE,
            Event.SEEN: State.SURE,
            Event.BLIND: State.UNSURE,
            Event.LEAVES: State.ABSENT,
        },
        State.SURE: {
            Event.JOINS: State.UNSURE,
            Event.NOTICE: State.UNSURE,
            Event.DUE: State.UNSURE,
            Event.LEAVES: State.ABSENT,
        },
    },
)
