"""Apache Kafka: a KRaft broker of one node on loopback, ready in one or two seconds, and Kafka's own Java tools.

The tools run against any bootstrap address, our snode's too. Jars are 54 MB a version.
"""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.peers import jvm, maven
from tools.peers.java_server import JavaServer

VERSIONS = ("3.9.2", "4.4.0")
NEWEST = VERSIONS[-1]
PREVIOUS = "4.3.1"
# connect-file and connect-mirror of 4.4.0 are not on Maven Central.
APP_VERSIONS = ("3.9.2", PREVIOUS)
NEWEST_APPS = APP_VERSIONS[-1]
SPARK_CONNECTOR = "4.2.0"

TOOLS = {
    "api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}

# Main classes with other names in older versions, by the prefix of the version.
_CONFIGS = {"configs": "kafka.admin.ConfigCommand"}
TOOLS_BEFORE = {
    "3.": {
        **_CONFIGS,
        "api-versions": "kafka.admin.BrokerApiVersionsCommand",
        "console-producer": "kafka.tools.ConsoleProducer",
        "dump-log": "kafka.tools.DumpLogSegments",
    },
    "4.3": _CONFIGS,
}


def jars(version: str = NEWEST) -> Path:
    """Broker and tools. Raises maven.Unavailable."""
    return maven.jars(f"kafka-{version}", "kafka.xml", {"kafka.version": version})


def app_jars(version: str = NEWEST_APPS) -> Path:
    """Streams, Connect's file connectors, MirrorMaker, which ``jars(version)`` lacks. Raises maven.Unavailable."""
    return maven.jars(f"kafka-apps-{version}", "kafka-apps.xml", {"kafka.version": version})


def spark_connector_jars(version: str = SPARK_CONNECTOR) -> Path:
    """spark-sql-kafka and its dependencies that PySpark does not have. Raises maven.Unavailable."""
    return maven.jars(f"spark-kafka-{version}", "spark-kafka.xml", {"spark.version": version})


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker; everything it writes is under ``home``."""

    version: str
    port: int
    home: Path
    pid: int
    log: Path = field(repr=False)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def tool(
        self, name: str, *arguments: str, text: str = "", timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """``tool`` against this broker with its own version; ``--bootstrap-server`` is added."""
        line = ["--bootstrap-server", self.bootstrap, *arguments]
        return tool(name, line, version=self.version, text=text, timeout_s=timeout_s)

    def create_topic(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Config keys have underscores instead of dots: ``retention_ms="1000"``."""
        settings = [part for key, value in config.items() for part in ("--config", f"{key.replace('_', '.')}={value}")]
        self.tool("topics", "--create", "--topic", topic, "--partitions", str(partitions), *settings)

    def await_cleaner(self, topic: str, partition: int, offset: int, *, timeout_s: float = 60.0) -> None:
        """Wait until the log cleaner has noted that it compacted up to ``offset``. Raises TimeoutError."""
        noted = self.home / "data" / "cleaner-offset-checkpoint"
        deadline = time.monotonic() + timeout_s
        while f"{topic} {partition} {offset}\n" not in (noted.read_text() if noted.exists() else ""):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not compacted up to {offset}; see {noted}")
            time.sleep(0.05)


@contextmanager
def broker(
    home: Path,
    version: str = NEWEST,
    *,
    settings: Mapping[str, str] | None = None,
    tls: Mapping[str, int] | None = None,
    heap: str = "512m",
    quick: bool = True,
) -> Iterator[Broker]:
    """A broker until the block ends. ``settings`` go to server.properties; ``quick=False`` for benchmarks.

    ``tls`` are further listeners: name to port. Their options (``listener.name.….ssl.…``) are in ``settings``.
    A ``home`` with the data of an earlier broker is used with that data.
    Raises maven.Unavailable if it is not available on this machine.
    """
    server = broker_process(home, version, settings=settings, tls=tls, heap=heap, quick=quick)
    server.start()
    try:
        yield Broker(version, server.port, home, server.pid, server.log)
    finally:
        server.stop()


@dataclass(slots=True, kw_only=True)
class BrokerProcess(JavaServer):
    """A broker that may be killed and started again, with the same port and data.

    After a kill it still has all acknowledged records, which are in its files; only a crash of the machine loses them.
    """

    @property
    def address(self) -> str:
        """``kafka://127.0.0.1:PORT``."""
        return f"kafka://{self.endpoint}"


def broker_process(
    home: Path,
    version: str = NEWEST,
    *,
    settings: Mapping[str, str] | None = None,
    tls: Mapping[str, int] | None = None,
    heap: str = "512m",
    quick: bool = True,
) -> BrokerProcess:
    """The same as ``broker``, but not started. Raises maven.Unavailable if it is not available on this machine."""
    port, controller = jvm.free_ports(2)
    flags = jvm.QUICK if quick else ()
    line = _prepared(home, version, {**_listeners(port, controller, tls or {}), **(settings or {})}, heap, flags)
    return BrokerProcess(name="broker", home=home, line=line, ready=lambda: answers(port), port=port)


def _listeners(port: int, controller: int, tls: Mapping[str, int]) -> dict[str, str]:
    """The listeners: PLAINTEXT at ``port``, those of ``tls``, and the controller's at ``controller``."""
    ours = [f"{name}://127.0.0.1:{at}" for name, at in {"PLAINTEXT": port, **tls}.items()]
    protocols = ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{name}:SSL" for name in tls)]
    return {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": ",".join([*ours, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(ours),
        "listener.security.protocol.map": ",".join(protocols),
    }


def _prepared(home: Path, version: str, settings: Mapping[str, str], heap: str, flags: Sequence[str]) -> list[str]:
    """Write the settings and format the storage in ``home``; returns the command that starts the broker."""
    lib = jars(version)
    home.mkdir(parents=True, exist_ok=True)
    file = home / "server.properties"
    lines = {**properties(version, home), **settings}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    if not (home / "data" / "meta.properties").exists():
        format_storage(version, file, cluster_id(), home / "broker.log")
    return jvm.command(lib, "kafka.Kafka", [str(file)], heap=heap, flags=flags)


def properties(version: str, home: Path) -> dict[str, str]:
    """Properties for tests of a broker that is a whole cluster and its own controller."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(home / "data"),
        # One node cannot replicate, and fewer internal partitions are ready sooner.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        # Tests write timestamps that are years old.
        "log.retention.ms": "-1",
    }
    if version.startswith("3."):  # KIP-848 is early access there
        settings |= {
            "group.coordinator.rebalance.protocols": "classic,consumer",
            "group.coordinator.new.enable": "true",
            "unstable.api.versions.enable": "true",
        }
    else:
        settings |= {
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "3",
        }
    return settings


def cluster_id() -> str:
    """A new cluster id."""
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:21]  # a leading "-" would read as an option


def format_storage(version: str, file: Path, cluster: str, log: Path) -> None:
    """Format the folders in ``file`` (server.properties) for this cluster. Raises maven.Unavailable."""
    arguments = ["format", "-t", cluster, "-c", str(file)]
    line = jvm.command(jars(version), "kafka.tools.StorageTool", arguments, flags=jvm.QUICK)
    with log.open("ab") as sink:
        run = subprocess.run(line, stdout=sink, stderr=sink, check=False)
    if run.returncode:
        raise maven.Unavailable(f"Kafka's storage tool failed; see {log}")


def answers(port: int) -> None:
    """Send ApiVersions v0 on loopback; raises OSError while there is no correct response."""
    with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
        body = struct.pack(">hhih4s", 18, 0, 7, 4, b"peer")
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as stream:
            head = stream.read(10)
    if len(head) < 10:
        raise ConnectionError("closed before it answered")
    correlation, error = struct.unpack_from(">ih", head, 4)
    if (correlation, error) != (7, 0):
        raise ConnectionError(f"answered {head.hex()}")


def tool_command(
    name: str, arguments: Sequence[str], *, version: str = NEWEST, heap: str = "512m", quick: bool = True
) -> list[str]:
    """The command line of a tool of Kafka's (a name in TOOLS, or any main class), for callers that keep it running."""
    before: Mapping[str, str] = next((TOOLS_BEFORE[each] for each in TOOLS_BEFORE if version.startswith(each)), {})
    main = before.get(name) or TOOLS.get(name, name)
    return jvm.command(jars(version), main, arguments, heap=heap, flags=jvm.QUICK if quick else ())


def tool(
    name: str, arguments: Sequence[str], *, version: str = NEWEST, text: str = "", timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end with ``text`` as its input. Raises subprocess.CalledProcessError with its output."""
    run = subprocess.run(
        tool_command(name, arguments, version=version),
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if run.returncode:
        error = subprocess.CalledProcessError(run.returncode, name, run.stdout, run.stderr)
        error.add_note(f"{name} said:\n{run.stdout[-1500:]}\n{run.stderr[-1500:]}")
        raise error
    return run
