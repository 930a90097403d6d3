"""One suite, every log: the fixture ``log`` is each of them in turn. A new one is a row in ``LOGS``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from penstock.client import Admin
from penstock.interfaces import NewTopic
from penstock.interfaces.node import BackendContext
from penstock.model import Partition
from penstock.protocols import register
from penstock.snode import node
from penstock.snode.local_enode import open_enode
from penstock.testing import Broker
from tests.conformance.abilities import Ability
from tests.conformance.fake_log import FakeLogs
from tests.late_enode import LateEnode, Plan
from tests.toy.cluster import toy_cluster
from tests.toy.registration import PROTOCOL as TOY
from tools.peers import kafka, tubemq
from tools.peers.maven import Unavailable

_names = itertools.count(1)

# Quick reactions: a test that waits for a heartbeat waits for nothing else.
CONSUMER: dict[str, Any] = {"heartbeat_interval_ms": 50, "fetch_max_wait_ms": 100, "metadata_max_age_ms": 200}


@dataclass(frozen=True)
class Log:
    """Where a log is, and how tests make topics of their own in it. ``asked``: what its producers have to be told.

    ``consumer``: options of its consumers.
    """

    address: str
    asked: str = ""
    consumer: Mapping[str, Any] = field(default_factory=lambda: CONSUMER)

    @property
    def writing(self) -> str:
        """The address for a producer."""
        return f"{self.address}/?{self.asked}" if self.asked else self.address

    def topic(self, partitions: int = 1) -> str:
        """A fresh topic of at least so many partitions: what a node of several gets, each of them gets."""
        name = f"topic_{next(_names)}"
        with Admin(self.address) as admin:
            admin.create_topics([NewTopic(name, partitions)])
        return name

    def at(self, *topics: str) -> str:
        """The address with topics."""
        return f"{self.address}/{','.join(topics)}"

    def partitions(self, topic: str) -> list[Partition]:
        """A topic's partitions."""
        with Admin(self.address) as admin:
            return [info.partition for info in admin.topics([topic])[topic].partitions]


Opening = Callable[[], AbstractContextManager[Log]]


@dataclass(frozen=True)
class Row:
    """How to open a log, and what it cannot do, each with the reason. ``ours``: it needs no server of others.

    ``short`` names the modules that run with every change; the others then take ``--long``. None: all do. ``only``: the
    modules for which it differs from another row.
    """

    opened: Opening
    lacks: Mapping[Ability, str] = field(default_factory=dict)
    ours: bool = True
    short: Collection[str] | None = None
    only: Collection[str] | None = None

    def marks(self, module: str) -> list[pytest.MarkDecorator]:
        """Of its tests in a module."""
        if self.ours:
            return []
        return [pytest.mark.interop, *([] if self.short is None or module in self.short else [pytest.mark.long])]


@contextmanager
def in_memory() -> Iterator[Log]:
    logs = FakeLogs()
    register(logs.protocol())
    yield Log("fake://conformance:1")


@contextmanager
def kafka_front() -> Iterator[Log]:
    with Broker(auto_create_topics=False) as broker:
        yield Log(broker.address)


@contextmanager
def kafka_front_newer() -> Iterator[Log]:
    """Consumers whose groups the node shares out for (KIP-848)."""
    with Broker(auto_create_topics=False, group_consumer_heartbeat_interval_ms=50) as broker:
        others = {name: value for name, value in CONSUMER.items() if name != "heartbeat_interval_ms"}
        yield Log(broker.address, consumer={**others, "group_protocol": "consumer"})


@contextmanager
def tubemq_front() -> Iterator[Log]:
    with Broker(listen="tubemq://127.0.0.1:0") as broker:
        yield Log(broker.url("tubemq"))


@contextmanager
def rocketmq_front() -> Iterator[Log]:
    with Broker(listen="rocketmq://127.0.0.1:0") as broker:
        yield Log(broker.url("rocketmq"))


def before(cluster: Opening, scheme: str = "rocketmq") -> Opening:
    """The same cluster with a Snode before it, which keeps nothing, for clients of that protocol."""

    @contextmanager
    def opened() -> Iterator[Log]:
        with cluster() as behind:
            names = behind.address.replace(";", ",")
            with Broker(names, listen=f"{scheme}://127.0.0.1:0", auto_create_topics=scheme != "kafka") as broker:
                yield Log(broker.url(scheme))

    return opened


def over(cluster: Opening) -> Opening:
    """Kafka's front over a TubeMQ cluster; groups are the node's own."""

    @contextmanager
    def opened() -> Iterator[Log]:
        with cluster() as behind:
            kept = {"journals": "memory:", "auto_create_topics": False, "offsets_partitions": 2}
            with Broker(behind.address, **kept) as broker:  # type: ignore[arg-type]
                yield Log(broker.address, "enable_idempotence=false")

    return opened


