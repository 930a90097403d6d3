"""One Spark session for all tests of this folder, as quick to start as can be, and a log of their own for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.spark.logs import TestTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    import penstock.spark

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_HOME", raising=False)  # session() sets one from which Python starts quickly
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[2])])
        )
        warehouse = str(tmp_path_factory.mktemp("warehouse"))
        session = penstock.spark.session("tests", "local[2,4]", **CONF, **{"spark.sql.warehouse.dir": warehouse})
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def node() -> Iterator[str]:
    """A service node in memory; its address."""
    from tests.spark.nodes import NodeThread

    node = NodeThread()
    node.start()
    try:
        yield node.url
    finally:
        node.stop()


@pytest.fixture
def topic(node: str, request: pytest.FixtureRequest) -> TestTopic:
    """A topic of this test's own, not created yet."""
    return TestTopic(node, f"{request.node.originalname}-{uuid4().hex[:8]}".replace("_", "-"))
