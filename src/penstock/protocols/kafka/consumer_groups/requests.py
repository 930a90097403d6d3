"""What the coordinator of newer groups is asked and what it answers, as plain data; the front translates messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError
from penstock.protocols.kafka.error_codes import ErrorCode

__all__ = ["AWAY", "JOIN", "LEAVE", "Beat", "BeatAnswer", "BeatRefused", "Place", "Topic", "Wanted"]

JOIN: Final = 0
LEAVE: Final = -1
AWAY: Final = -2
"""Member epochs that say what a heartbeat is for: a member comes, goes, or goes for a while (static members only)."""

Place: TypeAlias = tuple[bytes, int]
"""A partition: its topic's id, its number."""


class Topic(NamedTuple):
    """A topic as groups see it: its id, its number of partitions."""

    id: bytes
    partitions: int


class Wanted(NamedTuple):
    """Topics that the coordinator has to be told of: those of these names, or every one."""

    names: frozenset[str]
    every: bool

    def covers(self, other: Wanted) -> bool:
        """Whoever was told of these was told of the others, too."""
        return self.every or (not other.every and other.names <= self.names)


class BeatRefused(PenstockError):
    """A heartbeat that cannot be served: the code, and what its sender should know."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """ConsumerGroupHeartbeat. None (-1 for ``rebalance_timeout_ms``) says that nothing has changed since the last one.

    ``pattern``: a regular expression of topic names, "" for none. ``needs_member_id``: its sender chose its id (v1).
    """

    group: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    names: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[Place] | None = None
    client_id: str = ""
    client_host: str = ""
    needs_member_id: bool = True

    @property
    def subscribes(self) -> bool:
        """It says what it wants to read."""
        return self.names is not None or self.pattern is not None

    @property
    def full(self) -> bool:
        """It says everything, as members do that do not know what was heard of them: it is answered with everything."""
        return self.epoch == JOIN or (self.rebalance_timeout_ms != -1 and self.subscribes and self.owned is not None)


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """``assigned`` is None where it is as the member knows it."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Collection[Place] | None = None
