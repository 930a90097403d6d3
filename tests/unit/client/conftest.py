"""A log in memory behind ``fake://``, fresh for each test."""

from __future__ import annotations

import pytest

from penstock.protocols import register
from tests.conformance.fake_log import FakeLog, FakeLogs


@pytest.fixture
def log() -> FakeLog:
    """Topic ``t`` has one partition, ``t4`` four."""
    logs = FakeLogs()
    register(logs.protocol())
    found = logs.logs["h"]
    found.create("t", 1)
    found.create("t4", 4)
    return found
