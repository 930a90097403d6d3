"""Apache TubeMQ: masters and brokers on loopback, ready in about three seconds, and their administration over HTTP.

Ports of a cluster never change, so its nodes can be stopped, killed and restarted while clients are connected.
"""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.peers import jvm, tubemq_java
from tools.peers.java_server import JavaServer, start_together

VERSION = tubemq_java.SERVER
TOKEN = "peer"
MASTER = "org.apache.inlong.tubemq.server.tools.MasterStartup"
BROKER = "org.apache.inlong.tubemq.server.tools.BrokerStartup"
WITHIN_S = 60.0
LASTING_S = 1.5

Ini = Mapping[str, Mapping[str, object]]


@dataclass(slots=True, kw_only=True)
class Node(JavaServer):
    """A master or a broker. A broker takes 4 s to flush when it is stopped.

    If it is killed, it loses unflushed messages, even acknowledged ones.
    """

    web_port: int

    def web(self, method: str, **parameters: object) -> dict[str, Any]:
        """One call of its HTTP interface. Raises OSError while it does not respond."""
        query = urllib.parse.urlencode({"method": method, **parameters})
        url = f"http://{self.host}:{self.web_port}/webapi.htm?{query}"
        with urllib.request.urlopen(url, timeout=10.0) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found


