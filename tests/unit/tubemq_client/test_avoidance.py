"""Whom a producer leaves alone, for how long, and that it never gives up everybody."""

from __future__ import annotations

from penstock.model import Partition
from penstock.protocols.tubemq.client.sender import Avoidance
from penstock.protocols.tubemq.config import TubeConfig

OPTIONS = TubeConfig(
    link_stats_duration_ms=60_000, link_max_failures=5, link_max_forbidden_rate=0.3, link_forbidden_duration_ms=600_000,
    max_sent_forbidden_rate=0.5, max_forbidden_check_ms=1,
)  # fmt: skip


def on(broker: str, partition: int = 0) -> Partition:
    return Partition("demo", partition, broker)


def test_a_partition_with_more_than_three_errors_in_a_row_rests_for_three_seconds() -> None:
    avoidance = Avoidance(OPTIONS)
    for _ in range(3):
        avoidance.failed(on("1"), 0.0)
    assert not avoidance.avoids(on("1"), 0.0)
    avoidance.failed(on("1"), 0.0)
    assert avoidance.avoids(on("1"), 2.9)
    assert not avoidance.avoids(on("1", 1), 0.0)
    assert not avoidance.avoids(on("1"), 3.0)


def test_a_broker_that_cannot_be_reached_is_left_alone_until_a_while_after_the_last_attempt() -> None:
    avoidance = Avoidance(OPTIONS)
    avoidance.unavailable("2", 0.0)
    for now in (0.0, 2.0):
        avoidance.unreachable("1", now)
        avoidance.unreachable("2", now)
    assert avoidance.avoids(on("1", 7), 4.9)
    assert not avoidance.avoids(on("1", 7), 5.0)
    assert avoidance.avoids(on("2", 7), 49.0)


def test_a_message_that_is_stored_ends_the_row_of_errors() -> None:
    avoidance = Avoidance(OPTIONS)
    for _ in range(3):
        avoidance.failed(on("1"), 0.0)
    avoidance.stored(on("1"), 0.0)
    avoidance.failed(on("1"), 0.0)
    assert not avoidance.avoids(on("1"), 0.0)


def test_a_link_that_fails_too_often_is_left_alone() -> None:
    avoidance = Avoidance(OPTIONS)
    avoidance.stored(on("2"), 0.0)
    for number in range(5):
        avoidance.failed(on("1", number), 1.0)
    assert avoidance.avoids(on("1", 77), 600.9)
    assert not avoidance.avoids(on("1", 77), 601.0)
    assert not avoidance.avoids(on("2"), 1.0)


def test_a_link_that_mostly_works_is_kept() -> None:
    avoidance = Avoidance(OPTIONS)
    avoidance.stored(on("2"), 0.0)
    for number in range(20):
        avoidance.stored(on("1", number), 0.0)
    for number in range(6):
        avoidance.failed(on("1", number), 1.0)
    assert not avoidance.avoids(on("1", 77), 1.0)


def test_failures_of_long_ago_do_not_count() -> None:
    avoidance = Avoidance(OPTIONS)
    avoidance.stored(on("2"), 0.0)
    for number in range(4):
        avoidance.failed(on("1", number), 0.0)
    avoidance.failed(on("1", 9), 61.0)
    assert not avoidance.avoids(on("1", 77), 61.0)


def test_no_more_than_the_allowed_share_of_brokers_is_left_alone_at_once() -> None:
    avoidance = Avoidance(OPTIONS)
    for broker in "1234":
        avoidance.stored(on(broker), 0.0)
    for number in range(9):
        for broker in "1234":
            avoidance.failed(on(broker, number), float(number))
    assert sum(avoidance.avoids(on(broker, 77), 9.0) for broker in "1234") == 2


def test_the_only_broker_is_never_left_alone_for_its_link() -> None:
    avoidance = Avoidance(OPTIONS)
    for number in range(50):
        avoidance.failed(on("1", number), 0.0)
    assert not avoidance.avoids(on("1", 77), 0.0)
