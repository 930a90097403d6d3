"""A Spark session with the settings that our source needs and a laptop likes; and registration without one.

What must not live here: anything that the data source needs to work. A session made elsewhere works too, only slower:
without Unix sockets between the JVM and Python every task loses about 40 ms to delayed acknowledgements.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.spark._advice import FILTERS, UNIX_SOCKETS
from penstock.spark._home import quick_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]

EVERYWHERE: Mapping[str, str] = {
    UNIX_SOCKETS: "true",
    FILTERS: "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Good on a laptop and on a cluster. Timestamps of records are UTC; a local time zone only invites mistakes."""

LOCALLY: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",  # the default writes a Derby database into the working directory
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""For ``local[…]`` masters: nothing listens on other than loopback, nothing is left in the working directory."""


def session(app_name: str = "penstock", master: str = "local[*]", **conf: object) -> SparkSession:
    """Make (or get) a session with Unix sockets, UTC and, for local masters, settings fit for one machine.

    ``conf`` overrides any of them: ``session(**{"spark.driver.memory": "4g"})``. The environment of this process gets
    what Spark reads only from there (``PYSPARK_UDS_MODE``, ``PYSPARK_PYTHON``, ``PYTHONPATH``; for local masters
    ``SPARK_LOCAL_IP`` and a ``SPARK_HOME`` from which Python starts quickly), where not set already. Spark finds
    ``format("penstock")`` by itself then. A session that is running already is returned; with a warning if it has no
    Unix sockets.
    """
    from pyspark.sql import SparkSession

    local = master.startswith("local")
    _prepare_environment(local=local)
    settings: dict[str, str] = {**EVERYWHERE, **(_sized_for_this_machine(master) if local else {})}
    settings.update({name: _text(value) for name, value in conf.items()})
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, text in settings.items():
        builder = builder.config(name, text)
    running = SparkSession.getActiveSession()
    spark = builder.getOrCreate()
    if running is not None and spark.conf.get(UNIX_SOCKETS, "false") != "true":
        warnings.warn(
            f"this Spark session was started without {UNIX_SOCKETS}=true: every Python task loses about 40 ms; "
            "stop it and start again through penstock.spark.session()",
            stacklevel=2,
        )
    return spark


def register(spark: SparkSession) -> None:
    """Make ``format("penstock")`` known to this session.

    Only needed where the module ``pyspark_penstock`` is not on the path of Spark's Python processes (then Spark finds
    the format by itself), or to be sure that this process's penstock is the one used.
    """
    from penstock.spark._source import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)


def _prepare_environment(*, local: bool) -> None:
    os.environ.setdefault("PYSPARK_UDS_MODE", "true")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if "SPARK_HOME" not in os.environ and (quick := quick_home()) is not None:
            os.environ["SPARK_HOME"] = str(quick)
    # Spark's Python processes do not inherit sys.path: a checkout that is not installed must be named.
    home = str(Path(penstock.__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in known and Path(home).name not in {"site-packages", "dist-packages"}:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, known)])


def _sized_for_this_machine(master: str) -> dict[str, str]:
    wanted = master.removeprefix("local").strip("[]").split(",")[0]
    cores = int(wanted) if wanted.isdigit() else 1 if not wanted else os.cpu_count() or 1
    # 200 shuffle partitions, Spark's default, are 200 tasks for a few thousand rows of state.
    return {**LOCALLY, "spark.sql.shuffle.partitions": str(cores)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
