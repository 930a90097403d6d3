"""A program that was killed with a transaction open goes on at once when it is started again, though it polls first."""

from __future__ import annotations

from penstock.testing import Broker
from tests.left_open import Copying


def test_the_successor_does_not_wait_for_the_transactions_timeout(broker: Broker) -> None:
    copying = Copying(broker.address, "copy")
    values = copying.fill()
    copying.leave_open()
    copying.go_on()
    assert copying.copies() == values
