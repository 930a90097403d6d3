"""Real servers as fixtures: started when the first test asks, ended with the session, skipped with the reason.

The starters themselves are in tools/peers, so that bench can use them too.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tools.peers import kafka
from tools.peers.kafka_cluster import Cluster
from tools.peers.maven import Unavailable

KafkaBroker = Callable[[str], kafka.Broker]


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """``kafka_broker("4.4.0")`` is a running broker of that version, one a version and session.

    Tests share it: they make topics and groups of their own names.
    """
    running: dict[str, kafka.Broker] = {}
    with ExitStack() as brokers:

        def start(version: str = kafka.NEWEST) -> kafka.Broker:
            if version not in running:
                home = tmp_path_factory.mktemp(f"kafka-{version}")
                try:
                    running[version] = brokers.enter_context(kafka.broker(home, version))
                except Unavailable as reason:
                    pytest.skip(f"no Kafka {version} to test with: {reason}")
            return running[version]

        yield start


@pytest.fixture(params=[*kafka.VERSIONS, pytest.param(kafka.PREVIOUS, marks=pytest.mark.long)], scope="session")
def any_kafka(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> kafka.Broker:
    """The test runs once against each version."""
    return kafka_broker(request.param)


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of the newest version, for one file of tests; each leaves them as whole as it found them."""
    try:
        made = Cluster(tmp_path_factory.mktemp("cluster"))
    except Unavailable as reason:
        pytest.skip(f"no Kafka cluster to test with: {reason}")
    with made:
        yield made


@pytest.fixture(scope="session")
def kafka_tools() -> Callable[..., str]:
    """``kafka_tools("groups", "--list", bootstrap=…)``: what Kafka's own Java tool prints about any server."""

    def run(name: str, *arguments: str, bootstrap: str, version: str = kafka.NEWEST, text: str = "") -> str:
        line = ["--bootstrap-server", bootstrap, *arguments]
        try:
            return kafka.tool(name, line, version=version, text=text).stdout
        except Unavailable as reason:
            pytest.skip(f"no Kafka tools {version}: {reason}")

    return run


@pytest.fixture(scope="session")
def spark_kafka_jars() -> Path:
    """The folder with Spark's own Kafka connector."""
    try:
        return kafka.spark_connector_jars()
    except Unavailable as reason:
        pytest.skip(f"no Spark Kafka connector: {reason}")
