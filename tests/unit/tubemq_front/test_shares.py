"""What one client may have of what all share, and that its large requests leave turns to others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.protocols.tubemq.wire import messages as t
from penstock.protocols.tubemq.wire.rpc import CONSUMER_REGISTER, PARTITION_HEARTBEAT, PRODUCER_REGISTER
from tests.unit.tubemq_front.kit import Client, Kit, run

pytestmark = pytest.mark.near  # about counts and turns of the loop


async def consumer(client: Client, name: str, **more: Any) -> t.RegisterResponseM2C:
    fields: dict[str, Any] = {"group_name": name, "topic_list": ["demo"], **more}
    return await client.ask(CONSUMER_REGISTER, t.RegisterRequestC2M(client_id=name, host_name="h", **fields))


async def producer(client: Client, name: str, topics: list[str]) -> t.RegisterResponseM2P:
    request = t.RegisterRequestP2M(client_id=name, host_name="h", topic_list=topics, broker_check_sum=-1)
    return await client.ask(PRODUCER_REGISTER, request)


def test_no_connection_registers_all_clients_that_a_master_takes() -> None:
    async def check(kit: Kit) -> None:
        for number in range(500):
            assert (await consumer(kit, f"c{number}")).err_code == 200
            assert (await producer(kit, f"p{number}", ["demo"])).err_code == 200
        refused = await consumer(kit, "one more")
        assert refused.err_code == 503
        told = "500 consumers registered over this connection, its share of 10000 (tubemq_max_clients)"
        assert told in refused.err_msg
        refused_producer = await producer(kit, "one more", ["demo"])
        assert refused_producer.err_code == 503
        assert "500 producers registered over this connection" in refused_producer.err_msg
        assert (await consumer(kit, "c7")).err_code == 200  # again
        other = kit.client()
        assert (await consumer(other, "another")).err_code == 200
        assert (await producer(other, "another", [])).err_code == 200
        kit.front.shared.groups.expire(kit.runtime.monotonic() + 31)
        assert len(kit.front.shared.groups._shares) == 0

    run(check)


def test_what_clients_register_is_counted_in_bytes_and_given_back() -> None:
    async def check(kit: Kit) -> None:
        shares = kit.front.shared.groups._shares
        await consumer(kit, "c")
        small = shares.size
        conditions = ["demo#" + ",".join(f"item{number}" for number in range(400))]
        await consumer(kit, "d", topic_condition=conditions)
        assert shares.size - small > 400 * 60
        await kit.ask(
            CONSUMER_REGISTER,
            t.RegisterRequestC2M(
                client_id="c",
                host_name="h",
                group_name="c",
                topic_list=["demo"],
                subscribe_info=[f"c@c#1:127.0.0.1:1#demo:{number}" for number in range(1_000)],
            ),
        )
        assert shares.size > 200_000
        shared = kit.front.shared
        for name in "cd":
            assert shared.groups.close(name, name)
        assert shares.size == 0
        await producer(kit, "p", [f"topic{number}" for number in range(1_000)])
        assert shared.producers._shares.size > 60_000
        shared.producers.close("p")
        assert shared.producers._shares.size == 0
        await kit.book(filter_cond_str=["a", "b"])
        assert 1_000 < shared.bookings._shares.size < 2_000
        shared.bookings.expire(kit.runtime.monotonic() + 31)
        assert shared.bookings._shares.size == 0

    run(check)


def test_a_refused_member_takes_nothing() -> None:
    async def check(kit: Kit) -> None:
        await consumer(kit, "c", group_name="g")
        before = kit.front.shared.groups._shares.size
        kit.store.create_topic("other", 1)
        assert (await consumer(kit, "d", group_name="g", topic_list=["other"])).err_code != 200
        assert kit.front.shared.groups._shares.size == before

    run(check)


@pytest.mark.parametrize("count", [50_001, 100_000])
def test_lists_that_are_longer_than_they_can_be_are_refused_at_once(count: int) -> None:
    async def check(kit: Kit) -> None:
        held = [f"c@g#1:127.0.0.1:1#demo:{number}" for number in range(count)]
        refused = await consumer(kit, "c", subscribe_info=held)
        assert (refused.err_code, refused.err_msg.split(";")[0]) == (400, f"{count} partitions in subscribeInfo")
        other = await producer(kit, "p", [f"t{number}" for number in range(count)])
        assert (other.err_code, other.err_msg) == (400, f"a list of {count} topics; a client may have 1024")

    run(check)


def test_a_heartbeat_of_many_partitions_leaves_turns_to_others() -> None:
    async def check(kit: Kit) -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        await kit.book("c", "g")
        beside = asyncio.ensure_future(others())
        await asyncio.sleep(0)
        listed = [f"1:127.0.0.1:1#demo:{number % 2 * 10_000}" for number in range(10_000)]
        answer = await kit.ask(
            PARTITION_HEARTBEAT,
            t.HeartBeatRequestC2B(client_id="c", group_name="g", read_status=0, partition_info=listed),
        )
        beside.cancel()
        assert len(answer.failure_info) == 5_000
        assert turns >= 10_000 * 2 // 1_000

    run(check)
