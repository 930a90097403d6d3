"""RocketMQ's jars, our drivers compiled against them, and the command lines of both.

The drivers are in java/rocketmq: ``Send``, ``Push`` and ``Lite`` drive RocketMQ's own client and print JSON lines.
They need javac once per version; java/Loopback starts the servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.peers import java_driver, jvm, maven

SOURCES = java_driver.SOURCES / "rocketmq"


@dataclass(frozen=True, slots=True)
class Release:
    """Jars of one release, with their SHA-256; their own poms pin their dependencies."""

    client: str
    pom: str
    sums: Mapping[str, str]


RELEASES: Mapping[str, Release] = {
    "4.9.4": Release(
        "4.9.4",
        "rocketmq-4.9.xml",
        {
            "rocketmq-broker-4.9.4.jar": "80df5f2735318302369271bab1a5ed7e360ab7bad5c2c8c1d5b2404fc64f8395",
            "rocketmq-client-4.9.4.jar": "9dab606cb80e30852497486a2f7f269a7b5dc4a79d67880e904ec45a6f571d93",
            "rocketmq-namesrv-4.9.4.jar": "7d2c4cb53a4f7a2164a1de38e6c93491b8bc9ea0b759e7344a77fcecd188bec5",
            "rocketmq-tools-4.9.4.jar": "1c9e6e3f79d5e3ac05d67941c24536a414417e23068ec7b2190eb25c1ef83ebe",
        },
    ),
    "4.9.7": Release(
        "4.9.8",
        "rocketmq-4.9.xml",
        {
            "rocketmq-broker-4.9.7.jar": "5b00b38044312fa567a8c5a59270f70ed1707076bbfb39b85d726dff33f780e3",
            "rocketmq-client-4.9.8.jar": "242a4d5aab16948dfc6f890f52ebdf65ec498835ef6d3a09fbc345bdb86c6e93",
            "rocketmq-namesrv-4.9.7.jar": "776fa2ecee8af1e3802ee27e6cbc4ac337baabdada80ebd5f68c58f35b94771c",
            "rocketmq-tools-4.9.8.jar": "c57550534b723efc224d097b014a00666fb36e7a67b7f1cb8ef27409857e56bf",
        },
    ),
    "5.4.0": Release(
        "5.4.0",
        "rocketmq-5.xml",
        {
            "rocketmq-broker-5.4.0.jar": "bcfc93df212e807b6e5bd27f8c5d9062583f2eefc26d991db877c2f8adca7114",
            "rocketmq-client-5.4.0.jar": "c4e00458a6ee4395e0c15312b9439980e4eb43574f1f8f8f800fd88a520a765a",
            "rocketmq-namesrv-5.4.0.jar": "040287c2e52bd9561a8c59c5a33e7ceb879c8dc1bfd78be827493a1e92db7634",
            "rocketmq-proxy-5.4.0.jar": "fd0b2c2a25ff638865a751b3a27d5f04f363dce378a424b416bb713aa11098c0",
            "rocketmq-tools-5.4.0.jar": "20bffa972838d41e4aaf0fca6675770fde14c617965a0e3ec43f6508c7858ea3",
        },
    ),
}
OLDEST = "4.9.4"
"""The last version whose client names no broker in its requests; only its producer and push consumer have drivers."""
VERSIONS = tuple(version for version in RELEASES if version != OLDEST)
NEWEST = VERSIONS[-1]

# The jars were written for Java 8 and need these packages opened on 17; java.net is for Loopback.
OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)


_LITE = "Lite.java"
# The log settings of 4.x. 5.x has its own, and logs below its user's home.
_LOGGING = """\
<configuration>
  <appender name="log" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5p %c{1} %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="log"/></root>
</configuration>
"""


def jars(version: str = NEWEST) -> Path:
    """Name server, broker, Java's client, mqadmin, and from 5.0 on the Proxy. Raises maven.Unavailable."""
    release = RELEASES[version]
    versions = {"rocketmq.server": version, "rocketmq.client": release.client}
    return maven.jars(f"rocketmq-{version}-{release.client}", release.pom, versions, sums=release.sums)


def classes(version: str = NEWEST) -> Path:
    """Our drivers, compiled once for each state of their sources. Raises maven.Unavailable."""
    sources = sorted(SOURCES.glob("*.java"))
    if version == OLDEST:
        sources = [each for each in sources if each.name != _LITE]  # this version cannot report its assignment yet
    return java_driver.compiled(f"rocketmq-{version}", sources, jars(version))


def command(
    main: str,
    arguments: Sequence[str],
    *,
    home: Path,
    version: str = NEWEST,
    heap: str = "256m",
    quick: bool = True,
    flags: Sequence[str] = (),
) -> list[str]:
    """The command line of ``main``, a driver or a class of RocketMQ. Its logs and offsets are below ``home``."""
    homes = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-Drocketmq.client.logLevel=WARN"]
    fixed = [*jvm.everywhere(), *OPENED, *homes, *(jvm.QUICK if quick else ())]
    path = f"{classes(version)}:{jars(version)}/*"
    return [jvm.java(), f"-Xmx{heap}", *fixed, *flags, "-cp", path, main, *arguments]


def furnished(home: Path) -> Path:
    """``home``, with the files that 4.x needs to start."""
    for user in ("namesrv", "broker", "tools"):
        file = home / "conf" / f"logback_{user}.xml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_LOGGING, encoding="utf-8")
    return home
