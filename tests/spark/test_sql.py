"""SQL tables over a log: made once with options, read as batch and as stream, written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.logs import TestTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, topic: TestTopic) -> Iterator[str]:
    """A table over a topic of three records."""
    topic.create(1)
    topic.fill({0: 3})
    name = topic.name.replace("-", "_")
    servers = topic.node.removeprefix("kafka://")
    spark.sql(
        f"create table {name} using penstock"
        f" options (subscribe '{topic.name}', `kafka.bootstrap.servers` '{servers}', startingOffsets 'earliest')"
    )
    try:
        yield name
    finally:
        spark.sql(f"drop table {name}")


def test_table_is_read_with_the_options_it_was_made_with(spark: SparkSession, table: str, topic: TestTopic) -> None:
    rows = spark.sql(f"select cast(key as string) key, topic, offset from {table} where offset > 0").collect()
    assert [(row.key, row.topic, row.offset) for row in rows] == [("0-1", topic.name, 1), ("0-2", topic.name, 2)]
    assert spark.table(table).count() == 3


def test_options_of_a_statement_overrule_those_of_the_table(spark: SparkSession, table: str, topic: TestTopic) -> None:
    starting = f'{{"{topic.name}": {{"0": 2}}}}'
    (count,) = spark.sql(f"select count(*) from {table} with (startingOffsets = '{starting}')").first() or (0,)
    assert count == 1
    assert spark.read.option("startingOffsets", starting).table(table).count() == 1


def test_table_is_a_stream_too(spark: SparkSession, table: str, tmp_path: Path) -> None:
    query = (
        spark.readStream.table(table)
        .writeStream.format("memory")
        .queryName(f"{table}_rows")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table(f"{table}_rows").count() == 3


def test_location_is_an_address(spark: SparkSession, topic: TestTopic) -> None:
    topic.create(1)
    topic.fill({0: 2})
    name = topic.name.replace("-", "_")
    spark.sql(f"create table {name} using penstock options (columns 'value,offset') location '{topic.address}'")
    assert spark.table(name).columns == ["value", "offset"]
    assert spark.table(name).count() == 2
    spark.sql(f"drop table {name}")


def test_rows_are_inserted_where_the_statement_says(spark: SparkSession, table: str, topic: TestTopic) -> None:
    spark.sql(
        f"insert into {table} with (path = '{topic.address}') (key, value)"
        " select cast('k' as binary), cast('v' as binary)"
    )
    assert spark.sql(f"select value from {table} where offset = 3").collect()[0].value == b"v"
    with pytest.raises(Exception, match="INSERT INTO t WITH"):
        spark.sql(f"insert into {table} (value) select cast('v' as binary)")


def test_secrets_are_not_kept_in_the_catalog(spark: SparkSession, topic: TestTopic) -> None:
    with pytest.raises(Exception, match=r"sasl.password is a secret.*give it when the table is read"):
        spark.sql(
            f"create table secretive using penstock options (path '{topic.address}', `kafka.sasl.password` 'hidden')"
        )
