"""A broker that was killed has forgotten confirmed offsets; the member has not, and registers again where it stood."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from penstock.client import AsyncConsumer
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import CommitOffsetResponseB2C, RegisterResponseB2C
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import go
from tests.unit.tubemq_consumer.groups import GroupCluster, World, filled, kill_broker, world
from tests.unit.tubemq_consumer.test_server_balanced import drain, numbers

ZERO = Partition("demo", 0, "1")
MODES = ["chosen", "allocated", "shared out by the master"]


async def begin(w: World, mode: str, **options: Any) -> AsyncConsumer:
    """A member that reads the topic, in one of the ways to get partitions."""
    consumer = w.consumer(client_balance=mode == "allocated", **options)
    if mode == "chosen":
        await consumer.assign(list(await consumer.partitions_for("demo")))
    else:
        await consumer.subscribe(["demo"])
    return consumer


async def read_for(consumer: AsyncConsumer, seconds: float) -> list[bytes | None]:
    """All that comes within this time, confirmed; errors that polls raise are passed over."""
    found: list[bytes | None] = []
    over = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < over:
        with contextlib.suppress(PenstockError):
            batch = await consumer.poll(1)
            found += batch.value.to_pylist()
            await consumer.commit(batch)
    return found


def starts(cluster: GroupCluster) -> list[int]:
    """Offsets that registrations of the group named, in order."""
    asked = [each for each in cluster.asked(m.REGISTER_PARTITION) if each.group_name == "g1" and each.op_type == 31]
    return [each.curr_offset for each in asked if each.HasField("curr_offset")]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_confirmed_is_read_twice_after_a_broker_was_killed(mode: str) -> None:
    async def work() -> None:
        async with world(filled(20)) as w:
            consumer = await begin(w, mode)
            assert sorted(await drain(consumer, 20)) == sorted(numbers(20))
            kill_broker(w.cluster)
            w.cluster.put("demo", 0, b"new")
            assert await read_for(consumer, 40) == [b"new"]
            await consumer.close()

    go(work())


@pytest.mark.parametrize("mode", MODES)
def test_a_broker_that_stays_away_for_a_while_makes_no_difference(mode: str) -> None:
    # The registrations fail so often that the member gives the partition up, and takes it as a new one later.
    async def work() -> None:
        async with world(filled(10)) as w:
            consumer = await begin(w, mode)
            await drain(consumer, 10)
            kill_broker(w.cluster)
            w.cluster.refuse[15] = lambda _: RegisterResponseB2C(
                success=False, err_code=503, err_msg="not started", curr_offset=-1
            )
            assert await read_for(consumer, 30) == []
            w.cluster.refuse.clear()
            w.cluster.put("demo", 0, b"new")
            assert await read_for(consumer, 60) == [b"new"]
            await consumer.close()

    go(work())


@pytest.mark.parametrize("mode", MODES)
def test_what_the_broker_remembers_is_not_asked_for_otherwise(mode: str) -> None:
    # Its place is the member's, or behind it: then somebody else has read on, or an operator has moved the group.
    async def work() -> None:
        async with world(filled(20, partitions=1)) as w:
            consumer = await begin(w, mode)
            await drain(consumer, 5)
            w.cluster.held.clear()
            w.cluster.places["g1", "demo", 0] = 28 * 15
            assert await read_for(consumer, 40) == numbers(20)[15:]
            assert starts(w.cluster) == []
            await consumer.close()

    go(work())


@pytest.mark.parametrize("mode", MODES)
def test_new_messages_at_offsets_given_out_again_are_read(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    # Unflushed messages are lost with a broker: what is written then has offsets that were confirmed before.
    async def work() -> None:
        async with world(filled(20, partitions=1)) as w:
            consumer = await begin(w, mode)
            await drain(consumer, 20)
            kill_broker(w.cluster)
            del w.cluster.store("demo", 0).records[8:]
            w.cluster.put("demo", 0, b"new")
            found = await read_for(consumer, 40)
            assert found == [*numbers(8), b"new"]
            assert starts(w.cluster) == []
            await consumer.close()

    go(work())
    assert "has lost its last messages" in caplog.text


def test_half_of_a_batch_that_was_committed_is_not_read_twice() -> None:
    async def work() -> None:
        async with world(filled(5, partitions=1)) as w:
            consumer = await begin(w, "chosen")
            batch = await consumer.poll(5)
            assert len(batch) == 5
            await consumer.commit(batch[:3])
            kill_broker(w.cluster)
            assert await read_for(consumer, 40) == numbers(5)[3:]
            await consumer.close()

    go(work())


@pytest.mark.parametrize("mode", MODES)
def test_batches_confirmed_with_the_next_request_count_too(mode: str) -> None:
    async def work() -> None:
        async with world(filled(10, partitions=1)) as w:
            consumer = await begin(w, mode, confirm_locally=True)
            assert await drain(consumer, 10) == numbers(10)
            kill_broker(w.cluster)
            w.cluster.put("demo", 0, b"new")
            assert await read_for(consumer, 40) == [b"new"]
            await consumer.close()

    go(work())


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_seek_that_the_broker_did_not_answer_is_not_forgotten(mode: str) -> None:
    async def work() -> None:
        async with world(filled(10, partitions=1)) as w:
            consumer = await begin(w, mode)
            await drain(consumer, 10)
            w.cluster.refuse[15] = lambda _: RegisterResponseB2C(
                success=False, err_code=503, err_msg="not started", curr_offset=-1
            )
            await consumer.seek(ZERO, 28 * 7)
            assert await read_for(consumer, 30) == []
            kill_broker(w.cluster)
            w.cluster.refuse.clear()
            assert await read_for(consumer, 60) == numbers(10)[7:]
            await consumer.close()

    go(work())


def test_who_leaves_while_the_broker_is_dead_comes_back_where_it_was() -> None:
    async def work() -> None:
        async with world(filled(10, partitions=1)) as w:
            consumer = await begin(w, "allocated", max_poll_interval_ms=5_000)
            await drain(consumer, 10)
            kill_broker(w.cluster)
            for method in (15, 16, 17, 18):
                w.cluster.refuse[method] = lambda _: CommitOffsetResponseB2C(
                    success=False, err_code=503, err_msg="not started"
                )
            await passing(20)  # without a poll: it leaves the group
            assert w.cluster.consumers == {}
            w.cluster.refuse.clear()
            w.cluster.put("demo", 0, b"new")
            assert await read_for(consumer, 60) == [b"new"]
            await consumer.close()

    go(work())


def test_where_another_member_was_in_between_that_one_decides() -> None:
    async def work() -> None:
        async with world(filled(10, partitions=1)) as w:
            consumer = await begin(w, "chosen")
            await drain(consumer, 10)
            w.cluster.held["g1", "demo", 0].client = "another"
            assert await read_for(consumer, 20) == []
            del w.cluster.held["g1", "demo", 0]
            w.cluster.places["g1", "demo", 0] = 28 * 6  # it went back to there
            assert await read_for(consumer, 40) == numbers(10)[6:]
            await consumer.close()

    go(work())
