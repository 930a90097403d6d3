"""TubeMQ's jars, our drivers compiled against them, and the command lines of both.

The drivers are the files of java/tubemq: ``Node`` starts the servers, ``Send``, ``Pull`` and ``Balance`` drive
TubeMQ's own client and print JSON lines. They need javac, once; nothing here needs a C compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.peers import java_driver, jvm, maven

SERVER = "2.4.0"
CLIENT = "1.13.0"  # the newest published version; the server runs with its core library
SOURCES = java_driver.SOURCES / "tubemq"

# SHA-256. The pom pins their dependencies by version.
SUMS = {
    f"tubemq-client-{CLIENT}.jar": "3a2c51d91b63d0cbdf8d9a6d8d0c2e0ac4c5f873fea2afc2bdde5ccbf978857e",
    f"tubemq-core-{CLIENT}.jar": "a277b2a0f1d0abf3b6c3dd1709a766fa2d48630d755fad2b848b8d572d298b23",
    f"tubemq-server-{SERVER}.jar": "9881defd3882c5ad4c3ad3d59d05897c2a25ce756c271eb189f1e14a02df7337",
}

# The server was written for Java 8 and needs these packages opened on 17; java.net keeps servers on one address.
OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)


def jars() -> Path:
    """Server, client and their dependencies: 67 jars, 28 MB. Raises maven.Unavailable."""
    versions = {"tubemq.server": SERVER, "tubemq.client": CLIENT}
    return maven.jars(f"tubemq-{SERVER}", "tubemq.xml", versions, goal="package", sums=SUMS)


def classes() -> Path:
    """Our drivers, compiled once for each state of their sources. Raises maven.Unavailable."""
    return java_driver.compiled("tubemq", sorted(SOURCES.glob("*.java")), jars(), beside=[SOURCES / "log4j2.xml"])


def command(
    main: str, arguments: Sequence[str], *, heap: str = "256m", quick: bool = True, flags: Sequence[str] = ()
) -> list[str]:
    """The command line of ``main``, a driver or a class of TubeMQ, with all jars on the class path."""
    made, lib = classes(), jars()
    fixed = [*jvm.everywhere(), f"-Dlog4j.configurationFile={made}/log4j2.xml", *OPENED]
    speed = jvm.QUICK if quick else ()
    return [jvm.java(), f"-Xmx{heap}", *speed, *fixed, *flags, "-cp", f"{made}:{lib}/*", main, *arguments]
