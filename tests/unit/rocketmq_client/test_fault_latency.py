"""Which brokers a producer leaves alone: those that failed, and, if that is wanted, those that took long."""

from __future__ import annotations

import pytest

from penstock.protocols.rocketmq.client.sender import FaultLatency


def test_a_broker_that_failed_rests_for_a_while_and_is_forgiven_once_it_answers() -> None:
    faults = FaultLatency(failed_s=3.0, by_latency=False)
    assert not faults.avoids("a", 0.0)
    faults.failed("a", 10.0)
    assert faults.avoids("a", 12.9)
    assert not faults.avoids("a", 13.0)
    assert not faults.avoids("b", 11.0)
    faults.failed("a", 20.0)
    faults.answered("a", 20.0, 21.0)
    assert not faults.avoids("a", 21.5)


@pytest.mark.parametrize(
    ("took_s", "rest_s"), [(0.0, 0.0), (0.54, 0.0), (0.55, 2.0), (1.8, 5.0), (3.0, 6.0), (5.0, 10.0), (99.0, 30.0)]
)
def test_how_long_a_slow_broker_rests_is_javas_table(took_s: float, rest_s: float) -> None:
    faults = FaultLatency(failed_s=3.0, by_latency=True)
    faults.answered("a", took_s, 100.0)
    assert faults.avoids("a", 100.0) == (rest_s > 0)
    assert not faults.avoids("a", 100.0 + rest_s)
    assert FaultLatency.rest_s(took_s) == rest_s
