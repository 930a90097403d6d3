"""A replica without all records is made leader of real brokers: who had read further is told, and skips nothing."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence

import pytest

from penstock.client import Consumer, Producer, RangeReader
from penstock.errors import LogTruncated
from penstock.model import LogRange, Partition
from penstock.spark._follow import Follower
from penstock.spark._log import Log
from penstock.spark._loss import DataLoss
from penstock.spark._offsets import BatchOffset
from penstock.spark._options import parse_options
from tools.peers.kafka_cluster import Cluster

pytestmark = pytest.mark.interop


def write(cluster: Cluster, topic: str, values: Sequence[bytes]) -> None:
    with Producer(cluster.address) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush()


def poll(consumer: Consumer, until: bytes) -> list[bytes]:
    found: list[bytes] = []
    while until not in found:
        batch = consumer.poll(timeout_s=30)
        assert len(batch), f"{len(found)} records came, and not {until!r}"
        found += [each.value or b"" for each in batch]
    return found


def test_nobody_skips_what_took_the_place_of_lost_records(
    kafka_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """100 records on both replicas, 500 on one only; it dies, the other one is made leader and gets 800 new ones."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    both, lost = [b"both %d" % n for n in range(100)], [b"lost %d" % n for n in range(500)]
    new = [b"new %d" % n for n in range(800)]
    kafka_cluster.create_topic(topic, replicas=[(1, 2)])
    partition, address = Partition(topic, 0), kafka_cluster.address
    options = parse_options({"path": f"{address}/{topic}", "startingOffsets": "earliest"})
    with (
        Consumer(address, group=topic, auto_offset_reset="latest", enable_auto_commit=False) as ours,
        Consumer(address, auto_offset_reset="none") as strict,
        Consumer(address, group=topic, auto_offset_reset="none") as later,
        RangeReader(kafka_cluster.address) as reader,
        Log(options) as log,
    ):
        stream = Follower(options, log)
        for consumer in (ours, strict):
            consumer.assign({partition: 0})
        write(kafka_cluster, topic, both)
        kafka_cluster.await_in_sync(topic)  # one that was late for a while has caught up
        kafka_cluster.kill(2)
        kafka_cluster.await_in_sync(topic, 0, [1])
        write(kafka_cluster, topic, lost)
        assert poll(ours, lost[-1]) == poll(strict, lost[-1]) == both + lost
        ours.commit()
        assert sum(len(batch) for batch in reader.read(LogRange(topic, 0, 0, 600))) == 600
        planned = stream.next_batch(stream.initial())
        assert planned is not None
        assert planned.end == {partition: 600}

        kafka_cluster.kill(1)
        kafka_cluster.start(2)
        kafka_cluster.elect(topic, 0, unclean=True)
        write(kafka_cluster, topic, new)

        with caplog.at_level(logging.WARNING, "penstock"):
            assert poll(ours, new[-1]) == new
        assert (
            "resetting to offset 100: the log was cut off at 100: 500 offsets that were read, up to 600" in caplog.text
        )
        with pytest.raises(LogTruncated) as told:
            strict.poll(timeout_s=30)
        assert (told.value.offset, told.value.parted_at) == (600, 100)
        strict.seek(partition, told.value.parted_at)
        assert poll(strict, new[-1]) == new
        with pytest.raises(LogTruncated, match="cut off at 100: 500 offsets"):
            list(reader.read(LogRange(topic, 0, 600, 900)))
        with pytest.raises(DataLoss, match="cut off at 100: 500 offsets"):  # a query that goes on from its checkpoint
            stream.next_batch(BatchOffset.from_json(json.loads(json.dumps(planned.to_json()))))
        later.assign([partition])
        with pytest.raises(LogTruncated, match="cut off at 100"):  # of which only the committed offset is known
            later.poll(timeout_s=30)
    kafka_cluster.start(1)
    kafka_cluster.await_in_sync(topic)
