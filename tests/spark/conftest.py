"""A service node for all tests of this folder, and a log of their own for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.spark.logs import TestTopic


@pytest.fixture(scope="session")
def node() -> Iterator[str]:
    """A service node in memory; its address."""
    from tests.spark.nodes import NodeThread

    node = NodeThread()
    node.start()
    try:
        yield node.url
    finally:
        node.stop()


@pytest.fixture
def topic(node: str, request: pytest.FixtureRequest) -> TestTopic:
    """A topic of this test's own, not created yet."""
    return TestTopic(node, f"{request.node.originalname}-{uuid4().hex[:8]}".replace("_", "-"))
