"""RocketMQ as fixtures: a cluster a version and session that tests share, clusters of a test's own, Java's clients."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from types import ModuleType

import pytest

from penstock.testing import Broker
from tools.peers import jvm, rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_frames import MEMBERS, ask

RocketMQ = Callable[..., rocketmq.Cluster]
PROXIED = "5.4.0 behind a Proxy"
SERVED = [*rocketmq.VERSIONS, *(f"{each} behind a Snode" for each in rocketmq.VERSIONS)]
"""Each version as it is, and with a Snode before it."""
FEATURED = [
    *SERVED,
    *(f"{each}, two masters and a standby, behind a Snode" for each in rocketmq.VERSIONS[:-1]),
    f"{rocketmq.NEWEST}, two masters and a standby, a port each, behind a Snode",
    PROXIED,
]
"""What Java's and JavaScript's clients try everything at."""
NewRocketTopic = Callable[..., str]


@pytest.fixture(scope="module")
def rocketmq_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMQ]:
    """``rocketmq_peer("5.4.0")`` is a name server and a broker of that version, which a file's tests share.

    They use topics and groups of their own, and leave it running. It ends with the file: brokers that nobody talks to
    take a quarter of a core all the same.
    """
    shared: dict[str, rocketmq.Cluster] = {}
    with ExitStack() as running:

        def start(version: str = rocketmq.NEWEST) -> rocketmq.Cluster:
            if version not in shared:
                shared[version] = _started(running, tmp_path_factory, version)
            return shared[version]

        yield start


@pytest.fixture(params=rocketmq.VERSIONS, scope="module")
def any_rocketmq(request: pytest.FixtureRequest, rocketmq_peer: RocketMQ) -> rocketmq.Cluster:
    """The test runs once against each version."""
    return rocketmq_peer(request.param)


def members_at(address: str, group: str) -> list[str]:
    """Client ids of the group's members whom that server knows; sorted."""
    answer = ask(int(address.rpartition(":")[2]), MEMBERS, {"consumerGroup": group})
    return sorted(answer.table()["consumerIdList"]) if not answer.code else []


@dataclass(slots=True)
class Proxied(rocketmq.Cluster):
    """A cluster whose clients are told of its Proxy; what brokers know is still asked of them."""

    @property
    def address(self) -> str:
        assert self.proxy is not None
        return self.proxy.endpoint

    @property
    def shown(self) -> str:
        return self.address

    def members(self, group: str) -> list[str]:
        """Brokers know the Proxy only."""
        return members_at(self.address, group)

    def create_topic(self, topic: str, queues: int = 4, *, kind: str | None = None) -> None:
        """A Proxy refuses late messages and transactions for topics that are not of their kind."""
        rocketmq.Cluster.create_topic(self, topic, queues, kind=kind or "MIXED")


@dataclass(slots=True)
class Fronted(rocketmq.Cluster):
    """A cluster whose clients are told of a Snode; what brokers know is still asked of them."""

    snode: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.snode

    @property
    def shown(self) -> str:
        port = self.ports.get(self.broker.name)
        return self.snode if port is None else f"127.0.0.1:{port}"

    def members(self, group: str) -> list[str]:
        """Brokers have not heard of them."""
        return members_at(self.snode, group)


def ports_for(cluster: rocketmq.Cluster) -> dict[str, int]:
    """A port of a Snode for each broker."""
    return dict(zip([each.name for each in cluster.brokers], jvm.free_ports(len(cluster.brokers)), strict=True))


def as_option(ports: Mapping[str, int]) -> str:
    """The same as ``rocketmq_broker_ports`` takes it."""
    return ",".join(f"{name}={port}" for name, port in ports.items())


