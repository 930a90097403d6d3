"""One Spark session for all tests of this folder, as quick to start as can be, and a log of their own for each test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.spark.homes import thin_spark_home
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
        patch.setenv("SPARK_HOME", str(thin_spark_home(tmp_path_factory.mktemp("spark-home"))))
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[2])])
        )
        session = penstock.spark.session("tests", "local[2,4]", **CONF)
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def node() -> Iterator[str]:
    """A service node in memory, in a thread of its own; its address."""
    from penstock.snode import Node

    async def serve(ready: Future[str], stop: asyncio.Event) -> None:
        async with Node(store="memory:", listen=("kafka://127.0.0.1:0",)) as node:
            ready.set_result(node.url("kafka"))
            await stop.wait()

    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    ready = Future[str]()
    thread = Thread(target=lambda: loop.run_until_complete(serve(ready, stop)), name="node")
    thread.start()
    try:
        yield ready.result(30)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def topic(node: str, request: pytest.FixtureRequest) -> TestTopic:
    """A topic of this test's own, not created yet."""
    return TestTopic(node, f"{request.node.originalname}-{uuid4().hex[:8]}".replace("_", "-"))
