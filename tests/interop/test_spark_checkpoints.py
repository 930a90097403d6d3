"""A query that Spark's own connector began goes on with ours from the converted checkpoint, and back again.

What it writes is compared with the same query that the connector ran from its first batch to its last, over the same
records, with the same stops. In both the driver dies twice between a batch's last row and Spark's note of it. The
reference is the real connector on a real Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic
from penstock.spark import convert_checkpoint
from tests.interop.peers.fixtures import KafkaBroker
from tools.peers import kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = pytest.mark.interop

START_MS = 1_700_000_000_000
RUNS = ("kafka", "kafka", "penstock", "penstock", "kafka")
"""Who reads in each run of the query that moves; each finds 40 new records a topic."""
DIES_IN = (1, 3)
"""Runs after which the last batch has to be run again, by the other source."""
WITH_CHECKSUMS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


@dataclass(frozen=True)
class Place:
    """Where one query reads and writes. ``source`` is who reads."""

    spark: SparkSession
    bootstrap: str
    topics: tuple[str, str]
    folder: Path
    arriving: Path
    source: str = "kafka"

    def read(self, place: int = 0, **options: str) -> DataFrame:
        reader = self.spark.readStream.format(self.source).option("kafka.bootstrap.servers", self.bootstrap)
        return (
            reader.option("subscribe", self.topics[place])
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )

    @property
    def out(self) -> str:
        return str(self.folder / "out")


def to_files(found: DataFrame, place: Place) -> DataStreamWriter:
    return found.writeStream.format("parquet").option("path", place.out)


def file_sink(place: Place) -> DataStreamWriter:
    return to_files(place.read(includeHeaders="true"), place)


def windows(place: Place) -> DataStreamWriter:
    timed = place.read().withWatermark("timestamp", "20 seconds")
    return to_files(timed.groupBy("key", window(place, "10 seconds")).count(), place)


def window(place: Place, width: str) -> Any:
    from pyspark.sql.functions import window as spark_window

    return spark_window("timestamp", width)


def join(place: Place) -> DataStreamWriter:
    from pyspark.sql.functions import expr

    left, right = (place.read(number).withWatermark("timestamp", "60 seconds") for number in (0, 1))
    close = "l.key = r.key and l.timestamp between r.timestamp - interval 30 seconds and r.timestamp"
    both = left.alias("l").join(right.alias("r"), expr(close))
    return to_files(both.selectExpr("l.key", "l.offset as left", "r.offset as right"), place)


def first_ones(place: Place) -> DataStreamWriter:
    return to_files(place.read().withWatermark("timestamp", "1 hour").dropDuplicates(["key"]), place)


def totals(place: Place) -> DataStreamWriter:
    return by_number(place.read().groupBy("key").count(), place).outputMode("complete")


def numbered(place: Place) -> DataStreamWriter:
    return by_number(place.read().select("key", "value", "partition", "offset"), place)


def by_number(found: DataFrame, place: Place) -> DataStreamWriter:
    def store(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{place.out}/batch={number}")

    return found.writeStream.foreachBatch(store)


def several(place: Place) -> DataStreamWriter:
    """One source twice (Spark keeps two lines and one source of it), another one, and files that arrive."""
    first, second = (place.read(number).selectExpr("cast(value as string) value") for number in (0, 1))
    return to_files(first.union(first).union(place.spark.readStream.text(str(place.arriving))).union(second), place)


Job = Callable[[Place], "DataStreamWriter"]
JOBS = [
    pytest.param(file_sink, id="file sink"),
    pytest.param(windows, id="windows"),
    pytest.param(join, id="join", marks=pytest.mark.long),
    pytest.param(first_ones, id="dropDuplicates", marks=pytest.mark.long),
    pytest.param(totals, id="aggregation", marks=pytest.mark.long),
    pytest.param(numbered, id="foreachBatch by number", marks=pytest.mark.long),
    pytest.param(several, id="several sources", marks=pytest.mark.long),
]


@pytest.mark.parametrize("job", JOBS)
def test_the_query_goes_on(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path, job: Job) -> None:
    bootstrap = kafka_broker(kafka.NEWEST).bootstrap
    topics = made(bootstrap)
    (tmp_path / "arriving").mkdir()
    moving, staying = (Place(spark, bootstrap, topics, tmp_path / each, tmp_path / "arriving") for each in ("m", "s"))
    before = "kafka"
    for number, source in enumerate(RUNS):
        load(bootstrap, topics, number, tmp_path / "arriving")
        if source != before:
            assert convert_checkpoint(moving.folder / "checkpoint", back=source == "kafka", stopped=True).converted
        before = source
        for place in (Place(**{**vars(moving), "source": source}), staying):
            run(job, place)
            if number in DIES_IN:
                forget_last_batch(place.folder / "checkpoint")
    found, expected = written(moving), written(staying)
    assert len(expected) > len(RUNS)
    assert found == expected
    assert numbers(moving) == numbers(staying)


def test_checksums_of_hadoop_do_not_contradict(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    name = "spark.sql.streaming.checkpointFileManagerClass"
    usual = spark.conf.get(name)
    spark.conf.set(name, WITH_CHECKSUMS)
    try:
        bootstrap = kafka_broker(kafka.NEWEST).bootstrap
        topics = made(bootstrap)
        place = Place(spark, bootstrap, topics, tmp_path, tmp_path)
        load(bootstrap, topics, 0, tmp_path)
        run(numbered, place)
        assert (tmp_path / "checkpoint" / "offsets" / ".0.crc").exists()
        for back in (False, True):
            convert_checkpoint(tmp_path / "checkpoint", back=back, stopped=True)
            run(numbered, Place(**{**vars(place), "source": "kafka" if back else "penstock"}))
    finally:
        spark.conf.set(name, usual)
    assert numbers(place) == [0]  # nobody took the same offsets in another form for new records


def made(bootstrap: str) -> tuple[str, str]:
    left, right = (f"moving-{uuid4().hex[:8]}" for _ in range(2))
    with Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([NewTopic(left, 2), NewTopic(right, 1)])
    return left, right


def load(bootstrap: str, topics: tuple[str, str], number: int, arriving: Path) -> None:
    with Producer(f"kafka://{bootstrap}") as producer:
        for topic, partitions in zip(topics, (2, 1), strict=True):
            for n in range(40 * number, 40 * number + 40):
                key, at = b"key-%d" % (n % (number + 4)), START_MS + 1_000 * n
                producer.send(topic, key=key, value=b"%d" % n, timestamp_ms=at, partition=n % partitions)
    (arriving / f"{number}.txt").write_text(f"a line of file {number}\n")


def run(job: Job, place: Place) -> None:
    query = job(place).option("checkpointLocation", str(place.folder / "checkpoint")).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def forget_last_batch(checkpoint: Path) -> None:
    noted = [int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit()]
    (checkpoint / "commits" / str(max(noted))).unlink()


def written(place: Place) -> list[tuple[Any, ...]]:
    found = place.spark.read.parquet(place.out)
    return sorted((tuple(row) for row in found.select(*sorted(found.columns)).collect()), key=repr)


def numbers(place: Place) -> list[int]:
    return sorted(int(each.name) for each in (place.folder / "checkpoint" / "offsets").iterdir() if each.name.isdigit())
