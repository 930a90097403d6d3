"""Terms: how kinds of groups are told apart, by protocol: options of members and nodes, and what it promises.

What must not live here: what goes wrong.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tests.sim.shapes import Shape

__all__ = ["TERMS", "Speaks", "Terms"]


Options: TypeAlias = Mapping[str, int | str]
"""A number, or which one of the shape of the world."""


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
    member: Options = field(default_factory=dict)
    node: Options = field(default_factory=dict)

    def member_options(self, shape: Shape) -> dict[str, Any]:
        """How long what takes for a member in a world of that shape."""
        return _given(self.member, shape)

    def node_options(self, shape: Shape) -> dict[str, Any]:
        """The same for the node."""
        return _given(self.node, shape)


def _given(options: Options, shape: Shape) -> dict[str, Any]:
    return {name: getattr(shape, given) if isinstance(given, str) else given for name, given in options.items()}


_KAFKA = Terms(
    generations=True,
    member={
        "session_timeout_ms": "session_ms",
        "heartbeat_interval_ms": "heartbeat_ms",
        "max_poll_interval_ms": "longest_poll_ms",
        "request_timeout_ms": "request_ms",
        "fetch_max_wait_ms": "wait_ms",
    },
    node={"group_min_session_timeout_ms": "session_ms"},
)
_NEWER_NODE: Options = {
    **_KAFKA.node,
    "group_consumer_session_timeout_ms": "session_ms",
    "group_consumer_heartbeat_interval_ms": "heartbeat_ms",
}

TERMS = {
    "kafka": _KAFKA,
    "kafka-newer": replace(_KAFKA, scheme="kafka", speaks=Speaks.NEWER, node=_NEWER_NODE),
    "kafka-mixed": replace(_KAFKA, scheme="kafka", speaks=Speaks.EITHER, node=_NEWER_NODE),
    "rocketmq": Terms(
        member={
            "request_timeout_ms": 4_000,
            "fetch_max_wait_ms": 3_500,
            "heartbeat_broker_ms": "heartbeat_ms",
            "rebalance_ms": "rebalance_ms",
            "suspend_ms": 3_500,
            "pulls_ahead": 2,
            "max_poll_interval_ms": "longest_poll_ms",
        },
        node={"rocketmq_timeout_ms": "session_ms"},
    ),
    "tubemq": Terms(
        unit=28,
        partitions=10_000,
        by_record=False,
        member={
            "rpc_timeout_ms": 3_000,
            "heartbeat_interval_ms": "heartbeat_ms",
            "max_poll_interval_ms": "longest_poll_ms",
        },
        node={"tubemq_timeout_ms": "session_ms"},
    ),
}
