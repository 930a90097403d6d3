"""TubeMQ as fixtures: one cluster a session that tests share, clusters of a test's own, and TubeMQ's Java clients."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType

import pytest

from tools.peers import tubemq, tubemq_clients, tubemq_java
from tools.peers.maven import Unavailable

NewTopic = Callable[..., str]
NewCluster = Callable[..., tubemq.Cluster]


@pytest.fixture(scope="session")
def tubemq_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tubemq.Cluster]:
    """A master and a broker that all tests share: use topics and groups of your own, and leave it running."""
    with ExitStack() as running:
        try:
            cluster = running.enter_context(tubemq.cluster(tmp_path_factory.mktemp("tubemq")))
        except Unavailable as reason:
            pytest.skip(f"no TubeMQ {tubemq.VERSION} to test with: {reason}")
        yield cluster


@pytest.fixture(scope="session")
def tubemq_topic(tubemq_peer: tubemq.Cluster) -> NewTopic:
    """``tubemq_topic(partitions=2, stores=1)`` is a new topic of the shared cluster, ready for use (2 s)."""
    numbers = itertools.count(1)

    def create(partitions: int = 1, stores: int = 1, **properties: object) -> str:
        name = f"topic{next(numbers)}"
        tubemq_peer.create_topics(name, partitions=partitions, stores=stores, **properties)  # type: ignore[arg-type]
        return name

    return create


@pytest.fixture
def tubemq_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewCluster]:
    """``tubemq_own(masters=1, brokers=1, …)`` is a cluster that this test may stop, kill and configure (5 s)."""
    with ExitStack() as running:

        def start(**options: object) -> tubemq.Cluster:
            home = tmp_path_factory.mktemp("tubemq-own")
            try:
                return running.enter_context(tubemq.cluster(home, **options))  # type: ignore[arg-type]
            except Unavailable as reason:
                pytest.skip(f"no TubeMQ {tubemq.VERSION} to test with: {reason}")

        yield start


@pytest.fixture(scope="session")
def tubemq_java_clients() -> ModuleType:
    """``tools.peers.tubemq_clients``, or a skip where they cannot be had: for tests without a real server."""
    try:
        tubemq_java.classes()
    except Unavailable as reason:
        pytest.skip(f"no TubeMQ Java client {tubemq_java.CLIENT}: {reason}")
    return tubemq_clients
