"""How many tasks Spark can run at once, as far as its settings say. Pure.

What must not live here: where settings come from (``_launch``), and how ranges are cut (``_planning``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock._dataclasses import dataclass
from penstock.spark._launch import MASTER

__all__ = ["SETTINGS", "Slots", "slots"]

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
"""The settings that matter for this."""

_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_MANAGED = ("yarn", "k8s")
_EXECUTORS = 2
"""Executors that YARN and Kubernetes give a job by default, with one core each."""


@dataclass(frozen=True, slots=True)
class Slots:
    """``at_once``: tasks that run at the same time, None if unknown. ``apart``: not on this machine alone."""

    at_once: int | None
    apart: bool


def slots(settings: Mapping[str, str] | None, *, cores: int) -> Slots:
    """``settings`` are Spark's; None (they cannot be read) is taken for a cluster. ``cores`` are this machine's.

    Values that Spark would refuse count as unknown.
    """
    if settings is None:
        return Slots(None, apart=True)
    master = settings.get(MASTER, "local[*]")
    if (local := _LOCAL.fullmatch(master)) is not None:
        threads = local[1] or "1"
        return Slots(cores if threads == "*" else max(int(threads), 1), apart=False)
    if (told := _count(settings, "spark.default.parallelism")) is not None:
        return Slots(told, apart=True)
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
