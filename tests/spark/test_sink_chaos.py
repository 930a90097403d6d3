"""JVM and server are killed at one step of a batch after the other: what went in comes out, once where promised.

PENSTOCK_CHAOS_SEEDS says how many runs of each kind there are; by default one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from penstock.client import Admin, RangeReader
from penstock.interfaces import NewTopic
from penstock.model import LogRange
from penstock.spark import Deduplicator
from tests.eventually import comes_to
from tests.spark.chaotic import ON_NODE, STEPS
from tests.spark.killable import restarted, server
from tests.spark.logs import PATIENT, TestTopic
from tests.spark.programs import run_program
from tests.spark.wires import NODE
from tools.peers import kafka

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEDS = range(int(os.environ.get("PENSTOCK_CHAOS_SEEDS", "1")))
PARTITIONS, ROWS, ROWS_A_BATCH = 4, 1_200, 200
KILLS = 2


class Copy:
    """A query that copies one topic to another, and dies where it is told to."""

    def __init__(self, node: str, folder: Path, dice: random.Random, sink: dict[str, str], tasks: range) -> None:
        self.origin = TestTopic(node, f"in-{dice.getrandbits(32):08x}")
        self.target = TestTopic(node, f"out-{dice.getrandbits(32):08x}")
        self.folder, self.dice, self.sink, self.tasks = folder, dice, sink, tasks
        self.wires = folder / "wires"
        self.wires.mkdir()
        with Admin(node, **PATIENT) as admin:
            admin.create_topics([NewTopic(self.origin.name, PARTITIONS, 1), NewTopic(self.target.name, PARTITIONS, 1)])
        self.origin.fill(dict.fromkeys(range(PARTITIONS), ROWS // PARTITIONS))

    def run(self) -> int:
        """One run, cut into one of the numbers of tasks; returns how the program ended."""
        given = {
            "from": self.origin.address,
            "to": self.target.address,
            "wires": str(self.wires),
            "checkpoint": str(self.folder / "checkpoint"),
            "warehouse": str(self.folder / "warehouse"),
            "source": {
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(ROWS_A_BATCH),
                "minPartitions": str(self.dice.choice(self.tasks)),
            },
            "sink": self.sink,
        }
        return run_program("tests.spark.chaotic", given, self.folder / "output.txt")

    def kill_and_restart(self, wires: list[str]) -> None:
        """Run until each wire was tripped or everything is copied, then to the end."""
        killed = 0
        for wire in wires:
            (self.wires / wire).touch()
            if self.run() == 0:
                break
            assert not (self.wires / wire).exists(), (self.folder / "output.txt").read_text()[-3_000:]
            killed += 1
        assert killed
        for left in self.wires.iterdir():
            if left.name != NODE:
                left.unlink()
        assert self.run() == 0, (self.folder / "output.txt").read_text()[-3_000:]

    def keys_in(self) -> Counter[bytes]:
        return Counter(
            b"%d-%d" % (partition, number) for partition in range(PARTITIONS) for number in range(ROWS // PARTITIONS)
        )

    def keys_committed(self) -> Counter[bytes]:
        """What readers of committed records see."""
        return self.keys_out(isolation_level="read_committed", deduplicate=False)

    def keys_out(self, *, isolation_level: str, deduplicate: bool) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        with RangeReader(self.target.node, isolation_level=isolation_level, **PATIENT) as reader:
            partitions = [each.partition for each in reader.topics([self.target.name])[self.target.name].partitions]
            for partition, end in sorted(reader.end_offsets(partitions).items()):
                known = Deduplicator()  # rows with a key come back in their own partition
                for messages in reader.read(LogRange(partition.topic, partition.id, 0, end)):
                    rows = messages.to_arrow(("key", "value", "headers"))
                    rows = known.first_seen(rows) if deduplicate else rows
                    found.update(rows.column("key").to_pylist())
        return found


def moments(dice: random.Random, steps: tuple[str, ...]) -> list[str]:
    """Where to kill: the first batch once, each other kind of step as chance has it."""
    batches = ROWS // ROWS_A_BATCH
    wires = [f"{dice.choice([step for step in steps if step != 'planned'])}-0"]
    wires += [f"{dice.choice(steps)}-{dice.randrange(batches)}" for _ in range(KILLS - 1)]
    return wires


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_readers_can_leave_out_what_is_repeated(node: str, tmp_path: Path, seed: int) -> None:
    dice = random.Random(f"at least once {seed}")
    copy = Copy(node, tmp_path, dice, {"dedupHeaders": "true"}, range(2, 3))
    copy.kill_and_restart(moments(dice, ("planned", "task", "stored")))
    written = copy.keys_out(isolation_level="read_uncommitted", deduplicate=False)
    assert written.keys() == copy.keys_in().keys()
    assert copy.keys_out(isolation_level="read_uncommitted", deduplicate=True) == copy.keys_in()


@pytest.fixture(params=["node", pytest.param(kafka.NEWEST, marks=pytest.mark.interop)])
def transactional(request: pytest.FixtureRequest) -> str:
    """The address of a log with transactions."""
    if request.param == "node":
        address: str = request.getfixturevalue("node")
        return address
    return f"kafka://{request.getfixturevalue('kafka_broker')(request.param).bootstrap}"


@pytest.mark.parametrize("seed", SEEDS)
def test_each_row_is_stored_exactly_once(transactional: str, tmp_path: Path, seed: int) -> None:
    dice = random.Random(f"exactly once {seed}")
    copy = Copy(transactional, tmp_path, dice, {"deliveryGuarantee": "exactly-once"}, range(1, 6))
    copy.kill_and_restart(moments(dice, STEPS))
    comes_to(copy.keys_committed, copy.keys_in())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["ours", pytest.param("kafka", marks=pytest.mark.interop)])
def test_each_row_is_stored_exactly_once_though_the_server_dies(tmp_path: Path, kind: str, seed: int) -> None:
    """In each run the server is killed at two steps and started again; the JVM is killed at one more."""
    dice = random.Random(f"server {seed}")
    folder = tmp_path / "query"
    folder.mkdir()
    with server(kind, tmp_path / "store") as node:
        copy = Copy(node.address, folder, dice, {"deliveryGuarantee": "exactly-once"}, range(1, 6))
        with restarted(node, copy.wires) as killed:
            for step in dice.sample(STEPS, k=2):
                (copy.wires / f"{ON_NODE}{step}-{dice.choice([0, 1])}").touch()
            copy.kill_and_restart([f"{dice.choice(STEPS)}-{dice.choice([1, 2])}"])
            assert killed
            comes_to(copy.keys_committed, copy.keys_in())
