"""JVM and node are killed at moments that chance chooses, partitions come, records go: every row once, losses exact.

The node is ours, or (marked interop) a broker of Apache Kafka. PENSTOCK_CHAOS_SEEDS says how many runs of each there
are; by default one.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.chaotic_source import KILLS_JVM, KILLS_NODE, LOSES, LOST
from tests.spark.killable import restarted, server
from tests.spark.logs import TestTopic
from tests.spark.programs import run_program
from tests.spark.wires import NODE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEDS = range(int(os.environ.get("PENSTOCK_CHAOS_SEEDS", "1")))
GROUP = "chaos"


class Query:
    """A stream into Parquet files, run again and again with the same checkpoint."""

    def __init__(self, topic: TestTopic, folder: Path, options: dict[str, str]) -> None:
        self.topic, self.folder, self.options = topic, folder, options
        self.wires = folder / "wires"
        self.wires.mkdir()
        self.output = folder / "output.txt"

    def run(self) -> list[tuple[int, int]] | None:
        """(partition, offset) of every row so far; None if the run was killed."""
        given = {
            "from": self.topic.address,
            "to": str(self.folder / "rows"),
            "checkpoint": str(self.folder / "checkpoint"),
            "warehouse": str(self.folder / "warehouse"),
            "wires": str(self.wires),
            "options": self.options,
        }
        begun = self.output.stat().st_size if self.output.exists() else 0
        code = run_program("tests.spark.chaotic_source", given, self.output)
        if code:
            return None
        (line,) = [each for each in self.output.read_text()[begun:].splitlines() if each.startswith("@")]
        return [(partition, offset) for partition, offset in json.loads(line[1:])]

    def said(self) -> str:
        return self.output.read_text()[-4_000:]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["ours", pytest.param("kafka", marks=pytest.mark.interop)])
def test_every_row_once_whatever_dies(tmp_path: Path, kind: str, seed: int) -> None:
    dice = random.Random(seed)
    folder = tmp_path / "query"
    folder.mkdir()
    with server(kind, tmp_path / "store") as node:
        topic = TestTopic(node.address, "t")
        partitions = dice.randint(1, 3)
        topic.create(partitions)
        topic.fill({number: dice.randint(0, 400) for number in range(partitions)})
        from_end = dice.random() < 0.3
        query = Query(
            topic,
            folder,
            {
                "startingOffsets": "latest" if from_end else "earliest",
                "maxOffsetsPerTrigger": str(dice.randint(50, 300)),
                "minPartitions": str(dice.randint(1, 4)),
                "failOnDataLoss": "warn",
                "group": GROUP,
                "commitOffsets": "true",
            },
        )
        before = topic.ends() if from_end else dict.fromkeys(topic.ends(), 0)
        with restarted(node, query.wires) as killed:
            rows = storm(query, dice, partitions, certain=KILLS_NODE if kind == "kafka" else ())
            ends = topic.ends()
            committed = topic.committed(GROUP)
    lost = {(p, offset) for p, start, end in notes(query.wires / LOST) for offset in range(start, end)}
    expected = {(p, offset) for p, end in ends.items() for offset in range(before.get(p, 0), end)} - lost
    found = Counter(rows)
    assert found == Counter(expected), query.said()
    assert committed == ends
    assert killed or kind != "kafka"


def storm(query: Query, dice: random.Random, partitions: int, certain: tuple[str, ...] = ()) -> list[tuple[int, int]]:
    """Runs that die of this and that, and one that does not; what is in the files at the end.

    One of ``certain`` happens in the first batch of each run, if that has one.
    """
    topic = query.topic
    for number in range(2):
        for what in dice.sample([*KILLS_JVM, *KILLS_NODE], k=2):
            (query.wires / f"{what}-{dice.choice([0, 0, 1, 2])}").touch()
        if certain:
            (query.wires / f"{dice.choice(certain)}-0").touch()
        if number and dice.random() < 0.5:
            (query.wires / f"{LOSES}-{dice.choice([0, 1])}").touch()
        query.run()
        if dice.random() < 0.4:
            partitions += 1
            topic.grow(partitions)
        topic.fill({each: dice.randint(0, 200) for each in range(partitions)})
    for left in query.wires.iterdir():
        if left.name not in {NODE, LOST}:
            left.unlink()
    rows = query.run()
    assert rows is not None, query.said()
    return rows


def notes(file: Path) -> list[tuple[int, int, int]]:
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
