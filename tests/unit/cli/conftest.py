"""A node of each test's own, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker


@pytest.fixture
def log() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
