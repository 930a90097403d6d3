"""What a node is told of its Kafka front."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config.fields import check, number

__all__ = ["KafkaNodeConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaNodeConfig:
    """``initial_rebalance_delay_ms`` 0: a group's first member does not wait for others (three seconds at Kafka's)."""

    initial_rebalance_delay_ms: int = number(0, low=0, about="how long a new group's first member waits for others")

    def __post_init__(self) -> None:
        check(self)
