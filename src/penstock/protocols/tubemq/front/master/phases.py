"""Which partitions a group may be given now: the table of a bound group's beginning.

Most groups are OPEN for ever: each balance run may move partitions. A bound group whose members ask for start offsets
begins GATHERING: it gets nothing before as many members are there as they said. Then it is PLACING: only the partitions
that somebody asked for are given out, each to the member that asked, so that the offsets are known where reading
begins. Once a member acknowledged that, or after two runs of it, the group is OPEN.

Source: TubeMQ master, bound ("band") consumption.
"""

from __future__ import annotations

import enum
from typing import Final

from penstock.groups.state_machine import Table

__all__ = ["PLACING_RUNS", "TABLE", "Phase", "Turn"]

PLACING_RUNS: Final = 2


class Phase(enum.Enum):
    """What may be given out."""

    OPEN = "open"
    GATHERING = "gathering"
    PLACING = "placing"


class Turn(enum.Enum):
    """What changes that: somebody asks for offsets, all are there, one left, one acknowledged, two runs are over."""

    ASKED = "asked"
    COMPLETE = "complete"
    SHORT = "short"
    ACKNOWLEDGED = "acknowledged"
    SPENT = "spent"


TABLE: Final = Table(
    "a group",
    {
        Phase.OPEN: {
            Turn.ASKED: Phase.GATHERING,  # only of a group that was never allocated anything
            Turn.COMPLETE: Phase.OPEN,
            Turn.SHORT: Phase.OPEN,
            Turn.ACKNOWLEDGED: Phase.OPEN,
            Turn.SPENT: Phase.OPEN,
        },
        Phase.GATHERING: {
            Turn.ASKED: Phase.GATHERING,
            Turn.COMPLETE: Phase.PLACING,
            Turn.SHORT: Phase.GATHERING,
            Turn.ACKNOWLEDGED: Phase.GATHERING,
            Turn.SPENT: Phase.GATHERING,
        },
        Phase.PLACING: {
            Turn.ASKED: Phase.PLACING,
            Turn.COMPLETE: Phase.PLACING,
            Turn.SHORT: Phase.GATHERING,
            Turn.ACKNOWLEDGED: Phase.OPEN,
            Turn.SPENT: Phase.OPEN,
        },
    },
)
