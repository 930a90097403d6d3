"""The settings of the Spark application that this process plans for.

Spark passes no settings to its planning processes, and they have no SparkContext. But the driver's JVM is an ancestor:
its command line names settings and settings files, and the environment says where the defaults are. A driver that calls
``penstock.spark.session()`` or ``register()`` also passes the settings it made in its own code. ``_settings``
interprets them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["MASTER", "TOLD", "ancestors", "of_command_line", "of_properties", "settings"]

TOLD = "PENSTOCK_SPARK_SETTINGS"
"""Environment variable in which a driver passes its settings to its planners, as a JSON object."""

MASTER = "spark.master"
_MAIN = re.compile(r"org\.apache\.spark\.[\w.]+")
_GENERATIONS = 4
"""How many ancestors to look at: a planner is a child of the JVM, or of a daemon that is."""

_OPTIONS = {
    "--master": MASTER,
    "--num-executors": "spark.executor.instances",
    "--executor-cores": "spark.executor.cores",
    "--total-executor-cores": "spark.cores.max",
}
_SWITCHES = {"--help", "-h", "--load-spark-defaults", "--supervise", "--usage-error", "--verbose", "-v", "--version"}
_ENTRY = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[\s=:]\s*(.*?)\s*")
_ESCAPED = re.compile(r"\\(.)")


def settings(environment: Mapping[str, str] = os.environ) -> Mapping[str, str] | None:
    """Names and values of the visible settings, with a master; None if Spark does not seem to have started us."""
    result = environment.get(TOLD)
    if result:
        found: dict[str, str] = json.loads(result)
        return found
    for line in ancestors():
        given = of_command_line(line, environment)
        if given is not None:
            return {MASTER: environment.get("MASTER", "local[*]"), **given}
    return None


def of_command_line(line: Sequence[str], environment: Mapping[str, str]) -> dict[str, str] | None:
    """The settings in a command that starts Spark's JVM, and in the files it names; None for other commands."""
    main = next((place for place, word in enumerate(line) if _MAIN.fullmatch(word)), None)
    if main is None or "-cp" not in line[:main]:
        return None
    found = dict(word.removeprefix("-D").partition("=")[::2] for word in line[:main] if word.startswith("-Dspark."))
    words = iter(line[main + 1 :])
    files: list[str] = []
    with_defaults = False
    for word in words:
        if not word.startswith("-"):
            break  # the program; the words after it are its arguments
        name, given, value = word.partition("=")
        if name in _SWITCHES:
            with_defaults = with_defaults or name == "--load-spark-defaults"
            continue
        text = value if given else next(words, "")
        if name in {"--conf", "-c"}:
            found.update([text.partition("=")[::2]])
        elif name == "--properties-file":
            files.append(text)
        elif name in _OPTIONS:
            found[_OPTIONS[name]] = text
    for each in [*files, *(_defaults(environment) if with_defaults or not files else [])]:
        with suppress(OSError):
            found = {**of_properties(Path(each).read_text(encoding="utf-8", errors="replace")), **found}
    return found


def of_properties(text: str) -> dict[str, str]:
    """Parse a Java properties file as far as Spark's settings need it: no continued lines, no Unicode escapes."""
    entries = (_ENTRY.fullmatch(line) for line in text.splitlines())
    return {entry[1]: _ESCAPED.sub(r"\1", entry[2]) for entry in entries if entry is not None}


def ancestors() -> Iterator[list[str]]:
    """The command lines of this process's parent, its parent, and so on."""
    pid = os.getppid()
    for _ in range(_GENERATIONS):
        if pid <= 0:
            return
        try:
            line, pid = _process(pid)
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            return
        yield line


def _process(pid: int) -> tuple[list[str], int]:
    """The words of a process's command line, and its parent's number."""
    proc = Path("/proc") / str(pid)
    if proc.is_dir():
        line = (proc / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        # The name, in parentheses, may hold anything; after it: the state, the parent.
        return line, int((proc / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    asked = ["ps", "-ww", "-o", "ppid=", "-o", "command=", "-p", str(pid)]
    parent, *line = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=5).stdout.split()
    return line, int(parent)


def _defaults(environment: Mapping[str, str]) -> list[str]:
    folder = environment.get("SPARK_CONF_DIR") or (
        f"{environment['SPARK_HOME']}/conf" if environment.get("SPARK_HOME") else None
    )
    return [f"{folder}/spark-defaults.conf"] if folder else []
