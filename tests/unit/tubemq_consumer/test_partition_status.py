"""What a consumer says of its partitions, and of polls that return nothing."""

from __future__ import annotations

import asyncio

import pytest

from penstock import EmptyReason, ReadState
from penstock.client import AsyncConsumer
from penstock.errors import Closed, ServerError
from penstock.model import Partition
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C, RegisterResponseB2C, RegisterResponseM2C
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import go
from tests.unit.tubemq_consumer.groups import filled, world
from tests.unit.tubemq_consumer.test_server_balanced import drain

ZERO, ONE = Partition("demo", 0, "1"), Partition("demo", 10_000, "1")


async def states(consumer: AsyncConsumer) -> dict[Partition, ReadState]:
    return {partition: status.state for partition, status in (await consumer.partition_status()).items()}


def test_before_anything_is_assigned_polls_say_so() -> None:
    async def work() -> None:
        cluster = filled(5, partitions=1)
        cluster.share_out = False
        async with world(cluster) as w, w.consumer("demo") as consumer:
            assert consumer.empty_reason() is None
            assert await consumer.partition_status() == {}
            assert not await consumer.poll(1)
            assert consumer.empty_reason() is EmptyReason.NONE_ASSIGNED

    go(work())


def test_a_batch_that_is_out_is_in_use_until_it_is_confirmed() -> None:
    async def work() -> None:
        async with world(filled(7, partitions=1)) as w, w.consumer("demo") as consumer:
            batch = await consumer.poll(5)
            assert len(batch) == 5
            assert consumer.empty_reason() is None
            (status,) = (await consumer.partition_status()).values()
            assert (status.partition, status.state, status.position, status.end_offset, status.caught_up) == (
                ZERO, ReadState.IN_USE, 0, 28 * 7, False,
            )  # fmt: skip
            assert not await consumer.poll(1)
            assert consumer.empty_reason() is EmptyReason.ALL_IN_USE
            await consumer.commit(batch)
            assert len(await consumer.poll(5)) == 2
            assert consumer.empty_reason() is None
            await consumer.commit()
            assert not await consumer.poll(2)
            assert consumer.empty_reason() is EmptyReason.NOTHING_NEW
            (status,) = (await consumer.partition_status()).values()
            assert (status.position, status.end_offset, status.caught_up) == (28 * 7, 28 * 7, True)
            w.cluster.put("demo", 0, b"8")
            await passing(1)
            assert await states(consumer) == {ZERO: ReadState.BUFFERED}

    go(work())


def test_flow_control_and_pauses_are_told_apart() -> None:
    async def work() -> None:
        async with world(filled(20, partitions=1, stores=2)) as w, w.consumer("demo") as consumer:
            await drain(consumer, 20)
            for partition in (ZERO, ONE):
                w.cluster.put("demo", partition.id, b"more")
            w.cluster.refuse[17] = lambda _: GetMessageResponseB2C(
                success=False, err_code=452, err_msg="slower", min_limit_time=60_000
            )
            await passing(3)
            await consumer.poll(1)  # what came before the broker slowed down
            await consumer.commit()
            assert not await consumer.poll(1)
            assert consumer.empty_reason() is EmptyReason.ALL_WAITING
            assert set((await states(consumer)).values()) == {ReadState.WAITING}
            await consumer.pause([ZERO])
            assert not await consumer.poll(1)
            assert (await states(consumer))[ZERO] is ReadState.PAUSED
            await consumer.pause([ONE])
            assert not await consumer.poll(1)
            assert consumer.empty_reason() is EmptyReason.ALL_PAUSED

    go(work())


@pytest.mark.parametrize("assigned", [False, True])
def test_partitions_are_waited_for_without_reading_any(assigned: bool) -> None:
    async def work() -> None:
        cluster = filled(2, partitions=1)
        cluster.share_out = False
        async with world(cluster) as w, w.consumer() as consumer:
            loop = asyncio.get_running_loop()
            if assigned:
                cluster.refuse[15] = lambda _: RegisterResponseB2C(
                    success=False, err_code=503, err_msg="", curr_offset=-1
                )
                await consumer.assign([ZERO])
                loop.call_later(10, cluster.refuse.clear)
            else:
                await consumer.subscribe(["demo"])
                loop.call_later(10, setattr, cluster, "share_out", True)
            assert not await consumer.partitions_ready()
            begun = loop.time()
            assert not await consumer.partitions_ready(5)
            assert 5 <= loop.time() - begun < 5.1
            assert await consumer.partitions_ready(30)
            assert 10 <= loop.time() - begun < 15
            assert await consumer.partitions_ready()
            assert await drain(consumer, 2) == [b"0", b"1"]

    go(work())


def test_what_goes_wrong_meanwhile_is_raised_and_a_closed_consumer_says_so() -> None:
    async def work() -> None:
        async with world(filled(0)) as w:
            consumer = w.consumer("demo")
            w.cluster.refuse[4] = lambda _: RegisterResponseM2C(success=False, err_code=450, err_msg="no")
            with pytest.raises(ServerError, match="CONSUME_GROUP_FORBIDDEN"):
                await consumer.partitions_ready(30)
            await consumer.close()
            with pytest.raises(Closed):
                await consumer.partitions_ready()

    go(work())
