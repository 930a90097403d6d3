"""Partitions without a leader, and topics wanted while others are asked for: who keeps asking, and how often."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client import AsyncConsumer, AsyncProducer, DeliveryTimeout
from penstock.errors import ConnectionLost, ServerError
from penstock.model import Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
ZERO = Partition("t", 0)


def elect_after(log: FakeLog, seconds: float, partition: Partition = ZERO) -> None:
    asyncio.get_running_loop().call_later(seconds, log.leaderless.discard, partition)


def moved() -> ServerError:
    return ServerError("moved", code=6, name="NOT_LEADER_OR_FOLLOWER", retriable=True)


@pytest.mark.parametrize("away_s", [0.05, 3.0, 90.0])
def test_a_producer_writes_as_soon_as_there_is_a_leader(log: FakeLog, away_s: float) -> None:
    log.leaderless.add(ZERO)

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            elect_after(log, away_s)
            await (await producer.send("t", b"a"))
            assert away_s <= asyncio.get_running_loop().time() < 1.05 * away_s + 0.3

    run(main())
    assert len(log.asked) < 30 + 1.3 * away_s


def test_a_producer_whose_partition_loses_its_leader_goes_on(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            await (await producer.send("t", b"a"))
            log.leaderless.add(ZERO)
            log.faults["send"].append(moved())
            elect_after(log, 20)
            await (await producer.send("t", b"b"))
            assert asyncio.get_running_loop().time() < 21.5

    run(main())


def test_a_partition_that_stays_without_a_leader_is_named_and_then_left_in_peace(log: FakeLog) -> None:
    log.leaderless.add(ZERO)

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            with pytest.raises(DeliveryTimeout, match="its partition has no known leader"):
                await (await producer.send("t", b"a"))
            assert asyncio.get_running_loop().time() == pytest.approx(120, abs=1)
            before = len(log.asked)
            await passing(100)
            assert len(log.asked) <= before + 1

    run(main())


def test_a_leader_that_cannot_be_connected_to_is_the_reason(log: FakeLog) -> None:
    log.leaderless.add(ZERO)
    log.troubles[ZERO] = ConnectionLost("cannot connect: there is no address for the host b", node="b:9092")

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            with pytest.raises(
                DeliveryTimeout, match=r"no address for the host b \(node b:9092\).*never sent"
            ) as caught:
                await (await producer.send("t", b"a"))
            assert caught.value.__cause__ is log.troubles[ZERO]

    run(main())


def test_one_long_poll_outlasts_a_partition_without_a_leader(log: FakeLog) -> None:
    log.write("t", [b"a"])

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", auto_offset_reset="earliest") as consumer:
            assert [each.value for each in await consumer.poll(60)] == [b"a"]
            log.leaderless.add(ZERO)
            log.faults["fetch"].append(moved())
            elect_after(log, 20)
            log.write("t", [b"b"])
            assert [each.value for each in await consumer.poll(200)] == [b"b"]
            assert asyncio.get_running_loop().time() < 22

    run(main())


def test_partitions_with_a_leader_are_read_while_another_has_none(log: FakeLog) -> None:
    for partition in range(4):
        log.write("t4", [b"%d" % partition], partition)
    lost = Partition("t4", 2)
    log.leaderless.add(lost)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t4", auto_offset_reset="earliest") as consumer:
            found = set()
            while len(found) < 3:
                found |= {each.value for each in await consumer.poll(2)}
                assert asyncio.get_running_loop().time() < 2
            assert found == {b"0", b"1", b"3"}
            elect_after(log, 5, lost)
            assert [each.value for each in await consumer.poll(60)] == [b"2"]
            assert asyncio.get_running_loop().time() < 8

    run(main())


def test_a_leader_that_is_missed_while_an_answer_is_on_its_way_is_asked_for_after_it(log: FakeLog) -> None:
    log.create("other")
    log.leaderless.add(ZERO)
    log.topics_delays_s.append(4.0)

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            first = await producer.send("other", b"a")
            await passing(1.0)
            second = await producer.send("t", b"b")
            elect_after(log, 3.5)
            await first
            await second
            # "t" was asked for right after "other", and again when it had no leader yet.
            assert asyncio.get_running_loop().time() < 5

    run(main())
    assert [names for _, names in log.asked][1] == {"t", "other"}
    assert [time for time, _ in log.asked][1] == pytest.approx(4.0, abs=0.01)
