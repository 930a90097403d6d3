"""RocketMQ as a fixture: clusters of a test's own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tools.peers import rocketmq
from tools.peers.maven import Unavailable

NewRocketCluster = Callable[..., rocketmq.Cluster]


@pytest.fixture
def rocketmq_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewRocketCluster]:
    """``rocketmq_own(brokers=1, …)`` is a cluster that this test may kill and configure."""
    with ExitStack() as running:

        def start(**options: object) -> rocketmq.Cluster:
            home = tmp_path_factory.mktemp("rocketmq")
            try:
                return running.enter_context(rocketmq.cluster(home, **options))  # type: ignore[arg-type]
            except Unavailable as reason:
                pytest.skip(f"no RocketMQ {rocketmq.VERSION} to test with: {reason}")

        yield start
