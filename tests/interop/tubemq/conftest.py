"""What these tests share: our node with a TubeMQ and a Kafka listener, and the words they compare messages in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from penstock.testing import Broker

LISTENERS = ["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]


@pytest.fixture
def tube_node(tmp_path: Path, tubemq_java_clients: ModuleType) -> Iterator[Broker]:
    """A node of the test's own; skipped where there is no Java client that could connect to it."""
    del tubemq_java_clients
    with Broker(f"file:{tmp_path / 'node'}", listen=LISTENERS) as running:
        yield running


@pytest.fixture
def masters(tube_node: Broker) -> str:
    """The node's address as TubeMQ's clients take it."""
    return tube_node.url("tubemq").removeprefix("tubemq://")
