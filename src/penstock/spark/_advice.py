"""Spark settings that matter for a log's speed and safety, and advice where they should be different.

What must not live here: changing any of them (``_session`` does, for the sessions it makes).
"""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["FILTERS", "UNIX_SOCKETS", "advice", "advice_of", "warn_once"]

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
FILTERS = "spark.sql.python.filterPushdown.enabled"
_IN_WORKER = "PYTHON_UNIX_DOMAIN_ENABLED"
_PROGRAMS = {"daemon.py", "plan_data_source_read.py", "python_streaming_source_runner.py"}
_LOCAL = re.compile(r"local(\[[^,\]]*\])?")
_SLOW = (
    f"{UNIX_SOCKETS} is off: every Python task loses about 40 ms to the loopback network; "
    "start the session through penstock.spark.session(), or with PYSPARK_UDS_MODE=true in its environment"
)

_log = logging.getLogger("penstock.spark")
_said: set[str] = set()


def advice(spark: SparkSession) -> list[str]:
    """What to change in a session, most important first; empty if all is well."""
    return advice_of(lambda name, default: str(spark.conf.get(name, default)), spark.conf.get("spark.master", "") or "")


def advice_of(conf: Callable[[str, str], str], master: str) -> list[str]:
    """As ``advice``, for the settings that ``conf(name, default)`` returns."""
    found = []
    if conf(UNIX_SOCKETS, "false") != "true":
        found.append(_SLOW)
    if _LOCAL.fullmatch(master):
        found.append(f"master {master} does not retry a task that failed; local[N,4] tries it four times")
    if conf(FILTERS, "false") != "true":
        found.append(f"{FILTERS} is off: queries that filter on partition, offset or timestamp still read everything")
    return found


def warn_once(environment: Mapping[str, str] = os.environ, program: str | None = None) -> None:
    """In a Spark process that plans: warn, once per process, that it was started without Unix sockets.

    Spark sets a variable in its Python processes if they are on; ``program`` tells whether this is such a process.
    """
    spark_s = Path(sys.argv[0] if program is None else program).name in _PROGRAMS
    if spark_s and environment.get(_IN_WORKER, "").lower() != "true" and _SLOW not in _said:
        _said.add(_SLOW)
        _log.warning("%s", _SLOW)
