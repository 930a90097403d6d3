"""Our drivers of Kafka's own Java client: its assignors alone, a member of a group, an application of Kafka Streams.

They are in java/kafka, ``Assign`` and ``Member``, and in java/kafka-apps, ``Counts``. What must not live here: what
tests make of what they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.peers import java_driver, jvm, kafka

SOURCES = java_driver.SOURCES / "kafka"
APPS = java_driver.SOURCES / "kafka-apps"


@contextmanager
def driver(main: str, options: Mapping[str, str], *, version: str = kafka.NEWEST) -> Iterator[java_driver.Driver]:
    """A running driver until the block ends. Raises maven.Unavailable."""
    lib = kafka.jars(version)
    classes = java_driver.compiled(f"kafka-{version}", sorted(SOURCES.glob("*.java")), lib)
    with _running([classes], [lib], main, options) as running:
        yield running


@contextmanager
def counts(options: Mapping[str, str], *, version: str = kafka.NEWEST) -> Iterator[java_driver.Driver]:
    """A running instance of the Streams application, likewise; options with a dot are Streams' own."""
    libs = [kafka.jars(version), kafka.app_jars(version)]
    sources = [*sorted(APPS.glob("*.java")), SOURCES / "Lines.java"]
    classes = java_driver.compiled(f"kafka-apps-{version}", sources, *libs)
    with _running([classes], libs, "Counts", options) as running:
        yield running


@contextmanager
def _running(
    classes: list[Path], libs: list[Path], main: str, options: Mapping[str, str]
) -> Iterator[java_driver.Driver]:
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    path = ":".join([*map(str, classes), *(f"{lib}/*" for lib in libs)])
    line = [jvm.java(), "-Xmx256m", *jvm.everywhere(), *jvm.QUICK, log, "-cp", path, main, *arguments]
    running = java_driver.Driver(line)
    try:
        running.wait(lambda it: it.events("ready"))
        yield running
    finally:
        running.stop()
