"""The recipes under docs/spark/recipes, run as they are printed; and what they promise when a batch runs again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Producer
from penstock.testing import Broker
from tests.spark.pages import Page
from tests.unit.cli.running import penstock
from tests.unit.spark.recorded_checkpoint import put, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WORDS = ["pear", "plum", "fig", "quince"]


def ordered(broker: Broker, count: int, partitions: int = 2) -> None:
    """``count`` records in the topic "orders", with four keys; value n is "item-n"."""
    broker.create_topic("orders", partitions)
    send(broker, "orders", [(WORDS[n % 4], f"item-{n}") for n in range(count)])


def send(broker: Broker, topic: str, records: list[tuple[str, str]]) -> None:
    with Producer(broker.address) as producer:
        for sent in [producer.send(topic, key=key.encode(), value=value.encode()) for key, value in records]:
            sent.result()


def forget_last_batch(checkpoint: Path) -> None:
    """What is left when the driver dies after a batch's last row and before Spark's note of it."""
    noted = [int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit()]
    (checkpoint / "commits" / str(max(noted))).unlink()


def test_foreach_batch_reads_a_batch_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    ordered(broker, 300)
    space = Page("recipes/foreach-batch").run(broker.address, tmp_path, spark=spark)
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 300
    counts = spark.read.parquet(str(tmp_path / "per-key")).groupBy("key").sum("count").collect()
    assert {bytes(key).decode(): total for key, total in counts} == dict.fromkeys(WORDS, 75)
    progress = [json.loads(each.json) for each in space["query"].recentProgress]
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [100, 100, 100]


def test_foreach_batch_that_runs_again_stores_nothing_twice(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    ordered(broker, 150)
    page = Page("recipes/foreach-batch")
    page.run(broker.address, tmp_path, spark=spark)
    forget_last_batch(tmp_path / "checkpoints" / "store")
    page.run(broker.address, tmp_path, spark=spark)
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 150


def test_exactly_once_shows_each_row_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    ordered(broker, 120)
    broker.create_topic("loud-orders", 2)
    broker.create_topic("prices", 1)
    page = Page("recipes/exactly-once")
    page.run(broker.address, tmp_path, spark=spark)
    forget_last_batch(tmp_path / "checkpoints" / "loud-orders")
    send(broker, "orders", [("fig", "one-more")])
    space = page.run(broker.address, tmp_path, spark=spark)
    values = [bytes(row.value).decode() for row in space["loud"].collect()]
    assert sorted(values) == sorted([*(f"ITEM-{n}" for n in range(120)), "ONE-MORE"])
    prices = spark.read.format("penstock").option("kafka.isolation.level", "read_committed")
    assert prices.load(f"{broker.address}/prices").count() == 2


def test_changed_rows_are_appended_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    ordered(broker, 100)
    broker.create_topic("counts", 1)
    page = Page("recipes/updates")
    page.run(broker.address, tmp_path, spark=spark)
    forget_last_batch(tmp_path / "checkpoints" / "counts")
    send(broker, "orders", [("fig", "one-more")])
    page.run(broker.address, tmp_path, spark=spark)
    counts = spark.read.format("penstock").option("kafka.isolation.level", "read_committed")
    rows = counts.load(f"{broker.address}/counts").orderBy("offset").collect()
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(bytes(row.key).decode(), []).append(int(row.value))
    assert {key: values[-1] for key, values in found.items()} == {"pear": 25, "plum": 25, "fig": 26, "quince": 25}
    # A key is there once for each batch in which it has changed.
    assert all(values == sorted(set(values)) for values in found.values())
    assert found["fig"][-2:] == [25, 26]


def test_spark_lets_no_python_sink_have_the_mode_update(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    ordered(broker, 1)
    counts = spark.readStream.format("penstock").load(f"{broker.address}/orders").groupBy("key").count()
    rows = counts.selectExpr("key", "cast(count as string) value").writeStream.format("penstock")
    writer = rows.outputMode("update").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(Exception, match="does not support Update mode"):
        writer.start(f"{broker.address}/orders").awaitTermination()


def test_json_becomes_typed_columns(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders")
    good = '{"id": 7, "at": "2026-01-02T03:04:05Z", "price": 1.5, "tags": ["a"], "buyer": {"name": "Ann"}}'
    send(broker, "orders", [("a", good)])
    space = Page("recipes/json").run(broker.address, tmp_path, spark=spark)
    assert space["flat"].dtypes == [
        ("offset", "bigint"), ("id", "bigint"), ("at", "timestamp"), ("price", "decimal(10,2)"),
        ("tags", "array<string>"), ("name", "string"),
    ]  # fmt: skip
    row = space["flat"].collect()[0]
    assert (row.id, str(row.price), row.tags, row.name) == (7, "1.50", ["a"], "Ann")
    assert space["bad"].count() == 0
    send(broker, "orders", [("a", '{"id": "7"}')])
    told = space["bad"].collect()
    assert [(row.offset, bytes(row._raw)) for row in told] == [(1, b'{"id": "7"}')]
    again = Page("recipes/json").run(
        broker.address, tmp_path, spark=spark
    )  # a DataFrame keeps the ranges it has planned
    with pytest.raises(Exception, match=r"orders.* offset.* 1"):
        again["flat"].collect()


def test_dead_letters_are_put_aside(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders")
    broker.create_topic("orders-dead")
    send(broker, "orders", [("a", '{"id": 1, "price": 2.5}'), ("a", "no json"), ("a", '{"id": 2, "price": 3.5}')])
    space = Page("recipes/dead-letters").run(broker.address, tmp_path, spark=spark)
    stored = spark.read.parquet(str(tmp_path / "orders")).collect()
    assert sorted((row.id, row.price) for row in stored) == [(1, 2.5), (2, 3.5)]
    (letter,) = space["dead"].collect()
    assert (letter.value, letter.offset) == ("no json", 1)
    assert letter.error


def test_sql_of_the_page(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders")
    send(broker, "orders", [("a", "1"), ("b", "2"), ("a", "3")])
    page = Page("recipes/sql")
    try:
        answers = [answer(spark, each) for each in statements(page.code("sql", broker.address, tmp_path))]
        space = page.run(broker.address, tmp_path, spark=spark)
        assert answers[1:3] == [[("a", 2), ("b", 1)], [(1,)]]
        assert space["rows"].isStreaming
        assert spark.table("orders").count() == 4
    finally:
        spark.sql("drop table if exists orders")


def test_first_steps(spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ordered(broker, 3)
    space = Page("README").run(broker.address, tmp_path)
    assert space["spark"] is spark
    assert "item-2" in capsys.readouterr().out


def test_a_program_for_a_cluster_runs_here_as_well(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    space = Page("deploying").run(broker.address, tmp_path)
    assert space["spark"] is spark
    assert space["orders"].isStreaming


def test_migrated_query_goes_on_where_the_old_one_ended(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders", 2)
    with Producer(broker.address) as producer:
        for partition in (0, 1):
            for n in range(5):
                producer.send("orders", value=b"%d" % n, partition=partition).result()
    ends = ['{"orders":{"0":1,"1":1}}', '{"orders":{"0":3,"1":4}}', '{"orders":{"0":4,"1":4}}']
    checkpoint = tmp_path / "checkpoints" / "orders"
    write(checkpoint, {number: [end] for number, end in enumerate(ends)}, committed=1,
          initials={"0": '{"orders":{"0":0,"1":0}}'})  # fmt: skip
    for batch in ("0", "1"):  # what the file sink knows of the batches before
        put(tmp_path / "orders" / "_spark_metadata" / batch, b"v1")
    page = Page("migrating")
    there, back = page.code("sh", broker.address, tmp_path)
    commanded(there)
    page.run(broker.address, tmp_path, spark=spark)
    found = spark.read.parquet(str(tmp_path / "orders")).select("partition", "offset").collect()
    assert sorted(tuple(row) for row in found) == [(0, 3), (0, 4), (1, 4)]
    assert (checkpoint / "offsets" / "2").read_text().splitlines()[-1] == (
        '{"v": 1, "from": {"orders": {"0": 3, "1": 4}}, "to": {"orders": {"0": 4, "1": 4}}}'
    )
    commanded(back)
    assert (checkpoint / "offsets" / "2").read_text().splitlines()[-1] == ends[2]


def commanded(lines: str) -> None:
    for line in lines.strip().splitlines():
        name, *words = shlex.split(line)
        assert name == "penstock"
        ran = penstock(*words)
        assert ran.code == 0, ran.stderr


@pytest.mark.parametrize("scheme", ["kafka", "tubemq", "rocketmq"])
def test_any_log_is_read_in_the_same_way(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    listen = ",".join(f"{each}://127.0.0.1:0" for each in sorted({"kafka", scheme}))
    with Broker(listen=listen) as broker:
        broker.create_topic("orders", 2)
        with Producer(broker.url(scheme)) as producer:
            for n in range(8):
                producer.send("orders", b"%d" % n, partition=n % 2).result()
        space = Page("recipes/any-log").run(broker.address, tmp_path, spark=spark)
        found = space["sizes"](f"{broker.url(scheme)}/orders").collect()
    assert [(row.topic, row.records) for row in found] == [("orders", 4), ("orders", 4)]


def statements(blocks: list[str]) -> list[str]:
    return [each for block in blocks for each in block.split(";") if each.strip()]


def answer(spark: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(statement).collect()]
