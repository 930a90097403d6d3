"""A program killed with a transaction open on a real Kafka goes on at once when it is started again."""

from __future__ import annotations

import uuid

import pytest

from tests.eventually import comes_to
from tests.left_open import Copying
from tools.peers import kafka

pytestmark = pytest.mark.interop


def test_the_successor_takes_over_by_entering_its_block(any_kafka: kafka.Broker) -> None:
    copying = Copying(f"kafka://{any_kafka.bootstrap}", f"copy-{uuid.uuid4().hex[:8]}")
    values = copying.fill()
    copying.leave_open()
    copying.go_on()
    comes_to(copying.copies, values)
