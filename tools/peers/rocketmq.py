"""Apache RocketMQ: name servers, brokers, standbys and a Proxy on loopback, with folders and ports that stay the same.

Requests to a cluster are raw frames (`rocketmq_frames`), so that no client is needed. Its servers would listen on
every network interface, and some ports have no setting for it; java/Loopback keeps all of them on 127.0.0.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.peers import jvm, rocketmq_java
from tools.peers.java_server import JavaServer, start_together
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_frames import (
    BEGIN,
    BROKER_FACTS,
    CLUSTER,
    COMMITTED,
    CREATE_GROUP,
    CREATE_TOPIC,
    END,
    MEMBERS,
    ROUTE,
    Account,
    agreed,
    ask,
)

VERSIONS, NEWEST = rocketmq_java.VERSIONS, rocketmq_java.NEWEST
NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"
STANDBY = "-standby"
PROXY = "org.apache.rocketmq.proxy.ProxyStartup"

# By default a broker takes no messages on a disk as full as a test machine's may be.
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
    # 5.x writes its timer wheel to disk every second, even unchanged: a third of a core in an idle broker.
    "timerFlushIntervalMs": 20_000,
}
# A broker checks an open transaction after a second or two instead of half a minute. 5.x takes up to three seconds to
# record a decision; if it checks again in that time, it stores the message twice.
_SOON: Mapping[str, object] = {
    "transactionCheckInterval": 2_000,
    "transactionOpBatchInterval": 100,
    "transactionTimeOut": 1_000,
}
# 5.x binds to 0.0.0.0 by default; 4.x does not know this setting.
_BOUND: Mapping[str, object] = {"bindAddress": "127.0.0.1"}
# By default a broker refuses messages that have waited 0.2 s to be stored, which is short on a busy machine.
_PATIENT: Mapping[str, object] = {
    "osPageCacheBusyTimeOutMills": 30_000,
    "waitTimeMillsInPullQueue": 30_000,
    "waitTimeMillsInSendQueue": 30_000,
    "waitTimeMillsInTransactionQueue": 30_000,
}
_OFFERED: Mapping[str, object] = {"enablePropertyFilter": "true"}

Queue = tuple[str, int]
"""A broker's name and a queue's number."""


@dataclass(slots=True)
class Cluster:
    """Running name servers, master brokers, their standbys, and perhaps a Proxy; their files are under ``home``."""

    home: Path
    version: str
    names: list[JavaServer]
    brokers: list[JavaServer] = field(default_factory=list)
    standbys: list[JavaServer] = field(default_factory=list)
    proxy: JavaServer | None = None

    @property
    def address(self) -> str:
        """host:port of every name server, with semicolons, as RocketMQ's clients take it."""
        return ";".join(node.endpoint for node in self.names)

    @property
    def broker(self) -> JavaServer:
        return self.brokers[0]

    @property
    def shown(self) -> str:
        """The address of the first broker that clients get."""
        return self.broker.endpoint

    def known(self) -> list[str]:
        """Names of the brokers and standbys that every running name server knows now."""
        told = [ask(node.port, CLUSTER).body for node in self.names if node.runs]
        every = [*self.brokers, *self.standbys]
        return [node.name for node in every if told and all(f'"{node.endpoint}"'.encode() in body for body in told)]

    def create_topic(self, topic: str, queues: int = 4, *, kind: str | None = None) -> None:
        """Create a topic on every running master; name servers know it at once. Raises RuntimeError.

        ``kind`` is FIFO, DELAY or TRANSACTION, for 5.x: a Proxy insists on it.
        """
        wanted = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
        fixed = {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
        kinds = {} if kind is None else {"attributes": f"+message.type={kind}"}
        for node in self._masters():
            agreed(node.port, CREATE_TOPIC, {**wanted, **fixed, **kinds})

    def create_group(self, group: str, **settings: object) -> None:
        """Create a group on every running master, with SubscriptionGroupConfig's settings. Raises RuntimeError."""
        for node in self._masters():
            agreed(node.port, CREATE_GROUP, body=json.dumps({"groupName": group, **settings}).encode())

    def queues(self, topic: str) -> dict[str, int]:
        """Broker's name → its number of queues, from the first name server; empty if it does not know the topic."""
        answer = ask(self._name_server().port, ROUTE, {"topic": topic})
        rows = answer.table()["queueDatas"] if not answer.code else []
        return {row["brokerName"]: row["readQueueNums"] for row in rows}

    def ends(self, topic: str, on: Sequence[JavaServer] = ()) -> dict[Queue, tuple[int, int]]:
        """Queue → (first, end) offset, on the running masters, or on these standbys."""
        counts = self.queues(topic)
        found: dict[Queue, tuple[int, int]] = {}
        for node in on or self._masters():
            broker = node.name.removesuffix(STANDBY)
            for number in range(counts.get(broker, 0)):
                asked = {"topic": topic, "queueId": number}
                first, end = (int(agreed(node.port, code, asked).fields["offset"]) for code in (BEGIN, END))
                found[broker, number] = (first, end)
        return found

    def committed(self, group: str, topic: str) -> dict[Queue, int]:
        """Queue → the group's offset, on the running masters, for queues with an offset."""
        found: dict[Queue, int] = {}
        for node in self._masters():
            table = agreed(node.port, COMMITTED).table()["offsetTable"]
            found |= {(node.name, int(number)): offset for number, offset in table.get(f"{topic}@{group}", {}).items()}
        return found

    def members(self, group: str) -> list[str]:
        """Client ids of the group's members that the first running master knows; sorted."""
        answer = ask(next(self._masters()).port, MEMBERS, {"consumerGroup": group})
        return sorted(answer.table()["consumerIdList"]) if not answer.code else []

    def _masters(self) -> Iterator[JavaServer]:
        return (node for node in self.brokers if node.runs)

    def _name_server(self) -> JavaServer:
        return next(node for node in self.names if node.runs)


@contextmanager
def cluster(
    home: Path,
    version: str = NEWEST,
    *,
    names: int = 1,
    brokers: int = 1,
    standbys: int = 0,
    proxy: bool = False,
    settings: Mapping[str, object] | None = None,
    heap: str = "512m",
    quick: bool = True,
    account: Account | None = None,
    tls: tuple[Path, Path] | None = None,
) -> Iterator[Cluster]:
    """A cluster until the block ends. ``settings`` are brokers'; the first ``standbys`` masters have one standby each.

    With an ``account`` brokers refuse requests that are not signed with it. With ``tls`` (certificate and key, PEM) all
    servers also speak TLS, on the same ports. Only 5.x has a Proxy; it runs in cluster mode. ``quick=False`` for
    benchmarks: Java's own choice of compiler and collector. Raises maven.Unavailable.
    """
    make = _Maker(home, version, settings or {}, heap, quick, account, tls)
    built = Cluster(home, version, [make.name_server(number) for number in range(1, names + 1)])
    numbers = range(1, brokers + 1)
    built.brokers = [make.broker(built, number) for number in numbers]
    built.standbys = [make.broker(built, number, standby=True) for number in numbers if number <= standbys]
    built.proxy = make.proxy(built) if proxy else None
    with ExitStack() as running:
        # A standby that starts before its master would look for it again only after half a minute.
        for together in (built.names, built.brokers, built.standbys, [built.proxy] if built.proxy else []):
            for node in together:
                running.callback(node.kill)  # not stopped, since its data is not used any more
            start_together(together)
        yield built


@dataclass(frozen=True, slots=True)
class _Maker:
    """Creates the servers of a cluster, with their common settings."""

    home: Path
    version: str
    settings: Mapping[str, object]
    heap: str
    quick: bool
    account: Account | None = None
    tls: tuple[Path, Path] | None = None

    def name_server(self, number: int) -> JavaServer:
        name, port = f"names-{number}", jvm.free_ports(1)[0]
        file = self._written(name, {"listenPort": port, **_BOUND})
        return self._node(name, port, [NAME_SERVER, "-c", str(file)], lambda: _answers(port, CLUSTER), heap="128m")

    def broker(self, built: Cluster, number: int, *, standby: bool = False) -> JavaServer:
        # A broker also listens two ports below its own (its VIP channel), and one above it, for standbys.
        _, _, port, copying = jvm.free_ports(4)
        name = f"broker-{number}{STANDBY}" if standby else f"broker-{number}"
        store = self.home / name / "store"
        own = {
            "brokerClusterName": "peers",
            "brokerName": f"broker-{number}",
            "brokerId": 1 if standby else 0,
            "brokerRole": "SLAVE" if standby else "ASYNC_MASTER",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": port,
            "haListenPort": copying,
            "namesrvAddr": built.address,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
        }
        fixed = {**_BOUND, **_SMALL, **_SOON, **_PATIENT, **_OFFERED}
        file = self._written(name, {**own, **fixed, **self._guarded(name), **self.settings})

        def ready() -> None:
            _answers(port, BROKER_FACTS, account=self.account)
            if name not in built.known():
                raise OSError("the name server does not know it yet")

        return self._node(name, port, [BROKER, "-c", str(file)], ready, flags=_BROKER_FLAGS)

    def _guarded(self, name: str) -> Mapping[str, object]:
        """Settings with which a broker accepts only this account. 4.x reads accounts from a file."""
        if self.account is None:
            return {}
        user, secret = self.account
        if self.version.startswith("4."):
            rows = ["globalWhiteRemoteAddresses: []", "accounts:", f"- accessKey: {user}", f"  secretKey: {secret}"]
            file = self._folder(name) / "conf" / "plain_acl.yml"
            file.write_text("\n".join([*rows, "  admin: true", ""]), encoding="utf-8")
            return {"aclEnable": "true"}
        inner = json.dumps({"accessKey": user, "secretKey": secret})
        first = json.dumps({"username": user, "password": secret})
        provider = "org.apache.rocketmq.auth.authentication.provider."
        return {
            "authenticationEnabled": "true",
            "authenticationProvider": f"{provider}DefaultAuthenticationProvider",
            "authenticationMetadataProvider": f"{provider}LocalAuthenticationMetadataProvider",
            "initAuthenticationUser": first,
            "innerClientAuthenticationCredentials": inner,
        }

    def proxy(self, built: Cluster) -> JavaServer:
        if self.version.startswith("4."):
            raise Unavailable(f"RocketMQ {self.version} has no Proxy")
        grpc, port = jvm.free_ports(2)
        own = {
            "rocketMQClusterName": "peers",
            "namesrvAddr": built.address,
            "remotingAccessAddr": "127.0.0.1",
            "localServeAddr": "127.0.0.1",
            "remotingListenPort": port,
            "grpcServerPort": grpc,
        }
        file = self._folder("proxy") / "proxy.json"
        file.write_text(json.dumps(own), encoding="utf-8")
        line = [PROXY, "-n", built.address, "-pm", "cluster", "-pc", str(file)]
        flags = [f"-Dcom.rocketmq.proxy.configPath={file}"]

        def ready() -> None:
            _answers(port, ROUTE, {"topic": "TBW102"})

        return self._node("proxy", port, line, ready, starter="Proxy", flags=flags)

    def _node(
        self,
        name: str,
        port: int,
        arguments: Sequence[str],
        ready: Callable[[], None],
        *,
        starter: str = "Loopback",
        heap: str = "",
        flags: Sequence[str] = (),
    ) -> JavaServer:
        home = self._folder(name)
        if self.tls is not None:
            certificate, key = self.tls
            files = {"tls.server.certPath": certificate, "tls.server.keyPath": key}
            settings = {"tls.test.mode.enable": "false", "tls.server.mode": "permissive", **files}
            flags = [*flags, *(f"-D{key}={value}" for key, value in settings.items())]
        line = rocketmq_java.command(
            starter,
            arguments,
            home=home,
            version=self.version,
            heap=heap or self.heap,
            quick=self.quick,
            flags=flags,
        )
        return JavaServer(name=name, home=home, line=line, ready=ready, port=port)

    def _written(self, name: str, settings: Mapping[str, object]) -> Path:
        file = self._folder(name) / f"{name}.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        return file

    def _folder(self, name: str) -> Path:
        return rocketmq_java.furnished(self.home / name)


def _answers(port: int, code: int, fields: Mapping[str, object] | None = None, account: Account | None = None) -> None:
    answer = ask(port, code, fields, account=account)
    if answer.code:
        raise OSError(f"{code}: {answer}")
