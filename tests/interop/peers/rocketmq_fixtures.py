"""RocketMQ as fixtures: a cluster a version and session that tests share, clusters of a test's own, Java's clients."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType

import pytest

from tools.peers import rocketmq, rocketmq_clients, rocketmq_java
from tools.peers.maven import Unavailable

RocketMQ = Callable[..., rocketmq.Cluster]
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
    """``rocketmq_own("4.9.7", brokers=2, standbys=True, …)`` is one that this test may stop, kill and configure."""
    with ExitStack() as running:

        def start(version: str = rocketmq.NEWEST, **options: object) -> rocketmq.Cluster:
            return _started(running, tmp_path_factory, version, **options)

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
