"""Topics that a real Kafka compacted, seen from Spark: what is left is read exactly, and no gap is taken for a loss."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadMaxRows

from penstock.client import Producer
from penstock.spark._options import parse_options
from penstock.spark._reading import BatchReader, StreamReader
from tests.interop.test_spark_connector_and_ours import START_MS, job, plain, run
from tests.interop.test_spark_source_on_real_kafka import offsets
from tools.peers import kafka
from tools.peers.maven import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

QUICK = {"log.cleaner.backoff.ms": "50"}
COMPACT = {"cleanup.policy": "compact", "max.compaction.lag.ms": "1"}
SEGMENTS = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}

# Keys of each segment. A segment's records are younger by a day than those before it, so that it gets one of its own.
RUNS: list[list[str]] = [
    [f"a{n % 10}" for n in range(100)],  # 0: all of it is overwritten, twice
    [f"a{n % 10}" for n in range(100)],  # 100
    [f"b{n}" for n in range(100)],  # 200: all of it stays
    [f"a{n % 10}" for n in range(100)],  # 300: its last ten stay
    ["c"] * 50,  # 400: the last one stays
    ["d"],  # 450: the newest segment, which is never compacted
]
LAST = {key: offset for offset, key in enumerate(key for keys in RUNS for key in keys)}
LEFT = sorted(LAST.values())
END = sum(map(len, RUNS))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """One whose cleaner does not sleep for long."""
    try:
        with kafka.broker(tmp_path_factory.mktemp("compacting"), settings=QUICK) as running:
            yield running
    except Unavailable as reason:
        pytest.skip(f"no Kafka to test with: {reason}")


@pytest.fixture(scope="module")
def compacted(broker: kafka.Broker) -> str:
    """Address of a topic with one partition, of which ``LEFT`` is left."""
    address = filled(broker, "compacted", {**SEGMENTS, **COMPACT})
    broker.await_cleaner("compacted", 0, END - 1)  # all but the newest segment
    return address


def filled(broker: kafka.Broker, topic: str, config: Mapping[str, str]) -> str:
    broker.create_topic(topic, 1, **{name.replace(".", "_"): value for name, value in config.items()})
    with Producer(f"kafka://{broker.bootstrap}", linger_ms=0) as producer:
        for day, keys in enumerate(RUNS):
            at = START_MS + day * 86_400_000
            for each in [producer.send(topic, key.encode(), key=key.encode(), timestamp_ms=at) for key in keys]:
                each.result()
    return f"kafka://{broker.bootstrap}/{topic}"


def at(offset: int) -> str:
    return json.dumps({"compacted": {"0": offset}})


JOBS = [
    job("everything", 112, subscribe="compacted"),
    job("many tasks", 112, subscribe="compacted", minPartitions="7"),
    job("small tasks", 112, subscribe="compacted", maxRecordsPerPartition="13"),
    job("from within a gap", 112, subscribe="compacted", startingOffsets=at(50)),
    job("to within a gap", 100, subscribe="compacted", endingOffsets=at(350)),
    job("from and to within gaps, small tasks", 111, subscribe="compacted", startingOffsets=at(150),
        endingOffsets=at(450), maxRecordsPerPartition="30"),
    job("nothing but a gap", 0, subscribe="compacted", startingOffsets=at(401), endingOffsets=at(440)),
    job("stream", 112, stream=True, subscribe="compacted", startingOffsets="earliest"),
    job("stream in batches, many of which are gaps", 112, stream=True, subscribe="compacted",
        startingOffsets="earliest", maxOffsetsPerTrigger="25"),
    job("stream in small batches and tasks", 112, stream=True, subscribe="compacted", startingOffsets=at(150),
        maxOffsetsPerTrigger="60", minPartitions="4", maxRecordsPerPartition="9"),
]  # fmt: skip


@pytest.mark.parametrize("wanted", JOBS, ids=lambda each: each.name)
def test_same_rows_as_sparks_own_connector(
    spark: SparkSession, broker: kafka.Broker, compacted: str, wanted: Any, tmp_path: Path
) -> None:
    assert compacted
    expected = run(spark, "kafka", wanted, broker.bootstrap, tmp_path / "reference")
    assert len(expected[1]) == wanted.rows
    assert run(spark, "penstock", wanted, broker.bootstrap, tmp_path / "ours") == expected


def test_everything_that_is_left_is_read(spark: SparkSession, compacted: str) -> None:
    frame = spark.read.format("penstock").option("failOnDataLoss", "fail").load(compacted)
    assert plain(frame.selectExpr("cast(key as string)", "offset")) == sorted(LAST.items(), key=repr)


def reader(address: str, **options: str) -> BatchReader:
    given = {"path": address, "columns": "offset", "failOnDataLoss": "fail", "minPartitions": "1", **options}
    return BatchReader(parse_options(given))


@pytest.mark.parametrize("size", [1, 7, 30, 113])
def test_ranges_that_begin_and_end_in_gaps_are_split_as_others_are(compacted: str, size: int) -> None:
    found = reader(compacted, maxRecordsPerPartition=str(size))
    tasks = found.partitions()
    assert len(tasks) >= END // size
    assert offsets(found, tasks) == LEFT


def test_topic_compacted_after_planning_is_no_loss(broker: kafka.Broker) -> None:
    address = filled(broker, "later", SEGMENTS)
    found = reader(address, maxRecordsPerPartition="40")
    tasks = found.partitions()
    assert offsets(found, tasks) == list(range(END))
    settings = ",".join(f"{name}={value}" for name, value in COMPACT.items())
    broker.tool("configs", "--alter", "--entity-type", "topics", "--entity-name", "later", "--add-config", settings)
    broker.await_cleaner("later", 0, END - 1)
    assert offsets(found, tasks) == LEFT


def test_stream_goes_through_gaps_by_offsets(compacted: str) -> None:
    given = {"path": compacted, "columns": "offset", "failOnDataLoss": "fail", "startingOffsets": "earliest"}
    found = StreamReader(parse_options({**given, "minPartitions": "3"}))
    try:
        start, seen, batches = found.initialOffset(), [], 0
        while (end := found.latestOffset(start, ReadMaxRows(30))) != start:
            seen += offsets(found, list(found.partitions(start, end)))
            start, batches = end, batches + 1
    finally:
        found.stop()
    assert seen == LEFT
    assert batches == -(-END // 30)
