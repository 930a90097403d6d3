"""What tests of groups share: the servers that a group can be at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.interop.peers.fixtures import KafkaBroker


@pytest.fixture(params=["kafka", "node"])
def bootstrap(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> Iterator[str]:
    """A real broker, and a node of ours."""
    if request.param == "kafka":
        yield kafka_broker().bootstrap
        return
    with Broker() as broker:
        yield broker.bootstrap