@contextmanager
def tubemq_with_web() -> Iterator[Log]:
    with tubemq_front() as log:
        yield Log(f"{log.address}?admin_address={log.address.partition('://')[2]}")


@contextmanager
def real_tubemq() -> Iterator[Log]:
    """Two brokers, so that a topic's partitions lie on several."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        try:
            cluster = stack.enter_context(tubemq.cluster(home, brokers=2))
        except Unavailable as reason:
            pytest.skip(f"no TubeMQ: {reason}")
        web = f"{cluster.master.host}:{cluster.master.web_port}"
        yield Log(f"{cluster.url}?admin_address={web}&admin_token={tubemq.TOKEN}")


@contextmanager
def toy_front() -> Iterator[Log]:
    register(TOY)
    with Broker(listen="toy://127.0.0.1:0") as broker:
        yield Log(broker.url("toy"))


def far(opened: Opening, plan: Plan) -> Opening:
    """The same with a node whose enode is far away. Time is real: a client has threads."""

    @contextmanager
    def opened_far() -> Iterator[Log]:
        def open_late(url: str, around: BackendContext) -> Any:
            return LateEnode(open_enode(url, around), around.runtime, plan)

        with ExitStack() as stack:
            with pytest.MonkeyPatch.context() as patch:  # only while this one starts: other tests have nodes, too
                patch.setattr(node, "open_enode", open_late)
                log = stack.enter_context(opened())
            yield log

    return opened_far


@contextmanager
def toy_nodes() -> Iterator[Log]:
    with toy_cluster() as cluster:
        yield Log(cluster.address)


@contextmanager
def real_kafka() -> Iterator[Log]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        try:
            broker = stack.enter_context(kafka.broker(home))
        except Unavailable as reason:
            pytest.skip(f"no Kafka: {reason}")
        yield Log(f"kafka://{broker.bootstrap}")


@contextmanager
def over_toy_nodes(*, hand_on: bool) -> Iterator[Log]:
    """A toy node whose topics a toy cluster keeps; frames go on to it as they came, or all by the neutral form."""
    with toy_cluster() as cluster, Broker(cluster.address, listen="toy://127.0.0.1:0", hand_on=hand_on) as node:
        yield Log(node.url("toy"))


def over_kafka(scheme: str) -> Opening:
    """A node that speaks this protocol, and keeps its topics in a real Kafka cluster."""

    @contextmanager
    def opened() -> Iterator[Log]:
        with real_kafka() as behind:
            listen = f"{scheme}://127.0.0.1:0"
            with Broker(behind.address, listen=listen, auto_create_topics=False, offsets_partitions=4) as node:
                yield Log(node.url(scheme))

    return opened


TUBEMQ_LACKS = {
    Ability.COUNTS_RECORDS: "an offset is a place in an index, of 28 bytes a record",
    Ability.COMMITS_ANY_OFFSET: "a broker hands out a batch, and waits until the whole of it is confirmed",
    Ability.TAKES_INSTANCE_IDS: "a master has no word for members that come back",
    Ability.BEGINS_NOWHERE: "its groups always have a place to begin: a broker makes one",
    Ability.REMOVES_MEMBERS: "a master gives away what a silent member had, and cannot remove members",
    Ability.FINDS_TIMES: "its protocol has no question for that",
    Ability.FINDS_OWN_TIMES: "nor for any other time",
}


def real_rocketmq(version: str) -> Opening:
    """Two brokers, so that a topic's queues lie on several."""

    @contextmanager
    def opened() -> Iterator[Log]:
        rocketmq = pytest.importorskip("tools.peers.rocketmq")
        with ExitStack() as stack:
            home = Path(stack.enter_context(TemporaryDirectory()))
            try:
                cluster = stack.enter_context(rocketmq.cluster(home, version, brokers=2))
            except Unavailable as reason:
                pytest.skip(f"no RocketMQ: {reason}")
            yield Log(f"rocketmq://{cluster.address}")

    return opened


ROCKETMQ_LACKS = {
    Ability.FORGETS_OFFSETS: "a broker forgets a group as a whole",
    Ability.REMOVES_MEMBERS: "members come by their heartbeats, and go without them",
    Ability.FINDS_OWN_TIMES: "brokers look for the time of storing, which is theirs to say",
    Ability.TAKES_INSTANCE_IDS: "members work out by themselves what they read: nobody could put one out",
}
TOY_LACKS = {
    Ability.FORGETS_OFFSETS: "a toy forgets a group as a whole",
    Ability.REMOVES_MEMBERS: "members come by their heartbeats, and go without them",
    Ability.TAKES_INSTANCE_IDS: "members work out by themselves what they read: nobody could put one out",
}

