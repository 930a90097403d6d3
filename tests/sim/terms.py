"""Terms: how kinds of groups are told apart, by protocol: options of members and nodes, and what it promises.

What must not live here: what goes wrong.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["SESSION_MS", "TERMS", "Speaks", "Terms"]

SESSION_MS = 6_000
_LONGEST_POLL_MS = 14_000


class Speaks(enum.Enum):
    """Which of Kafka's protocols of groups members speak."""

    OLDER = "the classic one"
    NEWER = "KIP-848"
    EITHER = "one or the other, so that groups go over with members at work"


@dataclass(frozen=True, slots=True)
class Terms:
    """``scheme``: what the node speaks, where the kind has another name. ``generations``: members are fenced by them.
    By ``unit`` the offsets of two records differ for clients, by ``partitions`` the numbers of two partitions they
    read; in the node it is 1. ``by_record``: a commit says how far it goes; else it confirms batches, once they are
    through.
    """

    scheme: str = ""
    speaks: Speaks = Speaks.OLDER
    generations: bool = False
    unit: int = 1
    partitions: int = 1
    by_record: bool = True
    member: Mapping[str, int] = field(default_factory=dict)
    node: Mapping[str, int] = field(default_factory=dict)


_HEARTBEATS = {
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": 2_000,
    "max_poll_interval_ms": _LONGEST_POLL_MS,
}

_KAFKA = Terms(generations=True, member={**_HEARTBEATS, "request_timeout_ms": 4_000, "fetch_max_wait_ms": 2_000})
_NEWER_NODE = {"group_consumer_session_timeout_ms": SESSION_MS, "group_consumer_heartbeat_interval_ms": 2_000}

TERMS = {
    "kafka": _KAFKA,
    "kafka-newer": replace(_KAFKA, scheme="kafka", speaks=Speaks.NEWER, node=_NEWER_NODE),
    "kafka-mixed": replace(_KAFKA, scheme="kafka", speaks=Speaks.EITHER, node=_NEWER_NODE),
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
        node={"rocketmq_timeout_ms": SESSION_MS},
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
