"""What all logs of a store share. What must not live here: what belongs to one log (`LogState`)."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass
from penstock.store._open_segments import OpenSegments
from penstock.store.config import StoreConfig

if TYPE_CHECKING:
    from penstock.store.log import PartitionLog

__all__ = ["LogContext"]


@dataclass(slots=True)
class LogContext:
    """``epoch`` is the leader epoch of all logs; ``dirty`` holds the logs with unsynced bytes."""

    config: StoreConfig
    epoch: int
    pool: OpenSegments
    dirty: set[PartitionLog] = field(default_factory=set)
