"""What a channel's connections have carried, all together: added up when somebody looks."""

from __future__ import annotations

from penstock._dataclasses import dataclass

__all__ = ["Carried"]


@dataclass(slots=True)
class Carried:
    """``connections`` are open now and have ``under_way`` requests; the rest has been counted since the beginning."""

    connections: int = 0
    under_way: int = 0
    opened: int = 0
    failed: int = 0
    received: int = 0
    sent: int = 0