@contextmanager
def snode_before(
    cluster: rocketmq.Cluster, ports: Mapping[str, int] | None = None, **options: object
) -> Iterator[Fronted]:
    """A Snode in this process until the block ends; ``ports``: of brokers that have their own there."""
    names = cluster.address.replace(";", ",")
    ports = ports or {}
    options = {"rocketmq_broker_ports": as_option(ports), **options}
    with Broker(f"rocketmq://{names}", listen=["rocketmq://127.0.0.1:0"], **options) as snode:  # type: ignore[arg-type]
        same = {each.name: getattr(cluster, each.name) for each in fields(cluster)}
        yield Fronted(**same, ports=ports, snode=snode.url("rocketmq").removeprefix("rocketmq://"))


@pytest.fixture(
    params=[pytest.param(each, marks=pytest.mark.long if " " in each else ()) for each in SERVED], scope="module"
)
def served_rocketmq(request: pytest.FixtureRequest, rocketmq_peer: RocketMQ) -> Iterator[rocketmq.Cluster]:
    """The test runs against each version, and once more with a Snode in front of it."""
    version, _, behind = request.param.partition(" ")
    cluster = rocketmq_peer(version)
    if behind:
        with snode_before(cluster) as fronted:
            yield fronted
    else:
        yield cluster


@pytest.fixture(
    params=[pytest.param(each, marks=pytest.mark.long if " " in each else ()) for each in FEATURED], scope="module"
)
def _featured(
    request: pytest.FixtureRequest, rocketmq_peer: RocketMQ, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[rocketmq.Cluster]:
    version, _, how = request.param.partition(" ")
    version = version.removesuffix(",")
    with ExitStack() as running:
        if not how:
            cluster = rocketmq_peer(version)
        elif request.param == PROXIED:
            real = _started(running, tmp_path_factory, version, proxy=True, settings={"enableMixedMessageType": "true"})
            cluster = Proxied(**{each.name: getattr(real, each.name) for each in fields(real)})
        else:
            several = _started(running, tmp_path_factory, version, brokers=2, standbys=1) if "two" in how else None
            ports = ports_for(several) if several and "a port each" in how else None
            cluster = running.enter_context(snode_before(several or rocketmq_peer(version), ports))
        yield cluster


@pytest.fixture
def featured_rocketmq(request: pytest.FixtureRequest, _featured: rocketmq.Cluster) -> rocketmq.Cluster:
    """The test runs at all of `FEATURED`; marked ``cannot_at("Proxy", why)`` it must fail there."""
    for mark in request.node.iter_markers("cannot_at"):
        which, why = mark.args
        if which in request.node.callspec.id:
            request.applymarker(pytest.mark.xfail(reason=why, strict=True))
    return _featured


@pytest.fixture(scope="session")
def rocketmq_topic() -> NewRocketTopic:
    """``rocketmq_topic(cluster, queues=4)`` is a new topic on all brokers of a cluster."""
    numbers = itertools.count(1)

    def create(cluster: rocketmq.Cluster, queues: int = 4) -> str:
        name = f"topic-{next(numbers)}"
        cluster.create_topic(name, queues)
        return name

    return create


@pytest.fixture
def rocketmq_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMQ]:
    """``rocketmq_own("4.9.7", brokers=2, standbys=1, …)`` is one that this test may stop, kill and configure.

    A version may be one of `SERVED`: then clients are told of the Snode before it.
    """
    with ExitStack() as running:

        def start(version: str = rocketmq.NEWEST, **options: object) -> rocketmq.Cluster:
            number, _, behind = version.partition(" ")
            own = _started(running, tmp_path_factory, number, **options)
            return running.enter_context(snode_before(own)) if behind else own

        yield start


@pytest.fixture(scope="session")
def rocketmq_java_clients() -> ModuleType:
    """``tools.peers.rocketmq_clients``, or a skip where they cannot be had: for tests without a real server."""
    try:
        for version in rocketmq_java.VERSIONS:
            rocketmq_java.classes(version)
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ Java client: {reason}")
    return rocketmq_clients


def _started(running: ExitStack, folders: pytest.TempPathFactory, version: str, **options: object) -> rocketmq.Cluster:
    home = folders.mktemp(f"rocketmq-{version}")
    try:
        return running.enter_context(rocketmq.cluster(home, version, **options))  # type: ignore[arg-type]
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ {version} to test with: {reason}")
