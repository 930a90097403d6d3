"""A member and its group in virtual time: heartbeats beside user code, polls that stay away, joins that take long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

import pytest

from penstock.client import AsyncConsumer, RebalanceListener
from penstock.client.consumer.membership import TABLE, Event, State
from penstock.client.errors import CommitFailed
from penstock.errors import ConnectionLost, FencedError, ServerError
from penstock.model import Committed, Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
ZERO = Partition("t", 0)


class Heard(RebalanceListener):
    def __init__(self) -> None:
        self.events: list[str] = []

    async def assigned(self, partitions: Collection[Partition]) -> None:
        self.events.append(f"assigned {sorted(each.id for each in partitions)}")

    def revoked(self, partitions: Collection[Partition]) -> None:
        self.events.append(f"revoked {sorted(each.id for each in partitions)}")

    def lost(self, partitions: Collection[Partition]) -> None:
        self.events.append(f"lost {sorted(each.id for each in partitions)}")


def consumer_of(topic: str, **options: int | bool) -> AsyncConsumer:
    return AsyncConsumer(f"{ADDRESS}/{topic}", group="g", **options)


def test_only_a_new_subscription_leads_out_of_fenced() -> None:
    out = {event for (state, event), to in TABLE.items() if state is State.FENCED and to is not State.FENCED}
    assert out == {Event.LEFT}


def test_heartbeats_go_on_while_user_code_computes(log: FakeLog) -> None:
    beats: list[float] = []

    async def main() -> None:
        async with consumer_of("t", max_poll_interval_ms=60_000) as consumer:
            await consumer.poll(1)
            member = log.groups["g"].members
            fault = log.fault

            def watch(call: str) -> None:
                if call == "heartbeat":
                    beats.append(asyncio.get_running_loop().time())
                fault(call)

            consumer._engine.rebalancing.member.membership._fault = watch  # type: ignore[union-attr]
            await passing(30)
            assert len(member) == 1

    run(main())
    assert len(beats) >= 9


def test_who_does_not_poll_leaves_and_comes_back_with_the_reason_told(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()

    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g", max_poll_interval_ms=10_000) as consumer:
            await consumer.subscribe(["t"], heard)
            await consumer.poll(1)
            assert len(log.groups["g"].members) == 1
            await passing(20)
            assert log.groups["g"].members == {}
            with pytest.raises(CommitFailed, match=r"gone of its group.*no poll for"):
                await consumer.commit({ZERO: 1})
            await consumer.poll(1)
            assert len(log.groups["g"].members) == 1

    with caplog.at_level(logging.WARNING, "penstock"):
        run(main())
    assert heard.events == ["assigned [0]", "lost [0]", "assigned [0]", "revoked [0]"]
    assert "Poll more often" in caplog.text


def test_who_comes_back_while_its_leaving_is_still_on_its_way_joins_after_it(log: FakeLog) -> None:
    async def main() -> None:
        async with consumer_of("t", max_poll_interval_ms=10_000) as consumer:
            await consumer.poll(1)
            membership = consumer._engine.rebalancing.member.membership  # type: ignore[union-attr]
            leave = membership.leave

            async def slowly(reason: str) -> None:
                await passing(5)
                await leave(reason)

            membership.leave = slowly  # type: ignore[method-assign]
            await passing(13)  # it is leaving
            assert not await consumer.poll(1)
            assert consumer.assignment() == set()
            assert not await consumer.poll(5)
            assert consumer.assignment() == {ZERO}
            await passing(5)
            assert len(log.groups["g"].members) == 1, "the leaving ended what came after it"
            membership.leave = leave  # type: ignore[method-assign]

    run(main())


def test_a_long_poll_is_not_taken_for_no_poll(log: FakeLog) -> None:
    async def main() -> None:
        async with consumer_of("t", max_poll_interval_ms=10_000) as consumer:
            assert not await consumer.poll(60)
            assert consumer.assignment() == {ZERO}
            assert log.groups["g"].generation == 1

    run(main())


def test_a_join_that_outlasts_a_poll_goes_on_in_the_next(log: FakeLog) -> None:
    log.write("t", [b"a"])
    group = log.groups["g"]

    async def main() -> None:
        group.members["somebody who does not come"] = frozenset()
        async with consumer_of("t") as consumer:
            for _ in range(3):
                assert not await consumer.poll(1)
            assert group.joins == 1
            del group.members["somebody who does not come"]
            group.finish_round()
            assert (await consumer.poll(1))[0].value == b"a"
            assert group.joins == 1

    run(main())


def test_a_cancelled_poll_leaves_the_consumer_usable(log: FakeLog) -> None:
    async def main() -> None:
        async with consumer_of("t") as consumer:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await consumer.poll(10)
            log.write("t", [b"a"])
            assert (await consumer.poll(1))[0].value == b"a"
            assert log.groups["g"].generation == 1

    run(main())


def test_losing_the_membership_is_told_as_lost_and_joined_again(log: FakeLog) -> None:
    heard = Heard()

    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g") as consumer:
            await consumer.subscribe(["t"], heard)
            await consumer.poll(1)
            log.groups["g"].members.clear()
            await passing(4)
            await consumer.poll(1)

    run(main())
    assert heard.events == ["assigned [0]", "lost [0]", "assigned [0]", "revoked [0]"]


def test_a_fenced_member_says_so_in_poll_and_commit_until_it_subscribes_anew(log: FakeLog) -> None:
    async def main() -> None:
        async with consumer_of("t") as consumer:
            await consumer.poll(1)
            log.faults["heartbeat"].append(FencedError("taken", code=82, name="FENCED"))
            await passing(4)
            for _ in range(2):
                with pytest.raises(FencedError):
                    await consumer.poll(1)
                with pytest.raises(FencedError):
                    await consumer.commit({ZERO: 1})
            assert consumer.assignment() == frozenset()
            log.groups["g"].members.clear()
            await consumer.subscribe("t")
            await consumer.poll(1)
            assert consumer.assignment() == {ZERO}

    run(main())


def test_failing_heartbeats_do_not_end_a_membership(log: FakeLog) -> None:
    async def main() -> None:
        async with consumer_of("t") as consumer:
            await consumer.poll(1)
            log.faults["heartbeat"].extend([ConnectionLost("gone")] * 3)
            await passing(20)
            assert not await consumer.poll(1)
            assert log.groups["g"].generation == 1

    run(main())


def test_an_exception_of_the_listener_is_raised_once_the_rebalance_is_through(log: FakeLog) -> None:
    log.write("t", [b"a"])

    class Breaks(RebalanceListener):
        def assigned(self, partitions: Collection[Partition]) -> None:
            raise LookupError("of the application")

    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g") as consumer:
            await consumer.subscribe(["t"], Breaks())
            with pytest.raises(LookupError):
                await consumer.poll(1)
            assert consumer.assignment() == {ZERO}
            assert (await consumer.poll(1))[0].value == b"a"

    run(main())


def test_automatic_commits_run_behind_the_polls(log: FakeLog) -> None:
    log.write("t", [b"%d" % number for number in range(10)])

    async def main() -> list[int]:
        seen = []
        async with consumer_of("t", enable_auto_commit=True, auto_commit_interval_ms=1_000) as consumer:
            for _ in range(4):
                await consumer.poll(1, max_records=2)
                await passing(1.5)
                seen.append(log.groups["g"].committed.get(ZERO, Committed(0)).offset)
        return seen

    # Each poll commits what the polls before it returned, and never what it is about to return itself.
    assert run(main()) == [0, 2, 4, 6]
    assert log.groups["g"].committed[ZERO].offset == 8


def test_a_failed_automatic_commit_is_raised_from_the_next_poll(log: FakeLog) -> None:
    log.write("t", [b"a", b"b"])

    async def main() -> None:
        async with consumer_of("t", enable_auto_commit=True, auto_commit_interval_ms=100) as consumer:
            await consumer.poll(1, max_records=1)
            log.faults["commit"].append(ServerError("forbidden", code=30, name="GROUP_AUTHORIZATION_FAILED"))
            await passing(1)
            await consumer.poll(1, max_records=1)
            await passing(1)
            with pytest.raises(ServerError, match="forbidden"):
                await consumer.poll(1)

    run(main())


def test_a_topic_that_comes_later_is_joined_then(log: FakeLog) -> None:
    async def main() -> None:
        async with consumer_of("later") as consumer:
            assert not await consumer.poll(5)
            log.create("later", 2)
            log.write("later", [b"a"], 1)
            assert (await consumer.poll(5))[0].value == b"a"

    run(main())


def test_unsubscribing_gives_everything_up_and_commits_what_was_handled(log: FakeLog) -> None:
    log.write("t", [b"a", b"b"])
    heard = Heard()

    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g", enable_auto_commit=True) as consumer:
            await consumer.subscribe(["t"], heard)
            await consumer.poll(1, max_records=1)
            await consumer.poll(1, max_records=1)
            await consumer.unsubscribe()
            assert consumer.assignment() == frozenset()
            assert consumer.subscription() == frozenset()
            assert log.groups["g"].members == {}
            assert log.groups["g"].committed[ZERO].offset == 1

    run(main())
    assert heard.events == ["assigned [0]", "revoked [0]"]
