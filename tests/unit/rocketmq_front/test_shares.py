"""What one client may have of what all share, and that its large requests leave turns to others."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.errors import ServerError
from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.message_format import Inner, write_batch
from penstock.protocols.rocketmq.wire.rpc import HEART_BEAT, LOCK_BATCH_MQ, SEND_BATCH_MESSAGE
from tests.unit.rocketmq_front.kit import BROKER, Kit, run

pytestmark = pytest.mark.near  # about counts and turns of the loop
NO = m.NoFields()


def producers(count: int) -> m.HeartbeatData:
    groups = tuple(m.ProducerData(group_name=f"p{number}") for number in range(count))
    return m.HeartbeatData(client_id="greedy", producer_data_set=groups)


def locks(count: int) -> m.LockQueues:
    queues = tuple(m.MessageQueue(topic="demo", broker_name=BROKER, queue_id=number) for number in range(count))
    return m.LockQueues(consumer_group="g", client_id="greedy", mq_set=queues)


def test_a_client_with_ten_thousand_producer_groups_shuts_nobody_out() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError) as refused:
            await kit.ask(HEART_BEAT, NO, producers(10_000))
        assert refused.value.code == Code.SYSTEM_BUSY
        told = "1000 places in groups over this connection, its share of 20000 (rocketmq_max_clients)"
        assert told in str(refused.value)
        clients = kit.front.shared.clients
        assert len(clients.producers) == 1_000
        for number in range(20):
            await kit.client(f"other {number}").beat("demo", producer="mine")
        kit.session.lost()
        assert list(clients.producers) == ["mine"]
        assert len(clients._places) == 40

    run(check, RocketFrontOptions(housekeeping_ms=3_600_000))


def test_subscriptions_are_counted_in_bytes_and_given_back() -> None:
    async def check(kit: Kit) -> None:
        places = kit.front.shared.clients._places
        await kit.beat("demo")
        small = places.size
        wanted = tuple(m.SubscriptionData(topic=f"t{n}", sub_string="a" * 600) for n in range(100))
        body = m.HeartbeatData(
            client_id="first", consumer_data_set=(m.ConsumerData(group_name="g", subscription_data_set=wanted),)
        )
        await kit.ask(HEART_BEAT, NO, body)
        assert 99_000 < places.size - small < 120_000
        await kit.beat("demo", version=2)
        assert places.size == small
        kit.session.lost()
        assert places.size == 0

    run(check)


def test_one_connection_cannot_lock_all_that_may_be_locked() -> None:
    async def check(kit: Kit) -> None:
        await kit.ask(LOCK_BATCH_MQ, m.Routed(), locks(100))
        with pytest.raises(ServerError, match="100 locks of queues over this connection, its share of 1000"):
            await kit.ask(LOCK_BATCH_MQ, m.Routed(), locks(101))
        await kit.ask(LOCK_BATCH_MQ, m.Routed(), locks(100))  # renewed
        other = m.LockQueues(
            consumer_group="h",
            client_id="other",
            mq_set=(m.MessageQueue(topic="demo", broker_name=BROKER, queue_id=0),),
        )
        await kit.client().ask(LOCK_BATCH_MQ, m.Routed(), other)
        kept = kit.front.shared.queue_locks
        assert len(kept._shares) == 101
        kept.expire(kit.runtime.monotonic() + 61)
        assert len(kept._shares) == 0

    run(check, RocketFrontOptions(max_locks=1_000))


def test_a_pull_above_the_held_ones_is_refused_and_the_others_wait_on() -> None:
    async def check(kit: Kit) -> None:
        waiting = asyncio.ensure_future(kit.pull(hold_ms=60_000))
        for _ in range(20):
            await asyncio.sleep(0)
        assert kit.session.line.held == 1
        with pytest.raises(ServerError, match=r"1 held pulls, more are not taken \(rocketmq_max_held\)"):
            await kit.client().pull(hold_ms=60_000, queue=1)
        await kit.client().pull(queue=1)  # who does not wait is served
        await kit.client().put(b"it comes")
        assert (await waiting).code == 0
        assert len(kit.front.shared.held) == 0

    run(check, RocketFrontOptions(max_held=1))


@pytest.mark.parametrize(
    "body",
    [
        {"clientID": "c", "producerDataSet": [{"groupName": f"p{n}"} for n in range(50_000)]},
        {
            "clientID": "c",
            "consumerDataSet": [
                {"groupName": "g", "subscriptionDataSet": [{"topic": f"t{n}", "subString": "*"} for n in range(20_000)]}
            ],
        },
    ],
    ids=["groups", "subscriptions"],
)
def test_a_large_heartbeat_leaves_turns_to_others(body: dict[str, object]) -> None:
    async def check(kit: Kit) -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.ensure_future(others())
        await asyncio.sleep(0)
        await kit.ask(HEART_BEAT, NO, json.dumps(body).encode(), accept=range(100))
        beside.cancel()
        assert turns > 10

    run(check)


def test_a_batch_of_too_many_messages_is_refused_before_it_is_stored() -> None:
    async def check(kit: Kit) -> None:
        header = m.SendMessage(producer_group="p", topic="demo", queue_id=0, sys_flag=0, born_timestamp=1, batch=True)
        with pytest.raises(ServerError, match="a batch of 50001 messages; 50000 are allowed"):
            await kit.ask(SEND_BATCH_MESSAGE, header, write_batch([Inner(0, b"x", b"")] * 50_001))
        assert (await extent(kit.enode, Partition("demo", 0))).end == 0
        sent = await kit.ask(SEND_BATCH_MESSAGE, header, write_batch([Inner(0, b"x", b"")] * 5_000))
        assert sent.header.queue_offset == 0
        assert len(sent.header.msg_id.split(",")) == 5_000
        assert (await extent(kit.enode, Partition("demo", 0))).end == 5_000

    run(check)


def test_an_expression_that_is_too_long_is_refused() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError, match="an expression of 70000 letters, most are 65536"):
            await kit.pull(tags="a" * 70_000)
        assert (await kit.pull(tags="||".join(f"tag{n}" for n in range(5_000)))).code != 0

    run(check)
