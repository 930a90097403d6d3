"""``penstock consume --from`` and ``--until``: offsets, times and distances from the end, in each partition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.client import Producer
from penstock.testing import Broker
from tests.unit.cli.running import fill, penstock, refused

TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()
HOURS = ["2026-01-01T00:00", "2026-01-01T01:00", "2026-01-01T02:00", "2026-01-01T03:00"]


@pytest.fixture
def topic(log: Broker) -> str:
    """Two partitions: a record at each hour in the first, at the first two hours in the second."""
    log.create_topic("t", partitions=2)
    with Producer(log.address) as producer:
        for partition, hours in enumerate((HOURS, HOURS[:2])):
            for number, hour in enumerate(hours):
                time_ms = int(datetime.fromisoformat(hour).replace(tzinfo=UTC).timestamp() * 1_000)
                producer.send("t", b"%d%d" % (partition, number), partition=partition, timestamp_ms=time_ms)
    return f"{log.address}/t"


@pytest.mark.parametrize(
    ("words", "found", "said"),
    [
        (("--from", "1"), "01 02 03 11", "from offset 1"),
        (("--from", "3"), "03", "from offset 3"),
        (("--from", "9"), "", "from offset 9"),
        (("--from", "-1"), "03 11", "from 1 offsets before the end of each partition"),
        (("--from", "-9"), "00 01 02 03 10 11", "from 9 offsets before the end of each partition"),
        (("--from", HOURS[1]), "01 02 03 11", f"from the first record since {HOURS[1]}"),
        (
            ("--from", "2026-01-01T02:30:00+01:30"),
            "01 02 03 11",
            "from the first record since 2026-01-01T02:30:00+01:30",
        ),
        (("--from", "2030-01-01"), "", "from the first record since 2030-01-01"),
    ],
)
def test_reading_begins_there(topic: str, words: tuple[str, ...], found: str, said: str) -> None:
    ran = penstock("consume", topic, *words, "--until-end")
    assert (ran.code, sorted(ran.stdout.decode().split())) == (0, found.split()), ran.stderr
    assert f"reading t {said}\n" in ran.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--until", "2"), "00 01 10 11"),
        (("--until", "0"), ""),
        (("--until", "9"), "00 01 02 03 10 11"),
        (("--until", TOMORROW), "00 01 02 03 10 11"),
        (("--from", "1", "--until", "2"), "01 11"),
        (("--until", HOURS[1]), "00 10"),
        (("--from", HOURS[1], "--until", HOURS[3]), "01 02 11"),
        (("--from", HOURS[2], "--until", "2"), ""),
    ],
)
def test_reading_ends_there(topic: str, words: tuple[str, ...], found: str) -> None:
    ran = penstock("consume", topic, *words)
    assert (ran.code, sorted(ran.stdout.decode().split())) == (0, found.split()), ran.stderr


def test_a_group_reads_until_a_place_and_commits(topic: str) -> None:
    first = penstock("consume", topic, "-g", "g", "--until", "1")
    assert (first.code, sorted(first.stdout.split())) == (0, [b"00", b"10"])
    second = penstock("consume", topic, "-g", "g", "--until-end")
    assert sorted(second.stdout.split()) == [b"01", b"02", b"03", b"11"]


def test_a_group_of_tubemq_stops_within_a_batch() -> None:
    """Its position stays where the batch began."""
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as log:
        log.create_topic("hours")
        fill(log, "hours", [b"0", b"1", b"2"])
        ran = penstock("consume", f"{log.url('tubemq')}/hours", "-g", "gg", "--until", "1")
    assert (ran.code, ran.stdout) == (0, b"0\n"), ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "yesterday"), "--from is 'yesterday', expected earliest, latest, an offset, -N or a time"),
        (("--until", "-3"), "--until is '-3', expected an offset or a time"),
        (("--until", "3", "--until-end"), "contradict each other"),
        (("--from", "3", "--group", "g"), "a group goes on from its committed offsets, not from 3"),
    ],
)
def test_what_is_no_place_is_refused(topic: str, words: tuple[str, ...], said: str) -> None:
    assert said in refused("consume", topic, *words)
