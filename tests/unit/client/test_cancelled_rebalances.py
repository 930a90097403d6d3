"""A poll that is cancelled in the middle of a rebalance: the next one goes on there, before it hands out records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from penstock.client import AsyncConsumer, Consumer, RebalanceListener
from penstock.client.consumer.membership import Event, Rebalancing
from penstock.interfaces import Beat, Verdict
from penstock.model import Assignment, Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
ZERO, ONE, TWO = (Partition("t", number) for number in range(3))


class Slow(RebalanceListener):
    """Notes what it hears; what is in ``slow`` takes it an hour, once."""

    def __init__(self, *slow: str) -> None:
        self.heard: list[str] = []
        self._slow = list(slow)

    async def assigned(self, partitions: Collection[Partition]) -> None:
        await self._hear("assigned", partitions)

    async def revoked(self, partitions: Collection[Partition]) -> None:
        await self._hear("revoked", partitions)

    async def lost(self, partitions: Collection[Partition]) -> None:
        await self._hear("lost", partitions)

    async def _hear(self, what: str, partitions: Collection[Partition]) -> None:
        told = f"{what} {sorted(each.id for each in partitions)}"
        self.heard.append(told)
        if told in self._slow:
            self._slow.remove(told)
            await passing(3_600)


async def cancelled(consumer: AsyncConsumer) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await consumer.poll(10)
            raise AssertionError("it was not cancelled")


def with_consumer(listener: Slow, work: Callable[[AsyncConsumer, Rebalancing], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g", auto_offset_reset="earliest") as consumer:
            await consumer.subscribe("t", listener)
            engine = consumer._engine
            assert engine is not None
            assert engine.rebalancing is not None
            await work(consumer, engine.rebalancing)

    run(main())


def test_a_listener_that_was_cut_short_is_called_again_before_records_are_handed_out(log: FakeLog) -> None:
    log.write("t", [b"a"])
    listener = Slow("assigned [0]")

    async def work(consumer: AsyncConsumer, _: Rebalancing) -> None:
        await cancelled(consumer)
        assert listener.heard == ["assigned [0]"]
        assert (await consumer.poll(1))[0].value == b"a"
        assert listener.heard == ["assigned [0]"] * 2
        await consumer.poll(1)
        assert len(listener.heard) == 2

    with_consumer(listener, work)


def test_what_is_revoked_after_a_join_is_revoked_once_more_and_the_rest_follows(log: FakeLog) -> None:
    log.create("t", 2)
    listener = Slow("revoked [0]")

    async def work(consumer: AsyncConsumer, rebalancing: Rebalancing) -> None:
        await consumer.poll(1)
        # As a member that keeps partitions through a join, and loses one of them by it.
        membership = rebalancing.member.membership
        membership.must_revoke = lambda owned: frozenset()  # type: ignore[assignment]

        async def join(*_: object) -> Assignment:
            return Assignment(2, frozenset({ONE}))

        membership.join = join  # type: ignore[method-assign, assignment]
        rebalancing.member.see(Event.REJOIN, "a test wants it")
        await cancelled(consumer)
        assert listener.heard == ["assigned [0, 1]", "revoked [0]"]
        await consumer.poll(0)
        assert listener.heard == ["assigned [0, 1]", "revoked [0]", "revoked [0]", "assigned []", "assigned []"]
        assert consumer.assignment() == {ONE}
        assert not rebalancing.needs_poll

    with_consumer(listener, work)


def test_what_was_lost_meanwhile_is_told_as_lost(log: FakeLog) -> None:
    listener = Slow("assigned [0]")

    async def work(consumer: AsyncConsumer, rebalancing: Rebalancing) -> None:
        await cancelled(consumer)
        rebalancing.member.see(Event.LOST)
        await consumer.poll(1)
        assert listener.heard == ["assigned [0]", "lost [0]", "assigned [0]"]

    with_consumer(listener, work)


BEATS = [
    Beat(Verdict.STEADY, revoked=frozenset({ZERO}), assigned=frozenset({TWO})),
    Beat(Verdict.STEADY, lost=frozenset({ONE})),
]


@pytest.mark.parametrize("slow", ["revoked [0]", "assigned [2]", "lost [1]"])
def test_what_a_group_said_bit_by_bit_is_carried_through(log: FakeLog, slow: str) -> None:
    log.create("t", 2)
    listener = Slow(slow)
    given_back: list[Collection[Partition]] = []

    async def give_back(partitions: Collection[Partition]) -> None:
        given_back.append(partitions)
        if len(given_back) == 1:
            await passing(3_600)

    async def work(consumer: AsyncConsumer, rebalancing: Rebalancing) -> None:
        await consumer.poll(1)
        rebalancing._give_back = give_back
        rebalancing.member.events.extend(BEATS)
        for _ in range(2):  # the listener, and the broker that is told, each once
            await cancelled(consumer)
        await consumer.poll(1)
        expected = ["assigned [0, 1]", "revoked [0]", "assigned [2]", "lost [1]"]
        expected.insert(expected.index(slow), slow)
        assert listener.heard == expected
        assert given_back == [frozenset({ZERO})] * 2
        assert consumer.assignment() == {TWO}
        assert not rebalancing.needs_poll

    with_consumer(listener, work)


@pytest.mark.parametrize("out", [Event.LOST, Event.OVERDUE])
def test_what_a_group_said_before_its_member_was_out_is_not_carried_through_after_the_next_join(
    log: FakeLog, out: Event
) -> None:
    log.create("t", 2)
    listener = Slow()

    async def work(consumer: AsyncConsumer, rebalancing: Rebalancing) -> None:
        await consumer.poll(1)
        rebalancing.member.events.extend(BEATS)
        rebalancing.member.see(out)
        await consumer.poll(1)
        assert listener.heard == ["assigned [0, 1]", "lost [0, 1]", "assigned [0, 1]"]
        assert consumer.assignment() == {ZERO, ONE}
        assert not rebalancing.needs_poll

    with_consumer(listener, work)


def test_closing_tells_what_a_cancelled_poll_did_not(log: FakeLog) -> None:
    listener = Slow("assigned [0]")

    async def work(consumer: AsyncConsumer, _: Rebalancing) -> None:
        await cancelled(consumer)

    with_consumer(listener, work)
    assert listener.heard == ["assigned [0]", "revoked [0]"]


def test_ctrl_c_in_a_listener_does_not_cost_the_synchronous_consumer_its_rebalance(log: FakeLog) -> None:
    log.write("t", [b"a"])
    heard: list[Collection[Partition]] = []

    class Interrupted(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            heard.append(partitions)
            if len(heard) == 1:
                raise KeyboardInterrupt

    with Consumer(ADDRESS, group="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe("t", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(30)
        assert consumer.poll(30)[0].value == b"a"
        assert heard == [{ZERO}, {ZERO}]
