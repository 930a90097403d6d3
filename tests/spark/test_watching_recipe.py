"""The recipe for watching a stream, run as it is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client import Admin
from penstock.model import Partition
from penstock.spark._progress import PartitionLag, StreamProgress, prometheus_text
from penstock.testing import Broker
from tests.spark.pages import PAGES, Page
from tests.spark.test_recipes import ordered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_lag_is_shown_by_group_and_listener(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ordered(broker, 250)
    space = Page("recipes/watching").run(broker.address, tmp_path, spark=spark)
    spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
    spark.streams.removeListener(space["listener"])
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 250
    with Admin(broker.address) as admin:
        assert {lag.offsets for lag in admin.lag("orders-to-lake").values()} == {0}
    (stream,) = space["listener"].streams.values()
    assert (stream.name, stream.rows, stream.batches) == ("orders-to-lake", 250, 3)
    assert {lag.offsets for lag in stream.lag.values()} == {0}


def test_every_metric_is_on_the_page() -> None:
    stream = StreamProgress("q", lag={Partition("t", 0): PartitionLag(1, 2, 3.0)})
    names = {line.split()[2] for line in prometheus_text({"id": stream}).splitlines() if line.startswith("# TYPE ")}
    page = (PAGES / "recipes" / "watching.md").read_text(encoding="utf-8")
    assert {
        name for name in names if name not in page and "…" + name.removeprefix("penstock_stream") not in page
    } == set()
