"""What the interop tests of several files share, beside the real servers of ``peers``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_kafka_jars: Path) -> Iterator[SparkSession]:
    """A session with Spark's own connector on its class path: not one that other tests have made."""
    import penstock.spark

    jars = ":".join(map(str, sorted(spark_kafka_jars.glob("*.jar"))))
    conf = {"spark.driver.extraClassPath": jars, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 2}
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = penstock.spark.session("parity", "local[2]", **conf, **{"spark.sql.warehouse.dir": warehouse})
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
