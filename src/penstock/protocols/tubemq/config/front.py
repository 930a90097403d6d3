"""What a node is told of its TubeMQ front."""

from __future__ import annotations

from penstock._dataclasses import dataclass
from penstock.config.fields import check, number, secret

__all__ = ["TubeNodeConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TubeNodeConfig:
    """``balance_period_ms``: how often a group's partitions are looked at for moving; TubeMQ's own minute is what
    people wait for their first message. ``tubemq_timeout_ms``: without a heartbeat for so long a client is out,
    TubeMQ's default; its clients beat every 13 seconds. ``admin_token``: what administration is to be told
    (``confModAuthToken``) before it changes anything; without one it asks for none, as nothing else of a node does.
    """

    balance_period_ms: int = number(
        1_000, low=50, about="how often a TubeMQ group's partitions are looked at for moving"
    )
    tubemq_timeout_ms: int = number(30_000, low=1_000, about="without a heartbeat for so long a TubeMQ client is out")
    tubemq_max_clients: int = number(
        10_000, low=20, about="TubeMQ consumers that are registered, and as many producers; more are refused"
    )
    tubemq_max_bookings: int = number(
        100_000, low=20, about="partitions that groups of TubeMQ have booked; more are refused"
    )
    admin_token: str | None = secret(about="what TubeMQ's administration is to be told before it changes anything")

    def __post_init__(self) -> None:
        check(self)
