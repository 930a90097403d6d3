"""The one Spark session of a run of tests, as quick to start as can be.

A process has one Java machine, which has the class path that it was started with: so whoever comes first starts it with
all that any test of the run needs. What must not live here: what the tests of one folder need beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.peers import kafka
from tools.peers.maven import Unavailable

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
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """With Spark's own connector if a test of this run compares with it (asks for ``spark_kafka_jars``, too)."""
    import penstock.spark

    home, root = Path(penstock.__file__).parents[1], Path(__file__).parents[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_HOME", raising=False)  # session() sets one from which Python starts quickly
        patch.setenv("PYTHONPATH", os.pathsep.join([str(home), str(root)]))
        conf = {**CONF, **_class_path(request), "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
        session = penstock.spark.session("tests", "local[2,4]", **conf)
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def _class_path(request: pytest.FixtureRequest) -> Mapping[str, str]:
    wanted = any("spark_kafka_jars" in getattr(item, "fixturenames", ()) for item in request.session.items)
    try:
        folder = kafka.spark_connector_jars() if wanted else None
    except Unavailable:
        return {}  # spark_kafka_jars skips those who need them
    return {"spark.driver.extraClassPath": ":".join(map(str, sorted(folder.glob("*.jar"))))} if folder else {}
