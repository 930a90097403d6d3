"""What Kafka's verifiable consumers and producers printed, as sets and places. What must not live here: waiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tools.peers.java_driver import Driver

Place = tuple[int, int]
"""A partition's number and an offset."""


def acknowledged(producer: Driver) -> dict[Place, str]:
    """Values that were stored, by where they are."""
    told = producer.events("producer_send_success")
    return {(line["partition"], line["offset"]): line["value"] for line in told}


def read(*consumers: Driver) -> dict[Place, str]:
    """Values that were read by any of them."""
    told = [line for each in consumers for line in each.events("record_data")]
    return {(line["partition"], line["offset"]): line["value"] for line in told}


def read_from(consumer: Driver, partition: int) -> list[int]:
    """Offsets in the order in which one of them read them."""
    return [line["offset"] for line in consumer.events("record_data") if line["partition"] == partition]


def committed(consumer: Driver) -> dict[int, int]:
    """Per partition the last offset that it says is committed."""
    said = (line for line in consumer.events("offsets_committed") if line["success"])
    return {place["partition"]: place["offset"] for line in said for place in line["offsets"]}


def holding(consumer: Driver) -> frozenset[int]:
    """Partitions that are its own now."""
    held: frozenset[int] = frozenset()
    for line in consumer.events("partitions_assigned", "partitions_revoked"):
        told = _numbers(line["partitions"])
        held = held | told if line["event"] == "partitions_assigned" else held - told
    return held


def _numbers(partitions: Iterable[dict[str, Any]]) -> frozenset[int]:
    return frozenset(int(each["partition"]) for each in partitions)
