"""Interprets Spark's settings: how many tasks run at once (`slots`), and advice for speed and safety (`advice`)."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock.spark._launch import MASTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["FILTERS", "SETTINGS", "UNIX_SOCKETS", "Slots", "advice", "advice_of", "slots", "warn_once"]

SETTINGS = (
    MASTER,
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.task.cpus",
)
"""The settings that `slots` reads."""

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_MANAGED = ("yarn", "k8s")
_EXECUTORS = 2
"""Executors that YARN and Kubernetes give a job by default, with one core each."""


class Slots(Struct, frozen=True):
    """``at_once``: tasks that run at the same time, None if unknown. ``apart``: they run on other machines, too."""

    at_once: int | None
    apart: bool


def slots(settings: Mapping[str, str] | None, *, cores: int) -> Slots:
    """``settings`` are Spark's; None (unreadable) is treated as a cluster. ``cores`` are this machine's.

    Values that Spark would refuse count as unknown.
    """
    if settings is None:
        return Slots(None, apart=True)
    master = settings.get(MASTER, "local[*]")
    if (local := _LOCAL.fullmatch(master)) is not None:
        threads = local[1] or "1"
        return Slots(cores if threads == "*" else max(int(threads), 1), apart=False)
    if (result := _count(settings, "spark.default.parallelism")) is not None:
        return Slots(result, apart=True)
    if (pretended := _LOCAL_CLUSTER.fullmatch(master)) is not None:
        return Slots(int(pretended[1]) * int(pretended[2]), apart=True)
    all_cores = _cores(settings, managed=master.startswith(_MANAGED))
    each = _count(settings, "spark.task.cpus") or 1
    return Slots(None if all_cores is None else max(all_cores // each, 1), apart=True)


def _cores(settings: Mapping[str, str], *, managed: bool) -> int | None:
    """Cores of all executors once they run; None if unknown: a standalone master's cores are not a setting."""
    per_executor = _count(settings, "spark.executor.cores") or (1 if managed else None)
    if settings.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        executors = _count(settings, "spark.dynamicAllocation.maxExecutors")
    else:
        executors = _count(settings, "spark.executor.instances") or (_EXECUTORS if managed else None)
    together = executors * per_executor if executors and per_executor else None
    most = None if managed else _count(settings, "spark.cores.max")
    return min((each for each in (together, most) if each is not None), default=None)


def _count(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) else None


# Advice about settings that affect a log's speed and safety.
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
FILTERS = "spark.sql.python.filterPushdown.enabled"
_IN_WORKER = "PYTHON_UNIX_DOMAIN_ENABLED"
_PROGRAMS = {"daemon.py", "plan_data_source_read.py", "python_streaming_source_runner.py"}
_LOCAL_MASTER = re.compile(r"local(\[[^,\]]*\])?")
_SLOW = (
    f"{UNIX_SOCKETS} is off: every Python task loses about 40 ms to the loopback network; "
    "start the session through penstock.spark.session(), or with PYSPARK_UDS_MODE=true in its environment"
)

_log = logging.getLogger("penstock.spark")
_said: set[str] = set()


def advice(spark: SparkSession) -> list[str]:
    """Settings to change in a session, most important first; empty if there are none."""
    return advice_of(lambda name, default: str(spark.conf.get(name, default)), spark.conf.get("spark.master", "") or "")


def advice_of(conf: Callable[[str, str], str], master: str) -> list[str]:
    """The same for the settings that ``conf(name, default)`` returns."""
    found = []
    if conf(UNIX_SOCKETS, "false") != "true":
        found.append(_SLOW)
    if _LOCAL_MASTER.fullmatch(master):
        found.append(f"master {master} does not retry a task that failed; local[N,4] tries it four times")
    if conf(FILTERS, "false") != "true":
        found.append(f"{FILTERS} is off: queries that filter on partition, offset or timestamp still read everything")
    return found


def warn_once(environment: Mapping[str, str] = os.environ, program: str | None = None) -> None:
    """In a planning process, warn once that Spark was started without Unix sockets.

    Spark sets a variable in its Python processes if they are on; ``program`` shows whether this is such a process.
    """
    spark_s = Path(sys.argv[0] if program is None else program).name in _PROGRAMS
    if spark_s and environment.get(_IN_WORKER, "").lower() != "true" and _SLOW not in _said:
        _said.add(_SLOW)
        _log.warning("%s", _SLOW)
