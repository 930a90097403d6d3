"""MirrorMaker 2, unmodified: a topic, its options and a group's offsets go from our node to a real broker, and back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from tests.eventually import comes_to
from tests.interop.node_or_kafka import node_or_kafka
from tools.peers.kafka_connect import worker
from tools.peers.maven import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.long]

RECORDS, PARTITIONS, WITHIN_S = 600, 3, 60.0
MIRRORED = "there.t"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
OFTEN = ("sync.group.offsets", "emit.checkpoints", "refresh.topics", "refresh.groups", "sync.topic.configs")


def connectors(source: str, target: str) -> dict[str, dict[str, str]]:
    """What is told to the worker, which lives at the target."""
    common = {
        "source.cluster.alias": "there",
        "target.cluster.alias": "here",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
        "topics": "t",
        "groups": "g",
        "tasks.max": "2",
        **{f"{each}.converter": BYTES for each in ("key", "value", "header")},
        "offset.lag.max": "0",
        "sync.group.offsets.enabled": "true",
        **{f"{each}.interval.seconds": "1" for each in OFTEN},
        **{f"{each}replication.factor": "1" for each in ("", "offset-syncs.topic.", "checkpoints.topic.")},
    }
    named = {name: f"org.apache.kafka.connect.mirror.Mirror{name}Connector" for name in ("Source", "Checkpoint")}
    return {name: {**common, "connector.class": kind} for name, kind in named.items()}


def fill(address: str) -> Mapping[int, int]:
    """A topic, and a group that has read a part of it: how far in each partition."""
    with penstock.Admin(address) as admin:
        admin.create_topics([penstock.NewTopic("t", PARTITIONS, config={"retention.ms": "1000000000"})])
    with penstock.Producer(address) as producer:
        for number in range(RECORDS):
            producer.send("t", b"%d" % number, partition=number % PARTITIONS, headers=[("h", b"%d" % number)])
    with penstock.Consumer(f"{address}/t", group="g") as consumer:
        read = 0
        while read < RECORDS // 2:
            batch = consumer.poll(WITHIN_S, RECORDS // 2 - read)
            assert batch
            read += len(batch)
            consumer.commit(batch)
    with penstock.Admin(address) as admin:
        return {each.id: place.offset for each, place in admin.committed("g").items()}


def arrived(address: str) -> dict[bytes, tuple[int, int]]:
    """Values by partition and offset; each with its header."""
    found = {}
    with penstock.RangeReader(address) as reader:
        ends = reader.end_offsets([penstock.Partition(MIRRORED, number) for number in range(PARTITIONS)])
        for partition, end in ends.items():
            for batch in reader.read(penstock.LogRange(MIRRORED, partition.id, 0, end)):
                for record in batch:
                    assert dict(record.headers) == {"h": record.value}
                    found[record.value or b""] = (record.partition, record.offset)
    return found


@pytest.mark.parametrize(("source", "target"), [("node", "kafka"), ("kafka", "node"), ("node", "node")])
def test_a_topic_its_options_and_a_groups_place_are_mirrored(tmp_path: Path, source: str, target: str) -> None:
    with ExitStack() as running:
        there = running.enter_context(node_or_kafka(source, tmp_path / "there"))
        here = running.enter_context(node_or_kafka(target, tmp_path / "here"))
        address = f"kafka://{here}"
        read = fill(f"kafka://{there}")
        try:
            mirror = running.enter_context(worker(tmp_path / "worker", here, "mirror"))
        except Unavailable as reason:
            pytest.skip(f"no MirrorMaker: {reason}")
        for name, config in connectors(there, here).items():
            mirror.create(name, config)
        admin = running.enter_context(penstock.Admin(address))
        comes_to(lambda: MIRRORED in admin.topics(), True, WITHIN_S)
        comes_to(lambda: len(arrived(address)), RECORDS, WITHIN_S)
        assert arrived(address) == {b"%d" % n: (n % PARTITIONS, n // PARTITIONS) for n in range(RECORDS)}
        comes_to(lambda: admin.topic_config(MIRRORED)["retention.ms"], "1000000000", WITHIN_S)
        begun = {number for number, offset in read.items() if offset}
        # It knows places of batches, so it may take a group back within one, and never forward.
        comes_to(lambda: {each.id for each in admin.committed("g")} >= begun, True, WITHIN_S)
        assert all(0 < place.offset <= read[each.id] for each, place in admin.committed("g").items())
        assert "ERROR" not in mirror.log.read_text()
