"""Our drivers of Kafka's own Java clients: assignors alone, a member of a group, records one at a time, Kafka Streams.

They are in java/kafka, ``Assign``, ``Member`` and ``Small``, and in java/kafka-apps, ``Counts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.peers import java_driver, jvm, kafka

SOURCES = java_driver.SOURCES / "kafka"
APPS = java_driver.SOURCES / "kafka-apps"


@contextmanager
def driver(main: str, options: Mapping[str, str], *, version: str = kafka.NEWEST) -> Iterator[java_driver.Driver]:
    """A running driver until the block ends. Raises maven.Unavailable."""
    with _running(command(main, options, version=version)) as running:
        yield running


@contextmanager
def counts(options: Mapping[str, str], *, version: str = kafka.NEWEST_APPS) -> Iterator[java_driver.Driver]:
    """A running instance of the Streams application until the block ends; options with a dot are Streams' own."""
    libs = [kafka.jars(version), kafka.app_jars(version)]
    sources = [*sorted(APPS.glob("*.java")), SOURCES / "Lines.java"]
    classes = java_driver.compiled(f"kafka-apps-{version}", sources, *libs)
    with _running(_line("Counts", options, classes, libs)) as running:
        yield running


def command(
    main: str, options: Mapping[str, str], *, version: str = kafka.NEWEST, heap: str = "256m", quick: bool = True
) -> list[str]:
    """The command line of a driver; ``quick=False`` for benchmarks. Raises maven.Unavailable."""
    lib = kafka.jars(version)
    classes = java_driver.compiled(f"kafka-{version}", sorted(SOURCES.glob("*.java")), lib)
    return _line(main, options, classes, [lib], heap=heap, quick=quick)


def _line(
    main: str,
    options: Mapping[str, str],
    classes: Path,
    libs: Sequence[Path],
    *,
    heap: str = "256m",
    quick: bool = True,
) -> list[str]:
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    fixed = [*jvm.everywhere(), *(jvm.QUICK if quick else ()), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    path = ":".join([str(classes), *(f"{lib}/*" for lib in libs)])
    return [jvm.java(), f"-Xmx{heap}", *fixed, "-cp", path, main, *arguments]


@contextmanager
def _running(line: list[str]) -> Iterator[java_driver.Driver]:
    running = java_driver.Driver(line)
    try:
        running.wait(lambda it: it.events("ready"))
        yield running
    finally:
        running.stop()
