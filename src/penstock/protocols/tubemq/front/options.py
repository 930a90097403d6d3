"""What an operator may choose about the TubeMQ front. Data only."""

from __future__ import annotations

from penstock._dataclasses import dataclass

__all__ = ["TubeFrontOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TubeFrontOptions:
    """Defaults are TubeMQ's where it has them and nobody waits for them.

    ``balance_period_ms``: how often the master looks whether partitions should move; TubeMQ's own minute is what people
    wait for their first message. ``consumer_timeout_ms``, ``producer_timeout_ms``, ``partition_timeout_ms``:
    without a heartbeat for so long a client, or its booking of a partition, is given up; not below two beats of a
    client, which come every 13 s by default. ``event_timeout_ms``: what a consumer was told to do and does not
    acknowledge is given up after it.

    ``max_clients`` registered at once (consumers, and as many producers), and ``max_bookings`` of partitions by groups;
    one connection may have a twentieth of each, and one address ``address_share_percent``. ``transfer_bytes`` and
    ``transfer_records``: about the most that one answer to a reader carries; the message that crosses the first is
    still in it. ``max_message_bytes``: payload of a message, without the 10 KiB that attributes may add.
    ``pending_bytes``: messages being written at once; above it producers are told to slow down.

    ``admin_token``: what modifying calls of the HTTP interface must bring (``confModAuthToken``); empty: nothing.
    """

    balance_period_ms: int = 1_000
    consumer_timeout_ms: int = 30_000
    producer_timeout_ms: int = 30_000
    partition_timeout_ms: int = 30_000
    event_timeout_ms: int = 60_000
    max_clients: int = 10_000
    max_bookings: int = 100_000
    address_share_percent: int = 50
    transfer_bytes: int = 512 << 10
    transfer_records: int = 6_000
    max_message_bytes: int = 1 << 20
    pending_bytes: int = 32 << 20
    max_partitions: int = 10_000
    admin_token: str = ""
