"""A group that an operator puts elsewhere goes on there, whatever its members commit meanwhile."""

from __future__ import annotations

import pytest

from penstock.interfaces.client import Verdict
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq.client.shared import Resets
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire import rpc
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import write_body
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_client.cluster import go, stage
from tests.unit.rocketmq_client.test_membership import GROUP, QUEUES, member, queues

ZERO, ONE = QUEUES[0], QUEUES[1]


def told(group: str, offsets: dict[Partition, int]) -> RemotingCommand:
    """What a broker says."""
    table = {m.MessageQueue(topic=at.topic, broker_name=at.node, queue_id=at.id): to for at, to in offsets.items()}
    fields = {"topic": "demo", "group": group, "timestamp": "-1", "isForce": "true"}
    code = rpc.RESET_CONSUMER_CLIENT_OFFSET.code
    return RemotingCommand(code, 7, 0, fields, write_body(m.ResetOffset(offset_table=table)))


def test_a_member_commits_the_new_place_and_gets_the_queue_anew() -> None:
    async def work() -> None:
        async with stage() as s:
            client = s.client(group="g", instance_name="1")
            one = client.membership(GROUP)
            await one.join(["demo"], (), "")
            resets = client.shared.heard.resets
            resets.reset(told("g", {ZERO: 5, ONE: 7}))
            resets.reset(told("other", {QUEUES[2]: 9}))
            beat = await one.heartbeat()
            assert (beat.verdict, beat.lost, beat.assigned) == (Verdict.STEADY, queues("01"), frozenset())
            await one.commit({ZERO: Committed(100), QUEUES[2]: Committed(3)})
            beat = await one.heartbeat()
            assert (beat.lost, beat.assigned) == (frozenset(), queues("01"))
            await one.commit({ZERO: Committed(101)})
            found = await client.committed("g", [ZERO, ONE, QUEUES[2]])
            assert {at: each.offset for at, each in found.items()} == {ZERO: 5, ONE: 7, QUEUES[2]: 3}
            await one.commit({ZERO: Committed(6)})
            assert (await client.committed("g", [ZERO]))[ZERO].offset == 6

    go(work())


def test_what_others_read_others_see_to() -> None:
    async def work() -> None:
        async with stage() as s:
            client = s.client(group="g", instance_name="1")
            one, two = client.membership(GROUP), member(s, "2")
            await one.join(["demo"], (), "")
            await two.join(["demo"], (), "")
            await one.heartbeat()
            client.shared.heard.resets.reset(told("g", {QUEUES[3]: 5}))
            await passing(1)
            assert (await one.heartbeat()).lost == frozenset()
            assert not client.shared.heard.resets.due("g", queues("0123"))

    go(work())


def test_a_broker_that_cannot_be_told_is_told_later() -> None:
    async def work() -> None:
        async with stage() as s:
            client = s.client(group="g", instance_name="1")
            one = client.membership(GROUP)
            await one.join(["demo"], (), "")
            client.shared.heard.resets.reset(told("g", {ZERO: 5}))
            s.cluster.refuse[rpc.UPDATE_CONSUMER_OFFSET.code] = lambda _: 2
            with pytest.raises(Exception, match="no"):
                await one.heartbeat()
            s.cluster.refuse.clear()
            assert (await one.heartbeat()).lost == queues("0")

    go(work())


def test_what_is_no_reset_is_let_pass() -> None:
    resets = Resets()
    resets.reset(RemotingCommand(220, 1, 0, {}, b"{"))
    resets.reset(RemotingCommand(220, 1, 0, {"topic": "t", "group": "g", "timestamp": "1", "isForce": "true"}, b"[]"))
    assert resets.due("g", [ZERO]) == {}
