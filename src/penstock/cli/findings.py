"""The checks that `doctor` makes on this machine: one function per check, with one finding each."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from penstock.errors import PenstockError
from penstock.extras import EXTRAS, absent

Status = Literal["ok", "slow", "absent", "missing"]

SPARK_NEEDS: Final = (4, 2)
JAVA_NEEDS: Final = 17
_SMALL_GIB: Final = 4.0


class Finding(Struct, frozen=True):
    """The result of one check.

    "ok"; "slow": works, but slowly; "absent": an optional part is not installed; "missing": something cannot work.
    """

    what: str
    status: Status
    detail: str


def of_this_machine() -> list[Finding]:
    """All findings except those about the log."""
    spark = pyspark(installed("pyspark"))
    found = [python(sys.version_info[:3]), spark]
    if spark.status != "absent":
        found += [java(os.environ), unix_sockets(os.environ)]
    return [*found, kernel(), checksums(), memory(), *extras()]


def extras() -> list[Finding]:
    """The extras that are not installed; Spark and the kernel have findings of their own."""
    missing = [each for each in absent() if each.name not in {"fast", "spark"}]
    return [Finding(f"extra {each.name}", "absent", f"would bring {each.brings}: {each.command}") for each in missing]


def installed(name: str) -> str | None:
    """The version of a package, None if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def python(version: tuple[int, ...]) -> Finding:
    """Whether this Python is new enough."""
    detail = f"{'.'.join(map(str, version))} at {sys.executable}"
    if version < (3, 11):
        return Finding("python", "missing", f"{detail}; 3.11 or newer is needed")
    return Finding("python", "ok", detail)


def pyspark(version: str | None) -> Finding:
    """Whether PySpark is installed, in a version with admission control for Python sources."""
    if version is None:
        return Finding("pyspark", "absent", f"only Spark jobs need it: {EXTRAS['spark'].command}")
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < SPARK_NEEDS:
        return Finding("pyspark", "missing", f"{version}; streaming needs 4.2 or newer: {EXTRAS['spark'].command}")
    return Finding("pyspark", "ok", version)


def java(environment: Mapping[str, str]) -> Finding:
    """Whether Spark finds a Java that it supports: in JAVA_HOME, else on the PATH, as Spark looks for it."""
    import re
    import shutil
    import subprocess

    home = environment.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if command is None:
        return Finding("java", "missing", "Spark needs Java 17 or newer: install one, or set JAVA_HOME")
    try:
        ran = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        where = f"JAVA_HOME={home} has no working bin/java" if home else f"{command} does not run"
        return Finding("java", "missing", f"{where} ({error.__class__.__name__}); Spark needs Java 17 or newer")
    match = re.search(r'version "(\d+)', ran.stderr)
    version = int(match[1]) if match else 0
    if version < JAVA_NEEDS:
        return Finding("java", "missing", f"{command} is version {version or 'unknown'}; Spark needs 17 or newer")
    return Finding("java", "ok", f"{version} at {command}")


def unix_sockets(environment: Mapping[str, str]) -> Finding:
    """Whether Spark talks to its Python workers over Unix sockets, without TCP's delays."""
    if environment.get("PYSPARK_UDS_MODE", "").lower() == "true":
        return Finding("unix sockets", "ok", "PYSPARK_UDS_MODE=true")
    return Finding(
        "unix sockets",
        "slow",
        "PYSPARK_UDS_MODE is not set: each Spark task loses about 40 ms; "
        "set it to true before the session starts, or use penstock.spark.session()",
    )


def kernel() -> Finding:
    """Whether decoding runs compiled."""
    from penstock import kernels

    try:
        name = kernels.name()
    except PenstockError as error:
        return Finding("kernel", "missing", str(error))
    if name == "pure":
        return Finding("kernel", "slow", "pure: NumPy decodes; `pip install 'penstock[fast]'` brings compiled code")
    from penstock.kernels.cache import MAIN, folder, is_warm
    from penstock.kernels.warm import homes

    kept = folder(MAIN)
    if kept is None:
        return Finding(
            "kernel", "slow", "numba, compiled again by every process (20 s): no folder can be used to keep the code"
        )
    if not all(map(is_warm, homes())):
        return Finding(
            "kernel", "slow", "numba, not compiled here yet: `python -m penstock.kernels.warm` does it (20 s)"
        )
    return Finding("kernel", "ok", f"numba, compiled code in {kept}")


def checksums() -> Finding:
    """Whether checksums are computed by the processor."""
    from google_crc32c import implementation

    if implementation == "c":
        return Finding("checksums", "ok", "google-crc32c, compiled")
    return Finding(
        "checksums", "slow", "google-crc32c runs in plain Python: pip install --force-reinstall google-crc32c"
    )


def memory() -> Finding:
    """Whether there is enough memory for Spark and a node."""
    try:
        gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError):
        return Finding("memory", "ok", "unknown on this system")
    detail = f"{gib:.1f} GiB, {os.cpu_count()} cores"
    if gib < _SMALL_GIB:
        return Finding("memory", "slow", f"{detail}; Spark and a node need 4 GiB or more")
    return Finding("memory", "ok", detail)
