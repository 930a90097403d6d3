"""Our drivers of Kafka's own Java client: its assignors alone, and a member of a group.

They are in java/kafka: ``Assign`` and ``Member``. What must not live here: what tests make of what they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tools.peers import java_driver, jvm, kafka

SOURCES = java_driver.SOURCES / "kafka"


@contextmanager
def driver(main: str, options: Mapping[str, str], *, version: str = kafka.NEWEST) -> Iterator[java_driver.Driver]:
    """A running driver until the block ends. Raises maven.Unavailable."""
    lib = kafka.jars(version)
    classes = java_driver.compiled(f"kafka-{version}", sorted(SOURCES.glob("*.java")), lib)
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    log = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    line = [jvm.java(), "-Xmx256m", *jvm.everywhere(), *jvm.QUICK, log, "-cp", f"{classes}:{lib}/*", main, *arguments]
    running = java_driver.Driver(line)
    try:
        running.wait(lambda it: it.events("ready"))
        yield running
    finally:
        running.stop()
