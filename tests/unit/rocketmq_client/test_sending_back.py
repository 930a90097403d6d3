"""What a group could not consume: given back to its broker, and read again from the retry topic, whole."""

from __future__ import annotations

import pytest

from penstock.errors import OffsetOutOfRange, UsageError
from penstock.interfaces import ReadFrom, ReadLimits
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq.wire import rpc
from tests.unit.rocketmq_client.cluster import go, stage

PLACE, RETRY = Partition("demo", 1, "broker-b"), Partition("%RETRY%g", 0, "broker-b")
LIMITS = ReadLimits(0, 1, 1 << 20)


def test_a_record_comes_back_with_what_it_was_and_its_attempts() -> None:
    async def work() -> None:
        async with stage() as s:
            client = s.client(group="g", tags="A")
            for number in range(3):
                s.cluster.put(("demo", "broker-b", 1), b"%d" % number, b"TAGS\x01A\x02UNIQ_KEY\x01id%d" % number)
            await client.send_back("g", {PLACE: [1, 2]}, delay=0)
            asked = s.cluster.asked(rpc.CONSUMER_SEND_MSG_BACK)
            assert [(each.group, each.origin_msg_id, each.origin_topic, each.delay_level) for each in asked] == [
                ("g", "id1", "demo", 0), ("g", "id2", "demo", 0),
            ]  # fmt: skip
            assert [each.max_reconsume_times for each in asked] == [None, None]
            await client.topics([RETRY.topic], fresh=True)
            assert await client.committed("g", [RETRY]) == {RETRY: Committed(0)}
            node = client.leader(RETRY)
            assert node is not None
            await client.read(node, [ReadFrom(RETRY, 0, 1 << 20)], LIMITS)
            (fetched,) = await client.read(node, [ReadFrom(RETRY, 0, 1 << 20)], ReadLimits(1_000, 1, 1 << 20))
            pull = s.cluster.asked(rpc.PULL_MESSAGE)[-1]
            assert pull.subscription == "*"
            messages, following = fetched.decode()
            assert following == 2
            assert [record.value for record in messages] == [b"1", b"2"]
            headers = dict(messages[0].headers)
            assert (headers["RETRY_TOPIC"], headers["rocketmq.reconsume_times"]) == (b"demo", b"1")

    go(work())


def test_what_cannot_be_given_back_is_refused() -> None:
    async def work() -> None:
        async with stage() as s:
            client = s.client(group="g", max_reconsume_times=3)
            s.cluster.put(("demo", "broker-b", 1), b"0")
            with pytest.raises(UsageError, match="levels 1 to 18"):
                await client.send_back("g", {PLACE: [0]}, delay=19)
            with pytest.raises(OffsetOutOfRange):
                await client.send_back("g", {PLACE: [7]}, delay=1)
            await client.send_back("g", {PLACE: [0]}, delay=-1)
            (asked,) = s.cluster.asked(rpc.CONSUMER_SEND_MSG_BACK)
            assert (asked.delay_level, asked.max_reconsume_times) == (-1, 3)

    go(work())