@dataclass(slots=True)
class Cluster:
    """Running masters and brokers; their files are under ``home``."""

    home: Path
    masters: list[Node]
    brokers: list[Node]

    @property
    def address(self) -> str:
        """host:port of every master, with commas, for TubeMQ's clients."""
        return ",".join(master.endpoint for master in self.masters)

    @property
    def url(self) -> str:
        """The same as an address for our clients."""
        return f"tubemq://{self.address}"

    @property
    def master(self) -> Node:
        return self.masters[0]

    @property
    def broker(self) -> Node:
        return self.brokers[0]

    def admin(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call the active master; changes are signed. ``data`` is a list. Raises RuntimeError if it refuses."""
        signed = {"confModAuthToken": TOKEN, "createUser": "peer", "modifyUser": "peer", **parameters}
        trouble: object = "no master runs"
        for master in self.masters:
            if not master.runs:
                continue
            try:
                answer = master.web(method, **signed)
            except OSError as error:  # also if a standby redirects to an active master that is gone
                trouble = error
                continue
            return _agreed(method, answer)
        raise OSError(f"{method}: {trouble}")

    def broker_admin(self, method: str, *, broker: int = 1, **parameters: object) -> dict[str, Any]:
        """The same for a broker, by its number. Raises RuntimeError, OSError."""
        return _agreed(method, self.brokers[broker - 1].web(method, modifyUser="peer", **parameters))

    def create_topics(
        self, *topics: str, partitions: int = 1, stores: int = 1, brokers: Sequence[int] = (), **properties: object
    ) -> None:
        """Create topics on all brokers, or on ``brokers``; returns when they are writable and readable (about 1.5 s).

        A topic has stores × partitions partitions per broker, with ids store * 10000 + partition. A name needs at least
        two letters.
        """
        ids = ",".join(str(number) for number in brokers or range(1, len(self.brokers) + 1))
        wanted = {"numPartitions": partitions, "numTopicStores": stores, **properties}
        self.admin("admin_add_topic_deploy_info", topicName=",".join(topics), brokerId=ids, **wanted)
        _until("topics", lambda: all(self.offers(topic) for topic in topics) and self.settled())

    def offers(self, topic: str) -> bool:
        """Whether all partitions of the topic are writable and readable now."""
        rows = self.admin("admin_query_topic_info", topicName=topic).get("data") or [{}]
        row = rows[0]
        whole = row.get("totalRunNumPartCount", 0) >= row.get("totalCfgNumPartCount", 1)
        return bool(row.get("isSrvAcceptPublish") and row.get("isSrvAcceptSubscribe") and whole)

    def settled(self) -> bool:
        """Whether every running broker is registered, without a pending change of its topics."""
        rows = self.admin("admin_query_broker_run_status").get("data") or []
        states = {row["brokerId"]: (row.get("runStatus"), row.get("subStatus")) for row in rows}
        running = [number for number, node in enumerate(self.brokers, 1) if node.runs]
        return all(states.get(number) == ("running", "idle") for number in running)

    def wait_settled(self) -> None:
        """Wait until `settled` is true for 1.5 s: after a restart the master may not have noticed yet that a node was
        gone."""
        since = time.monotonic()

        def lasting() -> bool:
            nonlocal since
            if not self.settled():
                since = time.monotonic()
            return time.monotonic() - since > LASTING_S

        _until("the brokers", lasting)

    def ends(self, topic: str) -> dict[tuple[int, int], tuple[int, int]]:
        """(broker, partition id) → (first, end) offset; each message in the partition's store adds 28."""
        found = {}
        for number, node in enumerate(self.brokers, 1):
            if node.runs:
                rows = self.broker_admin("admin_query_pubinfo", broker=number, topicName=topic).get("dataSet", [])
                for part in (part for row in rows for part in row["offsetInfo"]):
                    found[number, part["partitionId"]] = (part["offsetMin"], part["offsetMax"])
        return found

    def committed(self, group: str, topic: str) -> dict[tuple[int, int], int]:
        """(broker, partition id) → the group's committed offset; a new group is known 5 s after its first commit."""
        found: dict[tuple[int, int], int] = {}
        for number, node in enumerate(self.brokers, 1):
            if node.runs:
                asked = {"groupName": group, "topicName": topic}
                rows = self.broker_admin("admin_query_offset", broker=number, **asked).get("dataSet", [])
                parts = (part for row in rows for info in row["subInfo"] for part in info["offsets"])
                found |= {(number, part["partitionId"]): part["curOffset"] for part in parts}
        return found

    def wait_committed(self, group: str, topic: str, partitions: int) -> dict[tuple[int, int], int]:
        """Wait until the brokers know offsets of so many partitions; returns ``committed``."""
        _until(f"group {group}", lambda: len(self.committed(group, topic)) >= partitions)
        return self.committed(group, topic)


def _agreed(method: str, answer: dict[str, Any]) -> dict[str, Any]:
    rows = [row for row in answer.get("data") or [] if isinstance(row, dict)]
    if not answer.get("result", True) or any(row.get("success") is False for row in rows):
        raise RuntimeError(f"{method}: {answer}")
    return answer


@contextmanager
def cluster(
    home: Path,
    *,
    masters: int = 1,
    brokers: int = 1,
    master_settings: Mapping[str, object] | None = None,
    broker_settings: Mapping[str, object] | None = None,
    heap: str = "512m",
    quick: bool = True,
) -> Iterator[Cluster]:
    """A cluster until the block ends; it balances groups every second.

    Broker n listens on 127.0.0.n, because a master accepts one broker per address. Several masters elect one of them;
    two of three must run. ``quick=False`` for benchmarks: Java's own choice of compiler and collector.
    Raises maven.Unavailable if it is not available here, TimeoutError if it does not start.
    """
    _layout(home)
    built = Cluster(home, _masters(home, masters, master_settings or {}, quick), [])
    built.brokers = [
        _broker(home, number, built.address, broker_settings or {}, heap, quick) for number in range(1, brokers + 1)
    ]
    try:
        for node in built.masters:
            node.start()
        _until("an active master", lambda: built.admin("admin_query_broker_run_status") is not None)
        for number, node in enumerate(built.brokers, 1):
            _announce(built, number, node)
        start_together(built.brokers)
        _until("the brokers", built.settled)
        yield built
    finally:
        for node in [*built.brokers, *built.masters]:
            node.kill()  # a proper stop takes 4 s per broker, and its data is not used any more


def _masters(home: Path, count: int, settings: Mapping[str, object], quick: bool) -> list[Node]:
    ports = [jvm.free_ports(4) for _ in range(count)]
    nodes = []
    for number, (port, web, metadata, metrics) in enumerate(ports, 1):
        own = {"hostName": "127.0.0.1", "port": port, "webPort": web, "confModAuthToken": TOKEN}
        ini: Ini = {
            "master": own | {"consumerBalancePeriodMs": 1000, "webResourcePath": "resources"} | dict(settings),
            "meta_bdb": {
                "repNodeName": f"master{number}",
                "metaDataPath": f"var/meta-{number}",
                "repNodePort": metadata,
                "repHelperHost": f"127.0.0.1:{ports[0][2]}",  # the first one is its own helper, and becomes active
            },
            "prometheus": {"promEnable": "true", "promHttpPort": metrics},  # if off, it would still open a fixed port
        }
        name = f"master-{number}"
        line = _line(home, name, MASTER, ini, "127.0.0.1", "256m", quick)
        nodes.append(_node(name, "127.0.0.1", port, web, home, line))
    return nodes


def _broker(home: Path, number: int, masters: str, settings: Mapping[str, object], heap: str, quick: bool) -> Node:
    port, web, metrics = jvm.free_ports(3)
    host, name = f"127.0.0.{number}", f"broker-{number}"
    own = {"brokerId": number, "hostName": host, "port": port, "webPort": web, "masterAddressList": masters}
    disk = {"primaryPath": f"var/data-{number}", "maxSegmentSize": 1 << 27, "transferSize": 1 << 19}
    ini: Ini = {
        "broker": own | disk | {"heartbeatPeriodMs": 500} | dict(settings),
        "prometheus": {"promEnable": "true", "promHttpPort": metrics},
    }
    return _node(name, host, port, web, home, _line(home, name, BROKER, ini, host, heap, quick))


def _node(name: str, host: str, port: int, web: int, home: Path, line: Sequence[str]) -> Node:
    """A node; it is ready when its web page responds and its port is open."""

    def ready() -> None:
        socket.create_connection((host, web), timeout=1.0).close()

    return Node(name=name, host=host, port=port, web_port=web, home=home, line=line, ready=ready)


def _announce(built: Cluster, number: int, node: Node) -> None:
    """Register a broker at the master; a broker that its master does not know ends at once."""
    if not built.admin("admin_query_broker_configure", brokerId=number).get("data"):
        where = {"brokerId": number, "brokerIp": node.host, "brokerPort": node.port, "brokerWebPort": node.web_port}
        fixed = {"deletePolicy": "delete,168h", "acceptPublish": "true", "acceptSubscribe": "true"}
        flush = {"unflushThreshold": 1000, "unflushInterval": 10000}
        first = {"numPartitions": 1, "numTopicStores": 1, "manageStatus": "online"}
        built.admin("admin_add_broker_configure", **where, **fixed, **flush, **first)


def _layout(home: Path) -> None:
    """Create the folders for the master's web page, which does not respond without these two templates."""
    screens = home / "resources" / "templates"
    for folder, template in (("screen", "$sb"), ("layout", "$screen_placeholder")):
        (screens / folder).mkdir(parents=True, exist_ok=True)
        (screens / folder / "webapi.vm").write_text(template, encoding="utf-8")


def _line(home: Path, name: str, main: str, ini: Ini, bind: str, heap: str, quick: bool) -> list[str]:
    file = home / f"{name}.ini"
    sections = (f"[{title}]\n" + "".join(f"{k}={v}\n" for k, v in body.items()) for title, body in ini.items())
    file.write_text("".join(sections), encoding="utf-8")
    flags = [f"-Dpeer.bind={bind}", "-Dpeer.stepMs=0", f"-Dtubemq.home={home}"]
    return tubemq_java.command("Node", [main, "-f", str(file)], heap=heap, quick=quick, flags=flags)


def _until(what: str, probe: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    trouble: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if probe():
                return
        except (OSError, ValueError) as error:
            trouble = error
        time.sleep(0.05)
    # Not Unavailable, which skips tests: TubeMQ is available, but did not start.
    raise TimeoutError(f"waited {WITHIN_S:.0f} s for {what} of a TubeMQ cluster ({trouble})")
