"""What a member answers an operator whose question its broker hands on."""

from __future__ import annotations

from penstock.model import Committed
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import read_body
from tests.unit.rocketmq_client.cluster import go, stage
from tests.unit.rocketmq_client.test_membership import GROUP, QUEUES, queues


def asked(code: int, **fields: str) -> RemotingCommand:
    return RemotingCommand(code, 7, 0, fields)


def test_a_member_says_what_it_reads_and_where_it_is() -> None:
    async def work() -> None:
        async with stage() as s:
            client = s.client(group="g", instance_name="1", tags="TagA")
            one = client.membership(GROUP)
            telling = client.shared.heard.telling
            before = telling.answer(asked(307, consumerGroup="g", clientId=one.member_id))
            assert before is not None
            assert before.code == 1
            assert "not exist in this consumer" in str(before.remark)
            await one.join(["demo"], (), "")
            await one.commit({QUEUES[1]: Committed(5)})
            answer = telling.answer(asked(307, consumerGroup="g", clientId=one.member_id, jstackEnable="false"))
            assert answer is not None
            assert answer.code == 0
            said = read_body(m.ConsumerRunningInfo, answer.body)
            assert {each.topic: each.sub_string for each in said.subscription_set} == {"demo": "TagA", "%RETRY%g": "*"}
            places = {(queue.broker_name, queue.queue_id): info.commit_offset for queue, info in said.mq_table.items()}
            assert places == {("broker-a", 0): -1, ("broker-a", 1): 5, ("broker-b", 0): -1, ("broker-b", 1): -1}
            assert said.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            status = telling.answer(asked(221, topic="demo", group="g"))
            assert status is not None
            assert sorted(read_body(m.ConsumerStatus, status.body).message_queue_table.values()) == [-1, -1, -1, 5]
            assert len(queues("0123")) == 4
            await one.leave("")
            gone = telling.answer(asked(307, consumerGroup="g", clientId=one.member_id))
            assert gone is not None
            assert gone.code == 1

    go(work())


def test_a_message_that_is_handed_over_directly_is_refused_with_the_reason() -> None:
    async def work() -> None:
        async with stage() as s:
            telling = s.client(group="g").shared.heard.telling
            answer = telling.answer(asked(309, consumerGroup="g", clientId="c"))
            assert answer is not None
            assert answer.code == 1
            assert "polls" in str(answer.remark)
            broken = telling.answer(asked(307))
            assert broken is not None
            assert broken.code == 1
            assert telling.answer(asked(40, consumerGroup="g")) is None

    go(work())
