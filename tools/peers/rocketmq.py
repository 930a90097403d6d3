"""Apache RocketMQ: a name server and master brokers on loopback, over folders and ports that stay.

Everything is asked by raw frames of the remoting protocol (`ask`), so that no client has to be there. Brokers bind to
loopback, but for the port where standbys would connect: that one has no setting for its address.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.peers import jvm, maven
from tools.peers.maven import Unavailable

VERSION = "5.4.0"
NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"

# Requests of the remoting protocol; answers to all of them are 0 where it worked.
CREATE_TOPIC, BROKER_FACTS, ROUTE, CLUSTER = 17, 28, 105, 106

# SHA-256. What these need is pinned by their version's own poms.
SUMS = {
    f"rocketmq-broker-{VERSION}.jar": "bcfc93df212e807b6e5bd27f8c5d9062583f2eefc26d991db877c2f8adca7114",
    f"rocketmq-client-{VERSION}.jar": "c4e00458a6ee4395e0c15312b9439980e4eb43574f1f8f8f800fd88a520a765a",
    f"rocketmq-namesrv-{VERSION}.jar": "040287c2e52bd9561a8c59c5a33e7ceb879c8dc1bfd78be827493a1e92db7634",
}

_OPENED = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)
# A broker takes no messages on a disk as full as a test machine's may be, unless it is told so.
_BROKER_FLAGS = (
    "-XX:MaxDirectMemorySize=256m",
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.98",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.97",
)
_SMALL: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 1 << 26,
    "mappedFileSizeConsumeQueue": 600_000,
    "maxIndexNum": 100_000,
    "maxHashSlotNum": 20_000,
    "diskMaxUsedSpaceRatio": 95,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its code, the server's own words if it says no, what it is about, and its body."""

    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes


def jars() -> Path:
    """Name server, broker, Java's client and all they need: 86 MB. Raises maven.Unavailable."""
    return maven.jars(f"rocketmq-{VERSION}", "rocketmq.xml", {"rocketmq": VERSION}, sums=SUMS)


def ask(port: int, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Answer:
    """One request with a JSON header on a connection of its own, and its answer. Raises OSError."""
    words = {"code": code, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0}
    said = {**words, "extFields": {name: str(value) for name, value in (fields or {}).items()}}
    header = json.dumps(said).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        with connection.makefile("rb") as stream:
            size, kind_and_size = struct.unpack(">ii", _read(stream.read, 8))
            rest = _read(stream.read, size - 4)
    head, answered = rest[: kind_and_size & 0xFFFFFF], rest[kind_and_size & 0xFFFFFF :]
    found: dict[str, Any] = json.loads(head)
    if found["opaque"] != 1 or not found["flag"] & 1:
        raise OSError(f"no answer to our request: {found}")
    return Answer(found["code"], found.get("remark") or "", found.get("extFields") or {}, answered)


@dataclass(slots=True)
class Node:
    """The name server or a broker."""

    name: str
    port: int
    home: Path = field(repr=False)
    line: Sequence[str] = field(repr=False)
    ready: Callable[[], None] = field(repr=False)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Until it answers; a broker, until the name server knows it. Raises Unavailable."""
        log = self.home / f"{self.name}.log"
        environment = {**os.environ, "ROCKETMQ_HOME": str(self.home)}
        self.process = jvm.start(self.line, self.home, log, self.ready, environment)

    def kill(self) -> None:
        """SIGKILL and wait. Nothing if it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass(slots=True)
class Cluster:
    """A running name server and its brokers; everything they write is under ``home``."""

    home: Path
    names: Node
    brokers: list[Node]

    @property
    def address(self) -> str:
        """host:port of the name server, as RocketMQ's clients take it."""
        return self.names.address

    def known(self) -> list[str]:
        """Names of the brokers that the name server knows now."""
        answer = ask(self.names.port, CLUSTER)
        # Its JSON has numbers for keys, which no parser takes.
        return [node.name for node in self.brokers if f'"{node.address}"'.encode() in answer.body]

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """On every broker that runs; the name server hears of it at once. Raises RuntimeError."""
        wanted = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
        fixed = {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
        for node in (node for node in self.brokers if node.process is not None):
            answer = ask(node.port, CREATE_TOPIC, {**wanted, **fixed})
            if answer.code:
                raise RuntimeError(f"{topic} on {node.name}: {answer}")


@contextmanager
def cluster(home: Path, *, brokers: int = 1, settings: Mapping[str, object] | None = None) -> Iterator[Cluster]:
    """A cluster until the block ends; ``settings`` are brokers'. Raises maven.Unavailable where it cannot be had."""
    port, *_ = _ports()
    ini = _written(home / "names.conf", {"listenPort": port, "bindAddress": "127.0.0.1"})
    built = Cluster(home, Node("names", port, home, _line(home, NAME_SERVER, ini, "128m"), lambda: _answers(port)), [])
    built.brokers = [_broker(built, number, settings or {}) for number in range(1, brokers + 1)]
    try:
        for node in (built.names, *built.brokers):
            node.start()
        yield built
    finally:
        for node in (*built.brokers, built.names):
            node.kill()  # nobody reads what it would flush


def _broker(built: Cluster, number: int, settings: Mapping[str, object]) -> Node:
    # A broker also listens two ports below its own, for clients in a hurry.
    _, standbys, port = _ports()
    name, store = f"broker-{number}", built.home / f"store-{number}"
    own = {
        "brokerClusterName": "peers",
        "brokerName": name,
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "haListenPort": standbys,
        "namesrvAddr": built.names.address,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
    }
    ini = _written(built.home / f"{name}.conf", {**own, **_SMALL, **settings})

    def ready() -> None:
        _answers(port, BROKER_FACTS)
        if name not in built.known():
            raise OSError("the name server does not know it yet")

    return Node(name, port, built.home, _line(built.home, BROKER, ini, "512m", _BROKER_FLAGS), ready)


def _line(home: Path, main: str, ini: Path, heap: str, flags: Sequence[str] = ()) -> list[str]:
    # It logs to a folder in the user's home, whatever it is told.
    homes = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"]
    return jvm.command(jars(), main, ["-c", str(ini)], heap=heap, flags=[*jvm.QUICK, *_OPENED, *homes, *flags])


def _written(file: Path, settings: Mapping[str, object]) -> Path:
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    return file


def _answers(port: int, code: int = CLUSTER) -> None:
    answer = ask(port, code)
    if answer.code:
        raise OSError(f"{code}: {answer}")


def _read(read: Callable[[int], bytes], count: int) -> bytes:
    found = read(count)
    if len(found) < count:
        raise OSError("the server hung up")
    return found


def _ports() -> tuple[int, int, int]:
    """Three in a row, free now, and below what systems hand out by themselves."""
    for _ in range(1000):
        first = random.randrange(16_000, 32_000)
        with ExitStack() as held:
            try:
                for port in range(first, first + 3):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first, first + 1, first + 2
    raise Unavailable("no three free ports in a row")
