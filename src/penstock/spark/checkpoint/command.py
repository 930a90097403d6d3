"""Converts a checkpoint, wherever it is stored: the command line and notebooks call this.

What must not live here: what is in a checkpoint.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError
from penstock.spark.checkpoint.convert import Conversion, carry_out, plan
from penstock.spark.checkpoint.files import Files, LocalFiles
from penstock.spark.checkpoint.forms import Form

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["convert_checkpoint", "is_local"]

_QUIET_S = 10.0
"""Seconds since the last write to the offset log; with fewer the query counts as running. Nothing else shows it."""


def convert_checkpoint(
    checkpoint: str | Path,
    *,
    back: bool = False,
    dry_run: bool = False,
    stopped: bool = False,
    sources: Collection[str] = (),
    spark: SparkSession | None = None,
) -> Conversion:
    """Convert a checkpoint of Spark's own Kafka connector to ours, in place; with ``back``, the other way.

    The query must be stopped. It then continues with the other source where it was, with its state, its file sinks and
    its batch numbers. Files to be replaced are first copied to ``originals`` in the checkpoint. If the conversion is
    killed midway, run it again, in either direction.

    ``checkpoint`` is a folder of this machine, or an address of any file system that ``spark``'s Hadoop knows.
    ``dry_run`` changes nothing. ``stopped`` says that the query is stopped even if its log was written a moment ago.
    ``sources`` are those (0, 1, …, or their names) that are the connector's although its own file for them is gone.
    Raises UsageError and ConfigError, which say why nothing was done.

    >>> convert_checkpoint("/data/checkpoints/orders").converted  # doctest: +SKIP
    (12, 13, 14)
    """
    files = _files(str(checkpoint), spark)
    planned = plan(files, Form.CONNECTOR if back else Form.OURS, sources)
    if dry_run or not planned.contents:
        if not dry_run:
            carry_out(files, planned)
        return planned.result
    _check_not_running(files, spark)
    age_s = time.time() - planned.newest_s
    if age_s < _QUIET_S and not stopped:
        raise UsageError(
            f"a batch was planned or committed {max(0.0, age_s):.0f} s ago: the query seems to be running",
            hint=f"Stop it; then wait {_QUIET_S:.0f} s, or say that it is stopped (--stopped)",
        )
    carry_out(files, planned)
    return planned.result


def is_local(checkpoint: str) -> bool:
    """Whether it is a folder of this machine, by its address; a path without a scheme is one."""
    scheme, colon, _ = checkpoint.partition(":/")
    return not colon or scheme == "file" or "/" in scheme


def _files(checkpoint: str, spark: SparkSession | None) -> Files:
    if is_local(checkpoint):
        root = Path(
            "/" + checkpoint.removeprefix("file:").lstrip("/") if checkpoint.startswith("file:") else checkpoint
        )
        if not root.is_dir():
            raise UsageError(
                f"no folder {root} on this machine", hint="A checkpoint elsewhere is named with its scheme: hdfs://…"
            )
        return LocalFiles(root)
    if spark is None:
        raise UsageError(f"{checkpoint} can be reached only through a Spark session", hint="Give spark=")
    from penstock.spark.checkpoint.hadoop import HadoopFiles

    return HadoopFiles(spark, checkpoint)


def _check_not_running(files: Files, spark: SparkSession | None) -> None:
    """Raises UsageError if the query is running, as far as this process knows."""
    known = spark or _session_of_this_process()
    metadata = (files.read("metadata") or b"").decode(errors="replace")
    for query in known.streams.active if known is not None else ():
        if query.id in metadata:
            raise UsageError(f"the query {query.name or query.id} is running in this session", hint="Stop it first")


def _session_of_this_process() -> Any:
    loaded = sys.modules.get("pyspark.sql")
    return None if loaded is None else loaded.SparkSession.getActiveSession()
