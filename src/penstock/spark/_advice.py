"""Settings of Spark that matter to a log's speed and safety, and what to say where they are not as they should be.

What must not live here: changing any of them (``_session`` does, for sessions it makes).
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

__all__ = ["FILTERS", "UNIX_SOCKETS", "advice", "advice_of", "say_once"]

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
    """The same of ``conf(name, default)``."""
    found = []
    if conf(UNIX_SOCKETS, "false") != "true":
        found.append(_SLOW)
    if _LOCAL.fullmatch(master):
        found.append(f"master {master} runs a task that failed no second time; local[N,4] tries four times")
    if conf(FILTERS, "false") != "true":
        found.append(f"{FILTERS} is off: filters on partition, offset and timestamp read everything and drop it")
    return found


def say_once(environment: Mapping[str, str] = os.environ, program: str | None = None) -> None:
    """In a process of Spark's that plans: tell, once a process, that it was started without Unix sockets.

    Spark sets a variable for its Python processes where they are on; ``program`` says whether this is one of those.
    """
    spark_s = Path(sys.argv[0] if program is None else program).name in _PROGRAMS
    if spark_s and environment.get(_IN_WORKER, "").lower() != "true" and _SLOW not in _said:
        _said.add(_SLOW)
        _log.warning("%s", _SLOW)
