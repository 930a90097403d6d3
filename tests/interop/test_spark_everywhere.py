"""Recipes with other people's packages, Spark Connect and Declarative Pipelines: each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.client import Admin, Producer, RangeReader
from penstock.model import LogRange
from penstock.testing import Broker
from tests.spark.pages import PAGES, Page
from tools import spark_versions
from tools.console import Stop

pytestmark = pytest.mark.interop

ROOT = PAGES.parents[1]
WORDS = ["pear", "plum", "fig", "quince"]


def need(*modules: str) -> None:
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed: requirements/interop.txt")


def python(*arguments: str) -> str:
    """What a Python program printed."""
    return printed_by([sys.executable, *arguments], ROOT)


def printed_by(command: list[str], folder: Path, timeout_s: int = 600) -> str:
    environment = {key: text for key, text in os.environ.items() if key != "SPARK_HOME"}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_UDS_MODE": "true",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return done.stdout + done.stderr


def order(broker: Broker, count: int) -> None:
    with Producer(broker.address) as producer:
        for sent in [producer.send("orders", key=WORDS[n % 4].encode(), value=b"item-%d" % n) for n in range(count)]:
            sent.result()


def run_again(checkpoints: list[Path], page: str, broker: Broker, folder: Path) -> None:
    """As after a driver that died between the last batch's last row and Spark's note of it; with new records."""
    for checkpoint in checkpoints:
        noted = [int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit()]
        (checkpoint / "commits" / str(max(noted))).unlink()
    order(broker, 40)
    python("-m", "tests.interop.in_spark", page, broker.address, str(folder))


def test_delta_has_each_row_once(broker: Broker, tmp_path: Path) -> None:
    need("deltalake")
    from deltalake import DeltaTable

    broker.create_topic("orders", 2)
    order(broker, 250)
    page = Page("recipes/delta").name
    python("-m", "tests.interop.in_spark", page, broker.address, str(tmp_path))
    assert DeltaTable(str(tmp_path / "delta" / "orders")).version() == 2
    checkpoints = [tmp_path / "checkpoints" / name for name in ("delta", "large-delta")]
    run_again(checkpoints, page, broker, tmp_path)
    for name in ("orders", "large-orders"):
        stored = DeltaTable(str(tmp_path / "delta" / name)).to_pyarrow_table()
        assert sorted(stored.column("value").to_pylist()) == sorted(
            [*(b"item-%d" % n for n in range(250)), *(b"item-%d" % n for n in range(40))]
        )
        assert stored.column("timestamp").null_count == 0


def test_iceberg_has_each_row_once(broker: Broker, tmp_path: Path) -> None:
    need("pyiceberg", "sqlalchemy")
    from pyiceberg.catalog import load_catalog

    broker.create_topic("orders", 2)
    order(broker, 250)
    python("-m", "tests.interop.in_spark", Page("recipes/iceberg").name, broker.address, str(tmp_path))
    run_again([tmp_path / "checkpoints" / "iceberg"], "recipes/iceberg", broker, tmp_path)
    catalog = load_catalog("local", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db")
    stored = catalog.load_table("shop.orders").scan().to_arrow()
    assert sorted(stored.column("value").to_pylist()) == sorted(
        [*(b"item-%d" % n for n in range(250)), *(b"item-%d" % n for n in range(40))]
    )
    assert stored.column("timestamp").null_count == 0


def test_connect_reads_writes_and_streams_without_registering(broker: Broker, tmp_path: Path) -> None:
    need("grpc", "grpc_status", "google.rpc")
    for topic in ("orders", "copies", "streamed"):
        broker.create_topic(topic, 2)
    order(broker, 120)
    printed = python("-m", "tests.interop.connect_client", broker.address, str(tmp_path))
    told = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    listener = told.pop("heard")
    assert listener["ended"]
    assert re.search(r"rows\w*\{[^}]*\} 120", listener["metrics"])
    assert told == {
        "schema": [["key", "binary"], ["offset", "bigint"]],
        "rows": 120,
        "copies": ["1", "2"],
        "batches": 3,
        "kept": 120,
        "connect": "pyspark.sql.connect.session",
    }
    assert len(committed(broker, "streamed")) == 240  # by two queries


def test_declarative_pipeline_from_log_to_log(broker: Broker, tmp_path: Path) -> None:
    need("grpc", "grpc_status", "google.rpc", "yaml")
    broker.create_topic("orders", 2)
    broker.create_topic("loud-orders", 2)
    order(broker, 60)
    page = Page("recipes/pipelines")
    (spec,) = page.code("yaml", broker.address, tmp_path)
    (code,) = page.code("python", broker.address, tmp_path)
    (command,) = page.code("sh", broker.address, tmp_path)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    (tmp_path / "transformations" / "orders.py").write_text(code)
    run_pipeline(command, tmp_path)
    assert sorted(committed(broker, "loud-orders")) == sorted(b"ITEM-%d" % n for n in range(60))
    order(broker, 10)
    run_pipeline(command, tmp_path)
    assert len(committed(broker, "loud-orders")) == 70


@pytest.mark.parametrize("version", ["4.2.0"])
def test_other_pyspark_reads_and_writes_as_the_pinned_one(version: str) -> None:
    try:
        spark_versions.environment(version)
    except Stop as stop:
        pytest.skip(f"no PySpark {version} to test with: {stop}")
    files = [f"tests/spark/test_{name}.py" for name in ("batch", "stream", "recovery", "sink", "sql")]
    printed = python("-m", "tools.spark_versions", version, *files, "-q", "-p", "no:cacheprovider")
    assert " passed" in printed
    assert " failed" not in printed


def run_pipeline(command: str, folder: Path) -> None:
    """As the page says it, with the ``spark-pipelines`` of this Python."""
    mine = Path(sysconfig.get_path("scripts"), "spark-pipelines")
    assert "COMPLETED" in printed_by(["sh", "-c", command.replace("spark-pipelines", str(mine), 1)], folder)


def committed(broker: Broker, topic: str) -> list[bytes]:
    with Admin(broker.address) as admin:
        ends = admin.end_offsets([info.partition for info in admin.topics([topic])[topic].partitions])
    with RangeReader(broker.address, isolation_level="read_committed") as reader:
        return [
            value
            for partition, end in ends.items()
            for messages in reader.read(LogRange(topic, partition.id, 0, end))
            for value in messages.to_arrow(("value",)).column("value").to_pylist()
        ]
