"""A node that was held, stopped or suspended: its clients lose nothing for that time, whichever protocol they speak."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.protocols.kafka.wire.groups import HeartbeatRequest
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import LOCK_BATCH_MQ
from penstock.protocols.tubemq.wire import messages as t
from penstock.protocols.tubemq.wire.rpc import CONSUMER_HEARTBEAT, CONSUMER_REGISTER, PARTITION_HEARTBEAT
from tests.unit.client.virtual_time import VirtualLoop, passing
from tests.unit.kafka_front import group_kit
from tests.unit.kafka_front import kit as kafka
from tests.unit.kafka_front.transaction_kit import Writer
from tests.unit.rocketmq_front import kit as rocketmq
from tests.unit.tubemq_front import kit as tubemq

AWAY_S = 600.0


def go(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


async def away(seconds: float = AWAY_S) -> None:
    """The whole process does nothing for so long; then the timers that are due are looked at first."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.now += seconds
    await passing(0.001)


@pytest.mark.parametrize("times", [1, 5])
def test_a_kafka_member_and_its_transaction_outlive_a_node_that_was_away(times: int) -> None:
    async def test() -> None:
        async with kafka.serving() as kit:
            joined = await group_kit.member(kit, session_timeout_ms=10_000)
            writer = Writer(kit)
            await kit.enode.create_topic("t", 1, {})
            assert await writer.init(timeout_ms=20_000) == 0
            assert await writer.write("t", b"slow") == 0
            jumped_ms = kit.runtime.now_ms() + 3_600_000
            kit.runtime.now_ms = lambda: jumped_ms  # the machine's clock was set, by an hour
            beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
            for _ in range(times):
                await passing(3)
                await away()
                assert (await kit.ask(beat, 4)).error_code == 0
            assert await writer.end(commit=True) == 0
            await passing(11)
            assert (await kit.ask(beat, 4)).error_code != 0

    go(test())


def test_tubemq_registrations_outlive_a_node_that_was_away() -> None:
    async def test() -> None:
        async with tubemq.serving() as kit:
            register = t.RegisterRequestC2M(client_id="c", host_name="h", group_name="g", topic_list=["demo"])
            assert (await kit.ask(CONSUMER_REGISTER, register)).err_code == 200
            assert (await kit.book()).success
            beat = t.HeartRequestC2M(client_id="c", group_name="g", report_subscribe_info=False)
            kept = t.HeartBeatRequestC2B(
                client_id="c", group_name="g", read_status=0, partition_info=["1:127.0.0.1:1#demo:0"]
            )
            for _ in range(5):
                await passing(13)
                await away()
                assert (await kit.ask(CONSUMER_HEARTBEAT, beat)).err_code == 200
                assert not (await kit.ask(PARTITION_HEARTBEAT, kept)).has_part_failure
            await passing(31)
            assert (await kit.ask(CONSUMER_HEARTBEAT, beat)).err_code == 411
            assert (await kit.ask(PARTITION_HEARTBEAT, kept)).has_part_failure

    go(test())


def test_rocketmq_members_and_locks_outlive_a_node_that_was_away() -> None:
    async def test() -> None:
        queue = m.MessageQueue(topic="demo", broker_name=rocketmq.BROKER, queue_id=0)

        async def locked(client: rocketmq.Client) -> bool:
            said = m.LockQueues(consumer_group="g", client_id=client.name, mq_set=(queue,))
            answer = await client.ask(LOCK_BATCH_MQ, m.Routed(), said)
            return bool(m.read_body(m.LockedQueues, answer.body).lock_ok_mq_set)

        async with rocketmq.serving() as kit:
            other = kit.client()
            await kit.beat("demo", producer="p")
            assert await locked(kit)
            for _ in range(3):
                await passing(15)
                await away()
                assert not await locked(other)
            clients = kit.front.shared.clients
            assert (list(clients.consumers), list(clients.producers)) == (["g"], ["p"])
            await passing(20)
            assert await locked(other)
            await passing(70)
            assert (list(clients.consumers), list(clients.producers)) == ([], [])

    go(test())


def test_a_held_pull_waits_for_as_long_as_its_client_asked_of_a_node_that_serves() -> None:
    async def test() -> None:
        async with rocketmq.serving() as kit:
            waiting = asyncio.ensure_future(kit.pull(hold_ms=20_000))
            await passing(5)
            await away()
            await passing(5)
            assert not waiting.done()
            await kit.client().put(b"it comes")
            assert rocketmq.stored(await waiting)[0].body == b"it comes"

    go(test())
