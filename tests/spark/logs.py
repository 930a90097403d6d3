"""A topic on a node, with the few things that tests do to it besides reading it through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic
from penstock.model import Partition

START_MS = 1_700_000_000_000
PATIENT = {"first_contact_timeout_ms": 60_000}
"""For tests' own clients: a server that was killed may be starting again, on a machine that is busy."""


@dataclass(frozen=True)
class TestTopic:
    """Topic ``name`` of the node ``node``; record n of partition p has key "p-n" and time START_MS + n."""

    __test__ = False

    node: str
    name: str

    @property
    def address(self) -> str:
        return f"{self.node}/{self.name}"

    def create(self, partitions: int) -> None:
        with Admin(self.node, **PATIENT) as admin:
            admin.create_topics([NewTopic(self.name, partitions)])

    def grow(self, partitions: int) -> None:
        with Admin(self.node, **PATIENT) as admin:
            admin.add_partitions(self.name, partitions)

    def delete(self) -> None:
        with Admin(self.node, **PATIENT) as admin:
            admin.delete_topics([self.name])

    def ends(self) -> dict[int, int]:
        with Admin(self.node, **PATIENT) as admin:
            partitions = [info.partition for info in admin.topics([self.name])[self.name].partitions]
            return {partition.id: end for partition, end in admin.end_offsets(partitions).items()}

    def fill(self, counts: Mapping[int, int], *, value_bytes: int = 20) -> None:
        """Add records: ``counts[partition]`` of them."""
        ends = self.ends()
        with Producer(self.node, **PATIENT) as producer:
            sent = [
                producer.send_batch(self.name, _rows(partition, ends[partition], count, value_bytes))
                for partition, count in counts.items()
                if count
            ]
            for each in sent:
                each.result()

    def delete_before(self, offsets: Mapping[int, int]) -> None:
        with Admin(self.node, **PATIENT) as admin:
            admin.delete_records({Partition(self.name, number): offset for number, offset in offsets.items()})

    def committed(self, group: str) -> dict[int, int]:
        with Admin(self.node, **PATIENT) as admin:
            found = admin.committed(group, None)
        return {partition.id: each.offset for partition, each in found.items() if partition.topic == self.name}


def _rows(partition: int, first: int, count: int, value_bytes: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "key": pa.array([f"{partition}-{number}".encode() for number in numbers], pa.binary()),
            "value": pa.array([f"{number}".encode().ljust(value_bytes, b".") for number in numbers], pa.binary()),
            "timestamp": pa.array([START_MS + number for number in numbers], pa.timestamp("ms", "UTC")),
            "partition": pa.array([partition] * count, pa.int32()),
        }
    )
