"""Facts about the machine on which a figure was measured; without them figures cannot be compared."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("numba", "numpy", "pyarrow", "pyspark", "confluent-kafka", "aiokafka", "kafka-python")


def facts() -> Mapping[str, str]:
    """CPU, cores, memory, kernel, Python, versions of ours and of the rivals, commit."""
    return {
        "CPU": _field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": str(os.cpu_count() or 0),
        "RAM": _memory(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Java": _java(),
        "penstock": _commit(),
        **{name: _version(name) for name in PACKAGES},
    }


def load() -> float:
    """The load average of the last minute; if it exceeds the number of cores, figures are worth little."""
    return round(os.getloadavg()[0], 2)


def _field(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _memory() -> str:
    kibibytes = _field("/proc/meminfo", "MemTotal").split()
    return f"{int(kibibytes[0]) / 2**20:.0f} GiB" if kibibytes else "unknown"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _first_line(*command: str) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    except FileNotFoundError:
        return "unknown"
    return next(iter((run.stdout + run.stderr).splitlines()), "unknown")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return _first_line(str(Path(home) / "bin" / "java") if home else "java", "-version").replace('"', "")


def _commit() -> str:
    return _first_line("git", "describe", "--always", "--dirty")
