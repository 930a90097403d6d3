"""Records of numbers in a topic, and where the log says that it has put them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.client import Producer, RangeReader
from penstock.model import Partition
from tests.conformance.conftest import Log


@dataclass(frozen=True)
class Filled:
    """``offsets`` are those of the records, in the order of sending; ``end`` is where each partition ends."""

    topic: str
    partitions: list[Partition]
    offsets: list[int]
    end: dict[Partition, int]


def fill(log: Log, topic: str, first: int, end: int, partition: Partition | None = None) -> Filled:
    """Numbers ``[first, end)``, dealt out to the topic's partitions in turn, or all to one; a second apart in time."""
    partitions = log.partitions(topic)
    places = list(range(len(partitions))) if partition is None else [partitions.index(partition)]
    with Producer(log.writing) as producer:
        sent = [
            producer.send(topic, b"%d" % number, partition=places[number % len(places)], timestamp_ms=1_000 * number)
            for number in range(first, end)
        ]
        offsets = [each.result(20).offset for each in sent]
    with RangeReader(log.address) as reader:
        return Filled(topic, partitions, offsets, dict(reader.end_offsets(partitions)))
