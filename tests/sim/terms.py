"""Terms: how each protocol's groups are told apart: options of members and nodes, and what it promises.

What must not live here: what goes wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["TERMS", "Terms"]

_SESSION_MS = 6_000
_LONGEST_POLL_MS = 14_000


@dataclass(frozen=True, slots=True)
class Terms:
    """``generations``: members are fenced by them. By ``unit`` the offsets of two records differ for clients, by
    ``partitions`` the numbers of two partitions they read; in the node it is 1. ``by_record``: a commit says how far
    it goes; else it confirms batches, once they are through.
    """

    generations: bool = False
    unit: int = 1
    partitions: int = 1
    by_record: bool = True
    member: Mapping[str, int] = field(default_factory=dict)
    node: Mapping[str, int] = field(default_factory=dict)


_HEARTBEATS = {
    "session_timeout_ms": _SESSION_MS,
    "heartbeat_interval_ms": 2_000,
    "max_poll_interval_ms": _LONGEST_POLL_MS,
}

TERMS = {
    "kafka": Terms(generations=True, member={**_HEARTBEATS, "request_timeout_ms": 4_000, "fetch_max_wait_ms": 2_000}),
    "rocketmq": Terms(
        member={
            "request_timeout_ms": 4_000,
            "fetch_max_wait_ms": 2_000,
            "heartbeat_broker_ms": 2_000,
            "rebalance_ms": 2_000,
            "suspend_ms": 2_000,
            "pulls_ahead": 2,
            "max_poll_interval_ms": _LONGEST_POLL_MS,
        },
        node={"rocketmq_timeout_ms": _SESSION_MS},
    ),
    "tubemq": Terms(
        unit=28,
        partitions=10_000,
        by_record=False,
        member={
            "rpc_timeout_ms": 4_000,
            "heartbeat_interval_ms": 2_000,
            "max_poll_interval_ms": _LONGEST_POLL_MS,
        },
    ),
}
