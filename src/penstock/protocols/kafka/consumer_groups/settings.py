"""What an operator may choose about groups of the newer protocol, named as Kafka's options ``group.consumer.*``."""

from __future__ import annotations

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.migration import MigrationPolicy

__all__ = ["ConsumerGroupSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Defaults are Kafka's, but for ``max_size`` (see `GroupSettings`).

    ``assignment_interval_ms``: how long a group of ``large_from`` members and more waits from one sharing out to the
    next, as all groups of a real broker do: each costs tens of milliseconds there, and a thousand members who join
    would cause a thousand of them. Smaller groups do not wait, so that a second member has its share at once.
    ``refresh_ms``: how long a group may go on without looking whether its topics have changed; a real broker is told.
    ``min_…`` and ``max_…`` bound what may be said for single groups.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 10_000
    assignment_interval_ms: int = 1_000
    large_from: int = 30
    refresh_ms: int = 1_000
    min_session_timeout_ms: int = 45_000
    max_session_timeout_ms: int = 60_000
    min_heartbeat_interval_ms: int = 5_000
    max_heartbeat_interval_ms: int = 15_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
