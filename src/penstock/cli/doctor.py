"""``penstock doctor``: is everything here that a fast and correct run needs, and if not, what to do."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

from penstock.cli.options import Json
from penstock.cli.output import show
from penstock.errors import PenstockError

Status = Literal["ok", "slow", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: "ok", "slow" (works, but costs), or "missing" (something cannot work)."""

    what: str
    status: Status
    detail: str


def doctor(
    address: Annotated[str, typer.Argument(help="A log to try to reach, for example kafka://127.0.0.1:9092.")] = "",
    json: Json = False,
) -> None:
    """Check Python, Java, Spark, kernels, caches and (with an address) the log. Ends 1 if something is missing."""
    looks: list[Callable[[], Finding]] = [_python, _java, _spark, _unix_sockets, _kernel, _memory]
    found = [look() for look in looks]
    if address:
        found.extend(_log(address))
    rows = ({"check": each.what, "status": each.status, "detail": each.detail} for each in found)
    show(rows, ("check", "status", "detail"), as_json=json, title="penstock doctor")
    raise typer.Exit(1 if any(each.status == "missing" for each in found) else 0)


def _python() -> Finding:
    enough = sys.version_info >= (3, 11)
    detail = f"{platform.python_version()} at {sys.executable}"
    return Finding("python", "ok" if enough else "missing", detail if enough else f"{detail}; 3.11 or newer is needed")


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return Finding("java", "missing", "no Java found (Spark needs 17 or newer): set JAVA_HOME, or use ./dev")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', told.stderr)
    version = int(match[1]) if match else 0
    if version < 17:
        return Finding("java", "missing", f"{java} is version {version or 'unknown'}; Spark needs 17 or newer")
    return Finding("java", "ok", f"{version} at {java}")


def _spark() -> Finding:
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Finding("pyspark", "missing", "not installed: pip install 'penstock[spark]'")
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < (4, 2):
        return Finding("pyspark", "missing", f"{version}; streaming needs 4.2 or newer (admission control)")
    return Finding("pyspark", "ok", version)


def _unix_sockets() -> Finding:
    if os.environ.get("PYSPARK_UDS_MODE", "").lower() == "true":
        return Finding("unix sockets", "ok", "PYSPARK_UDS_MODE=true")
    return Finding(
        "unix sockets",
        "slow",
        "PYSPARK_UDS_MODE is not set: each Spark task loses about 40 ms; "
        "set it to true before the session starts, or use penstock.spark.session()",
    )


def _kernel() -> Finding:
    from penstock import kernels

    try:
        name = kernels.name()
    except PenstockError as error:
        return Finding("kernel", "missing", str(error))
    if name == "numba":
        return Finding("kernel", "ok", "numba")
    return Finding("kernel", "slow", f"{name}: decoding is about 20 times slower than with numba (pip install numba)")


def _memory() -> Finding:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return Finding("memory", "ok", "unknown on this system")
    gib = pages * size / 2**30
    return Finding("memory", "ok" if gib >= 4 else "slow", f"{gib:.1f} GiB, {os.cpu_count()} cores")


def _log(address: str) -> Iterator[Finding]:
    from penstock.client import Admin

    try:
        with Admin(address) as admin:
            topics = admin.topics()
    except PenstockError as error:
        yield Finding("log", "missing", str(error))
        return
    partitions = sum(len(topic.partitions) for topic in topics.values())
    yield Finding("log", "ok", f"{address}: {len(topics)} topics, {partitions} partitions")
    leaderless = [str(info.partition) for topic in topics.values() for info in topic.partitions if not info.leader]
    if leaderless:
        yield Finding("leaders", "missing", f"no leader for {', '.join(leaderless[:5])}")
