"""What the interop tests of several files share, beside the real servers of ``peers``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(spark: SparkSession, spark_kafka_jars: Path) -> SparkSession:
    """The run's session, which has Spark's own connector on its class path, because this one asks for it."""
    del spark_kafka_jars
    return spark
