"""Members that keep what they own while their group shares out anew: what flows on, and who hears what when."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from penstock.client import AsyncConsumer, RebalanceListener
from penstock.client.consumer.membership import State
from penstock.errors import UsageError
from penstock.model import Committed, Partition
from tests.conformance.fake_group import FakeGroup
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
ABSENT = "somebody who does not come"


class Heard(RebalanceListener):
    def __init__(self, name: str, told: list[str]) -> None:
        self._name, self._told = name, told

    def assigned(self, partitions: Collection[Partition]) -> None:
        self._hear("assigned", partitions)

    def revoked(self, partitions: Collection[Partition]) -> None:
        self._hear("revoked", partitions)

    def lost(self, partitions: Collection[Partition]) -> None:
        self._hear("lost", partitions)

    def _hear(self, what: str, partitions: Collection[Partition]) -> None:
        self._told.append(f"{self._name} {what} {sorted(each.id for each in partitions)}")


@pytest.fixture
def group(log: FakeLog) -> FakeGroup:
    log.groups["g"].cooperative = True
    return log.groups["g"]


async def member(name: str, told: list[str], **options: int | bool) -> AsyncConsumer:
    consumer = AsyncConsumer(ADDRESS, group="g", **options)
    await consumer.subscribe(["t4"], Heard(name, told))
    await consumer.poll(0.1)
    return consumer


async def settled(*consumers: AsyncConsumer) -> None:
    """Everybody polls while heartbeats have time to tell everybody."""
    for _ in range(8):
        for consumer in consumers:
            await consumer.poll(0.1)
        await passing(1)


def test_what_stays_is_read_and_committed_while_the_others_are_waited_for(log: FakeLog, group: FakeGroup) -> None:
    async def main() -> None:
        told: list[str] = []
        first = await member("a", told)
        group.members[ABSENT] = frozenset()
        group.rebalancing = True
        await passing(4)
        for number in range(3):
            for partition in range(4):
                log.write("t4", [b"%d" % number], partition)
            values = [record.value for _ in range(4) for record in await first.poll(0.5)]
            assert values == [b"%d" % number] * 4
            await first.commit()
            assert set(group.committed.values()) == {Committed(number + 1)}
        assert (group.generation, set(group.waiting)) == (1, {"member-1"})
        assert told == ["a assigned [0, 1, 2, 3]"]
        del group.members[ABSENT]
        group.finish_round()
        await first.poll(1)
        assert told == ["a assigned [0, 1, 2, 3]", "a assigned []"]
        await first.close()

    run(main())


def test_what_moves_is_revoked_before_anybody_else_is_given_it(log: FakeLog, group: FakeGroup) -> None:
    told: list[str] = []

    async def main() -> None:
        first = await member("a", told)
        second = await member("b", told)
        await settled(first, second)
        assert told == [
            "a assigned [0, 1, 2, 3]",
            "a revoked [2, 3]",
            "a assigned []",
            "b assigned []",
            "b assigned [2, 3]",
            "a assigned []",
        ]
        told.clear()
        await second.close()
        await settled(first)
        assert told == ["b revoked [2, 3]", "a assigned [2, 3]"]
        await first.close()

    run(main())


def test_nothing_that_stays_is_read_twice_or_left_out(log: FakeLog, group: FakeGroup) -> None:
    async def main() -> None:
        first = await member("a", [])
        for partition in range(4):
            log.write("t4", [b"%d" % number for number in range(10)], partition)
        seen: list[tuple[int, bytes]] = []

        async def read(consumer: AsyncConsumer) -> None:
            seen.extend((record.partition, record.value or b"") for record in await consumer.poll(0.2, max_records=3))

        await read(first)
        second = await member("b", [], auto_offset_reset="latest")
        for _ in range(30):
            await read(first)
            await first.commit()
            await second.poll(0.1)
            await passing(0.5)
        assert {each.id for each in first.assignment()} == {0, 1}
        kept = [each for each in seen if each[0] in {0, 1}]
        assert sorted(kept) == [(partition, b"%d" % number) for partition in (0, 1) for number in range(10)]
        await first.close()
        await second.close()

    run(main())


def test_a_member_that_was_dropped_while_it_joined_hears_that_all_is_lost(log: FakeLog, group: FakeGroup) -> None:
    told: list[str] = []

    async def main() -> None:
        first = await member("a", told)
        await first.enforce_rebalance("a test")
        group.members.clear()
        await first.poll(1)
        await first.close()

    run(main())
    assert told == [
        "a assigned [0, 1, 2, 3]",
        "a lost [0, 1, 2, 3]",
        "a assigned [0, 1, 2, 3]",
        "a revoked [0, 1, 2, 3]",
    ]


def test_a_join_that_no_poll_takes_up_is_kept_alive_until_the_member_is_overdue(log: FakeLog, group: FakeGroup) -> None:
    told: list[str] = []
    beats: list[str] = []

    async def main() -> None:
        first = await member("a", told, max_poll_interval_ms=20_000)
        group.members[ABSENT] = frozenset()
        await first.enforce_rebalance("a test")
        await first.poll(0.1)
        membership = first._engine.rebalancing.member.membership  # type: ignore[union-attr]
        fault = membership._fault  # type: ignore[attr-defined]
        membership._fault = lambda call: (beats.append(call), fault(call))  # type: ignore[attr-defined]
        await passing(5)
        assert "heartbeat" not in beats, "the join that waits is the sign of life"
        del group.members[ABSENT]
        group.finish_round()
        await passing(12)
        assert beats.count("heartbeat") >= 3
        assert len(group.members) == 1
        await passing(20)
        assert not group.members
        await first.poll(1)
        await first.close()

    run(main())
    assert told == [
        "a assigned [0, 1, 2, 3]",
        "a lost [0, 1, 2, 3]",
        "a assigned [0, 1, 2, 3]",
        "a revoked [0, 1, 2, 3]",
    ]


def test_who_leaves_in_the_middle_of_a_join_still_commits(log: FakeLog, group: FakeGroup) -> None:
    told: list[str] = []

    async def main() -> None:
        first = await member("a", told, enable_auto_commit=True)
        log.write("t4", [b"a"], 0)
        assert await first.poll(1)
        group.members[ABSENT] = frozenset()
        await first.enforce_rebalance("a test")
        await first.poll(0.1)
        log.write("t4", [b"b"], 1)
        assert await first.poll(1)
        await first.close()
        assert {each.id: committed.offset for each, committed in group.committed.items() if committed.offset} == {
            0: 1,
            1: 1,
        }

    run(main())
    assert told == ["a assigned [0, 1, 2, 3]", "a revoked [0, 1, 2, 3]"]


def test_an_eager_group_gives_everything_up_first(log: FakeLog) -> None:
    told: list[str] = []

    async def main() -> None:
        first = await member("a", told)
        await first.enforce_rebalance("a test")
        await first.poll(1)
        assert log.groups["g"].generation == 2
        await first.close()

    run(main())
    assert told == ["a assigned [0, 1, 2, 3]", "a revoked [0, 1, 2, 3]"] * 2


def test_only_a_group_can_be_told_to_share_out_anew(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t4") as alone, AsyncConsumer(ADDRESS, group="g") as idle:
            for consumer in (alone, idle):
                with pytest.raises(UsageError, match="shares no partitions with a group"):
                    await consumer.enforce_rebalance()

    run(main())


def test_a_poll_that_ends_as_the_join_does_leaves_no_member_without_heartbeats(log: FakeLog, group: FakeGroup) -> None:
    """The poll's time is over, and it finds the join done, before whoever waits for the join's end has been told."""
    told: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for early in range(6):
            group.members[ABSENT] = frozenset()
            consumer = AsyncConsumer(ADDRESS, group="g")
            await consumer.subscribe(["t4"], Heard("a", told))

            def finish() -> None:
                del group.members[ABSENT]
                group.finish_round()

            loop.call_at(round(loop.time() + 0.1, 3) - early * 1e-10, finish)
            await consumer.poll(0.1)
            await consumer.poll(0.1)
            group.rebalancing = True
            await passing(4)
            assert consumer._engine is not None
            assert consumer._engine.rebalancing is not None
            assert consumer._engine.rebalancing.member.state is State.STALE
            await consumer.close()

    run(main())
