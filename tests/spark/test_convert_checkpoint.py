"""Checkpoints that only Hadoop can reach: a real session, and a file system of Hadoop's own that is no local folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import UsageError
from penstock.spark import convert_checkpoint
from tests.unit.spark.recorded_checkpoint import lines, tree, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def mounted(spark: SparkSession, folder: Path) -> str:
    """The address of a folder in a file system of its own, which a session learns of after its start."""
    table = f"m{folder.name}".replace("_", "-")
    spark.conf.set(f"fs.viewfs.mounttable.{table}.link./data", folder.as_uri())
    return f"viewfs://{table}/data"


def test_there_and_back_on_a_file_system_of_hadoops(spark: SparkSession, tmp_path: Path) -> None:
    before = tree(write(tmp_path / "orders"))
    for crc in tmp_path.rglob(".*.crc"):
        crc.unlink()  # the recording's do not fit, and this file system looks
    address = f"{mounted(spark, tmp_path)}/orders"
    with pytest.raises(UsageError, match="only through a Spark session"):
        convert_checkpoint(address)
    assert convert_checkpoint(address, spark=spark, dry_run=True).converted == (0, 1, 2, 3)
    assert tree(tmp_path / "orders") == before
    assert convert_checkpoint(address, spark=spark).converted == (0, 1, 2, 3)
    assert lines(tmp_path / "orders", 3)[0].startswith('{"v": 1, "from": {"t": {"0": 20')
    assert convert_checkpoint(address, spark=spark).converted == ()
    assert convert_checkpoint(address, spark=spark, back=True, stopped=True).converted == (0, 1, 2, 3)
    assert tree(tmp_path / "orders") == before
    assert not list(tmp_path.rglob(".*.converted"))
    with pytest.raises(UsageError, match="no checkpoint"):
        convert_checkpoint(f"{mounted(spark, tmp_path)}/nothing", spark=spark)


def test_a_query_that_runs_in_this_session_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    query = stream.option("checkpointLocation", str(tmp_path / "running")).start()
    try:
        write(tmp_path / "orders")
        (tmp_path / "orders" / "metadata").write_bytes((tmp_path / "running" / "metadata").read_bytes())
        with pytest.raises(UsageError, match="is running in this session"):
            convert_checkpoint(tmp_path / "orders")
    finally:
        query.stop()
    assert convert_checkpoint(tmp_path / "orders").converted
