"""SIGKILL under load: nothing acknowledged is lost or moved, order is kept, nothing is there twice."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from penstock.client import Admin, Producer, RangeReader
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.testing import NodeProcess

PARTITIONS = 3
RECORDS = 3_000


@pytest.mark.parametrize("seed", range(20))
def test_nothing_acknowledged_is_lost_and_order_is_kept(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with NodeProcess(tmp_path / "store") as node:
        with Admin(node.address) as admin:
            admin.create_topics([NewTopic("t", PARTITIONS)])
        acknowledged = _produce_while_killing(node, dice)
        stored = _read_all(node)

    for number, offset in acknowledged.items():
        assert stored[number % PARTITIONS][offset] == number
    for partition, numbers in stored.items():
        assert numbers == sorted(set(numbers)), f"partition {partition} is out of order or has duplicates"
    assert len(acknowledged) == RECORDS
    assert sum(map(len, stored.values())) == RECORDS


def _produce_while_killing(node: NodeProcess, dice: random.Random) -> dict[int, int]:
    """Send numbers 0.. to partition number % PARTITIONS; kill and restart twice meanwhile. Number to offset."""
    progress = threading.Semaphore(0)
    kills = sorted(dice.sample(range(50, RECORDS - 50), 2))

    def killer() -> None:
        done = 0
        for at in kills:
            for _ in range(at - done):
                progress.acquire()
            done = at
            node.kill()
            node.start()

    thread = threading.Thread(target=killer)
    thread.start()
    with Producer(node.address, linger_ms=dice.choice((0, 1, 5)), delivery_timeout_ms=60_000) as producer:
        sent = []
        for number in range(RECORDS):
            sent.append(producer.send("t", value=b"%d" % number, partition=number % PARTITIONS))
            progress.release()
            if number % 200 == 0:
                producer.flush()
        offsets = {number: each.result(60).offset for number, each in enumerate(sent)}
    thread.join()
    return offsets


def _read_all(node: NodeProcess) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    with RangeReader(node.address) as reader:
        partitions = [Partition("t", number) for number in range(PARTITIONS)]
        ends = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.LATEST)))
        for partition in partitions:
            span = LogRange("t", partition.id, 0, ends[partition].offset)
            found[partition.id] = [int(each.value or b"-1") for batch in reader.read(span) for each in batch]
    return found
