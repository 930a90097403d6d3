"""Three Kafka brokers and a controller on loopback, which tests kill, freeze, restart and move while clients run.

The controller is a separate process that is never harmed, so that leaders can always be elected. Topics have three
replicas. Each broker is a rack of its own, named after it, and redirects clients of a rack to the replica there.
Changes are made with librdkafka's admin client and Kafka's own tools, never with penstock, which is under test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition, TopicPartitionInfo
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tools.peers import jvm, kafka
from tools.peers.java_server import JavaServer, start_together

BROKERS = (1, 2, 3)
_CONTROLLER = 100
_HEAP = "320m"
_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.1
_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

# A silent broker is noticed after this time (Kafka: 9 s); most tests wait for that.
_NOTICED_MS = 3_000

_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(_NOTICED_MS),
    "replica.lag.time.max.ms": str(_NOTICED_MS),
    # Only the test moves leaders, at the time that it chooses.
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "true",
}


class Cluster:
    """Runs within its block. Node ids are those of BROKERS. Raises maven.Unavailable if it is not available here."""

    def __init__(self, home: Path, version: str = kafka.NEWEST) -> None:
        self.version = version
        self._home = home
        self._id = kafka.cluster_id()
        ports = dict(zip((_CONTROLLER, *BROKERS), jvm.free_ports(1 + len(BROKERS)), strict=True))
        self._controller_port = ports[_CONTROLLER]
        self._nodes = {node_id: self._made(node_id, port) for node_id, port in ports.items()}

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT,127.0.0.1:PORT,…`` of all brokers."""
        return ",".join(self.endpoint(node_id) for node_id in BROKERS)

    @property
    def address(self) -> str:
        """The same as an address of ours."""
        return f"kafka://{self.bootstrap}"

    def endpoint(self, node_id: int) -> str:
        """``127.0.0.1:PORT`` of one broker."""
        return self._nodes[node_id].endpoint

    # Actions on brokers.

    def start(self, *node_ids: int) -> None:
        """Start these brokers (all if none is named) together, and wait until each serves requests."""
        start_together([self._nodes[node_id] for node_id in node_ids or BROKERS])

    def kill(self, *node_ids: int) -> None:
        """Send SIGKILL, also to a frozen broker."""
        for node_id in node_ids:
            self._nodes[node_id].kill()

    def stop(self, node_id: int) -> None:
        """Send SIGTERM: the broker moves its leaders to others first."""
        self._nodes[node_id].stop()

    def freeze(self, node_id: int) -> None:
        """Send SIGSTOP: its connections stay, but there are no responses."""
        self._nodes[node_id].freeze()

    def thaw(self, node_id: int) -> None:
        """Send SIGCONT."""
        self._nodes[node_id].thaw()

    def roll(self, topic: str) -> None:
        """Restart one broker after the other, as an upgrade does: the next one when ``topic`` is in sync again."""
        for node_id in BROKERS:
            self.stop(node_id)
            self.start(node_id)
            self.await_in_sync(topic)

    def replace(self, node_id: int) -> None:
        """Stop a broker, and start it with its data on another port, like a container that moves."""
        self.stop(node_id)
        self._nodes[node_id] = self._made(node_id, *jvm.free_ports(1))
        self.start(node_id)

    def unregister(self, node_id: int) -> None:
        """Make the controller forget a broker that is down, until it is started again."""
        self._tool("org.apache.kafka.tools.ClusterTool", "unregister", "--id", str(node_id))

    # Actions on topics.

    def create_topic(
        self, topic: str, partitions: int = 1, replicas: Sequence[Sequence[int]] | None = None, **config: str
    ) -> None:
        """Config keys have underscores instead of dots. ``replicas`` of each partition, the leader first."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        placed = [list(each) for each in replicas or (_round(first) for first in range(partitions))]
        wanted = NewTopic(topic, num_partitions=len(placed), replica_assignment=placed, config=settings)
        admin = self._admin()
        admin.create_topics([wanted], operation_timeout=30)[topic].result(30)
        self.await_in_sync(topic)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions, up to ``partitions`` in all."""
        admin = self._admin()
        admin.create_partitions([NewPartitions(topic, partitions)], operation_timeout=30)[topic].result(30)
        self.await_in_sync(topic)

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Move partitions to these brokers, and wait until the move is complete."""
        plan = self._home / f"{topic}-reassign.json"
        moves = [{"topic": topic, "partition": number, "replicas": [*to]} for number, to in replicas.items()]
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        self._tool("reassign", "--reassignment-json-file", str(plan), "--execute")
        for number, to in replicas.items():
            self.await_in_sync(topic, number, to)
        self.elect(topic, *replicas)

    def elect(self, topic: str, *partitions: int, unclean: bool = False) -> None:
        """Make the first replica of each the leader; ``unclean``: any running replica, if none in sync runs."""
        wanted = [TopicPartition(topic, number) for number in partitions]
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED

        def asked() -> bool:
            admin = self._admin()
            try:
                admin.elect_leaders(kind, wanted).result(30)
            except (KafkaException, TimeoutError):
                return False
            return all(self.leader(topic, number) in self._electable(topic, number, unclean) for number in partitions)

        self._await(f"an election in {topic}", asked)

    def _electable(self, topic: str, number: int, unclean: bool) -> Sequence[int]:
        if unclean:
            # A killed broker stays the leader, and none is elected, until the controller has noticed.
            return [node_id for node_id in BROKERS if self._nodes[node_id].runs]
        found = self.partition(topic, number)
        return [node.id for node in found.replicas[:1]] if found else []

    # The state of the cluster.

    def partition(self, topic: str, number: int) -> TopicPartitionInfo | None:
        """Leader, replicas, those in sync; None while the topic is unknown or no broker responds."""
        admin = self._admin()
        try:
            told = admin.describe_topics(TopicCollection([topic]), request_timeout=5)[topic].result(10)
        except KafkaException:
            return None
        return next((each for each in told.partitions if each.id == number), None)

    def leader(self, topic: str, number: int = 0) -> int:
        """The leader's id, 0 if there is none."""
        found = self.partition(topic, number)
        leader = getattr(found, "leader", None)  # it may be None, although its type excludes that
        return 0 if leader is None or leader.id not in BROKERS else int(leader.id)

    def await_in_sync(self, topic: str, number: int = 0, brokers: Sequence[int] = ()) -> None:
        """Wait until exactly these brokers (if none is named, all its replicas) are in sync for the partition."""

        def in_sync() -> bool:
            found = self.partition(topic, number)
            wanted = brokers or [node.id for node in found.replicas] if found else ()
            return found is not None and {node.id for node in found.isr} == set(wanted)

        self._await(f"{topic}-{number} in sync", in_sync)

    # Inside.

    def __enter__(self) -> Self:
        try:
            self._nodes[_CONTROLLER].launch()
            self.start()
        except BaseException:
            self.kill(*self._nodes)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self._nodes)

    def _made(self, node_id: int, port: int) -> JavaServer:
        """A node that can be started; its settings and its storage are created if they do not exist."""
        home = self._home / str(node_id)
        home.mkdir(parents=True, exist_ok=True)
        file = home / "server.properties"
        settings = {**kafka.properties(self.version, home), **_REPLICATED, **self._settings(node_id, port)}
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        if not (home / "data" / "meta.properties").exists():
            self._format(node_id, home, file)
        line = jvm.command(kafka.jars(self.version), "kafka.Kafka", [str(file)], heap=_HEAP, flags=jvm.QUICK)
        return JavaServer(name="broker", home=home, line=line, ready=lambda: kafka.answers(port), port=port)

    def _format(self, node_id: int, home: Path, file: Path) -> None:
        """Format the storage. A broker's is one small file, written without a JVM; a controller's has features, too."""
        if node_id == _CONTROLLER:
            kafka.format_storage(self.version, file, self._id, home / "broker.log")
            return
        lines = {"version": 1, "cluster.id": self._id, "node.id": node_id}
        (home / "data").mkdir()
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (home / "data" / "meta.properties").write_text(text)

    def _settings(self, node_id: int, port: int) -> dict[str, str]:
        quorum = {
            "controller.quorum.voters": f"{_CONTROLLER}@127.0.0.1:{self._controller_port}",
            "node.id": str(node_id),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        if node_id == _CONTROLLER:
            return {**quorum, "process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{port}"}
        ours = f"PLAINTEXT://127.0.0.1:{port}"
        racks = {"broker.rack": rack(node_id), "replica.selector.class": _SELECTOR}
        return {**quorum, "process.roles": "broker", "listeners": ours, "advertised.listeners": ours, **racks}

    def _admin(self) -> AdminClient:
        """A new client each time, since an old one may wait for a broker that is down. Keep a reference to it until it
        has responded."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def _tool(self, name: str, *arguments: str) -> None:
        """Run one of Kafka's tools; ``arguments`` may begin with its own verb."""
        kafka.tool(name, [*arguments, "--bootstrap-server", self.bootstrap], version=self.version)

    def _await(self, what: str, come: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while not come():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {_WITHIN_S:.0f} s for {what}; brokers' logs are in {self._home}")
            time.sleep(_LOOK_EVERY_S)


def rack(node_id: int) -> str:
    """The name of a broker's rack, for a client's ``client_rack``."""
    return f"rack-{node_id}"


def _round(first: int) -> list[int]:
    return [BROKERS[(first + step) % len(BROKERS)] for step in range(len(BROKERS))]