OVER_TUBEMQ_LACKS = {
    Ability.FINDS_TIMES: "TubeMQ's brokers do not look for times",
    Ability.FINDS_OWN_TIMES: "nor for any other",
}

LATE = Plan(1, latest_s=0.001)
LOSSY = Plan(2, latest_s=0.001, lost_answers=2, lost_requests=2)
"""Clients are the library's own, which try again; so every test holds, only later."""

LOGS: dict[str, Row] = {
    "fake": Row(in_memory, {Ability.REMOVES_MEMBERS: "its members leave by themselves"}),
    "kafka": Row(kafka_front),
    "kafka newer groups": Row(
        kafka_front_newer,
        {Ability.FENCES_BY_NAME: "who comes under a name that somebody has is refused until that one has gone"},
        only={"test_groups", "test_asyncio", "test_what_is_lacking"},
    ),
    "kafka far": Row(far(kafka_front, LOSSY)),
    "kafka over tubemq": Row(over(tubemq_with_web), OVER_TUBEMQ_LACKS),
    "kafka over real tubemq": Row(over(real_tubemq), OVER_TUBEMQ_LACKS, ours=False, short=()),
    "real kafka": Row(real_kafka, ours=False),
    "kafka over real kafka": Row(over_kafka("kafka"), ours=False, short=()),
    "tubemq over real kafka": Row(over_kafka("tubemq"), TUBEMQ_LACKS, ours=False, short=()),
    "rocketmq over real kafka": Row(over_kafka("rocketmq"), ROCKETMQ_LACKS, ours=False, short=()),
    "real rocketmq 4.9": Row(real_rocketmq("4.9.7"), ROCKETMQ_LACKS, ours=False, short=()),
    "real rocketmq 5.4": Row(real_rocketmq("5.4.0"), ROCKETMQ_LACKS, ours=False, short={"test_records_come_back"}),
    "real rocketmq 4.9 snode": Row(before(real_rocketmq("4.9.7")), ROCKETMQ_LACKS, ours=False, short=()),
    "real rocketmq 5.4 snode": Row(before(real_rocketmq("5.4.0")), ROCKETMQ_LACKS, ours=False, short=()),
    "kafka over real rocketmq 4.9": Row(before(real_rocketmq("4.9.7"), "kafka"), ours=False, short=()),
    "kafka over real rocketmq 5.4": Row(before(real_rocketmq("5.4.0"), "kafka"), ours=False, short=()),
    "kafka over rocketmq": Row(before(rocketmq_front, "kafka")),
    "tubemq over rocketmq": Row(before(rocketmq_front, "tubemq"), TUBEMQ_LACKS),
    "rocketmq": Row(rocketmq_front, ROCKETMQ_LACKS),
    "rocketmq snode": Row(before(rocketmq_front), ROCKETMQ_LACKS),
    "rocketmq far": Row(far(rocketmq_front, LATE), ROCKETMQ_LACKS),
    "toy": Row(toy_front, TOY_LACKS),
    "toy far": Row(far(toy_front, LATE), TOY_LACKS),
    "toy cluster": Row(toy_nodes, TOY_LACKS),
    "toy over toys": Row(partial(over_toy_nodes, hand_on=False), TOY_LACKS),
    "toy handing on": Row(partial(over_toy_nodes, hand_on=True), TOY_LACKS),
    "tubemq": Row(tubemq_front, TUBEMQ_LACKS),
    "tubemq far": Row(far(tubemq_front, LATE), TUBEMQ_LACKS),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every log that can do what a test needs, and lacks what it shows the lack of."""
    if "log" not in metafunc.fixturenames:
        return
    needed = {ability for marker in metafunc.definition.iter_markers("needs") for ability in marker.args}
    lacking = {ability for marker in metafunc.definition.iter_markers("lacks") for ability in marker.args}
    module = metafunc.module.__name__.rpartition(".")[2]
    fit = [
        name
        for name, row in LOGS.items()
        if needed.isdisjoint(row.lacks) and lacking <= row.lacks.keys() and (row.only is None or module in row.only)
    ]
    marked = [pytest.param(name, marks=LOGS[name].marks(module)) for name in fit]
    metafunc.parametrize("log", marked, indirect=True, scope="session")


@pytest.fixture(scope="session")
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    with LOGS[request.param].opened() as found:
        yield found


@pytest.fixture
def group() -> str:
    return f"group-{next(_names)}"
