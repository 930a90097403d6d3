"""What an operator may choose about the coordinator, named and set as Kafka's broker options ``group.*``."""

from __future__ import annotations

from penstock._dataclasses import dataclass

__all__ = ["GroupSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Defaults are Kafka's, but for two.

    ``initial_rebalance_delay_ms`` 0 (Kafka 3000): a single node is mostly used where consumers start one by one and
    somebody waits for the first record. ``max_size`` 10 000 members (Kafka: no limit), so that one group's memory is
    bounded. ``new_member_timeout_ms``: a joining member cannot send heartbeats, so its first round has five minutes.
    """

    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 10_000
    new_member_timeout_ms: int = 300_000
