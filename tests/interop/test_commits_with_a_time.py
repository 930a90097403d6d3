"""Commits that say how long they are to be kept (OffsetCommit v2-v4): our node keeps and writes them as a real broker.

The same steps at both; what stands in ``__consumer_offsets`` is compared byte for byte, but for what the time was.
"""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

import penstock
from penstock.protocols.kafka.wire.consumer_protocol import Subscription, write_subscription
from penstock.protocols.kafka.wire.groups import JoinGroupRequestProtocol
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocols.kafka.wire.stored_records import OffsetKey, read_key, write_offset_key
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.wire import Wire, told, wired
from tests.unit.kafka_front.group_kit import member
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

CHECK_MS: Final = 200
SOON_MS: Final = 700
THEIRS: Final = {
    "offsets.retention.check.interval.ms": f"{CHECK_MS}",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
GONE: Final = -1


@pytest.fixture(scope="module", params=["real", "node"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real broker, and a node of ours, that look for old offsets often."""
    if request.param == "node":
        with Broker(offsets_check_ms=CHECK_MS) as node:
            yield node.bootstrap
        return
    try:
        with kafka.broker(tmp_path_factory.mktemp("retention"), settings=THEIRS) as started:
            yield started.bootstrap
    except Unavailable as reason:
        pytest.skip(f"no Kafka {kafka.NEWEST} to test with: {reason}")


@pytest.fixture
def topics(bootstrap: str) -> tuple[str, str]:
    """One that a group's member reads, and one that it does not."""
    prefix = uuid.uuid4().hex[:8]
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(f"{prefix}-{n}", 1) for n in range(2)])
    return f"{prefix}-0", f"{prefix}-1"


async def commit(wire: Wire, group: str, topic: str, version: int, retention_ms: int, **given: Any) -> None:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="m")
    asked = OffsetCommitRequest(
        group_id=group,
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
        **given,
    )

    async def once() -> int:
        await wire.ask(FindCoordinatorRequest(key=group), 0)
        answer = await wire.ask(asked, version)
        return int(answer.topics[0].partitions[0].error_code)

    assert await told(once) == 0


def offsets(bootstrap: str, *places: tuple[str, str]) -> list[int]:
    """What groups have committed of topics, -1 where nothing."""
    found = []
    for group, topic in places:
        with penstock.Consumer(f"kafka://{bootstrap}", group=group) as consumer:
            place = penstock.Partition(topic, 0)
            known = consumer.committed([place])[place]
            found.append(GONE if known is None else known.offset)
    return found


def written(bootstrap: str, group: str, topic: str) -> list[bytes | None]:
    """The values that stand in the log for this offset."""
    key = write_offset_key(OffsetKey(group=group, topic=topic, partition=0))
    found: list[bytes | None] = []
    with penstock.Consumer(f"kafka://{bootstrap}", enable_auto_commit=False) as consumer:
        partitions = consumer.partitions_for("__consumer_offsets")
        ends = consumer.end_offsets(partitions)
        consumer.assign({each: 0 for each in partitions if ends[each]})
        while any(consumer.position(each) < ends[each] for each in consumer.assignment()):
            for message in consumer.poll(0.2):
                assert message.key is not None
                read_key(message.key)
                if message.key == key:
                    found.append(message.value)
    return found


def test_it_goes_when_its_commit_said_and_stands_in_the_log_with_the_time(
    bootstrap: str, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    said = {"v2": (2, SOON_MS), "v3": (3, SOON_MS), "v4": (4, 3_600_000), "v5": (5, SOON_MS), "plain": (2, -1)}
    places = [(f"{topic}-{name}", topic) for name in said]

    async def main() -> None:
        async with wired(bootstrap) as wire:
            for name, (version, retention_ms) in said.items():
                await commit(wire, f"{topic}-{name}", topic, version, retention_ms)

    asyncio.run(main())
    kept = [5 if name in ("v4", "v5", "plain") else GONE for name in said]
    comes_to(lambda: offsets(bootstrap, *places), kept, within_s=20)
    for name in ("v2", "v4"):
        value, *gone = written(bootstrap, f"{topic}-{name}", topic)
        assert gone == ([None] if name == "v2" else [])
        assert value is not None
        assert value[:-16] == bytes.fromhex("0001 0000000000000005 0001 6d")
        at_ms, until_ms = struct.unpack(">qq", value[-16:])
        assert until_ms - at_ms == said[name][1]
    assert [each and each[:2] for each in written(bootstrap, f"{topic}-plain", topic)] in ([b"\0\3"], [b"\0\4"])


@pytest.mark.parametrize("retention_ms", [0, -2])
def test_what_is_not_to_be_kept_at_all_goes_when_it_is_looked_for(
    bootstrap: str, topics: tuple[str, str], retention_ms: int
) -> None:
    topic, _ = topics

    async def main() -> None:
        async with wired(bootstrap) as wire:
            await commit(wire, topic, topic, 2, retention_ms)

    asyncio.run(main())
    comes_to(lambda: offsets(bootstrap, (topic, topic)), [GONE], within_s=20)


def test_while_a_member_reads_the_topic_nothing_of_it_goes(bootstrap: str, topics: tuple[str, str]) -> None:
    read, unread = topics
    places = ((read, read), (read, unread))

    async def main() -> None:
        async with wired(bootstrap) as wire:
            await commit(wire, f"{read}-first", read, 2, -1)  # waits until a real broker's coordinator is there
            me = await group_of_one(wire, read)
            for topic in topics:
                await commit(wire, read, topic, 3, SOON_MS, **me)

    asyncio.run(main())
    comes_to(lambda: offsets(bootstrap, *places), [5, GONE], within_s=20)
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.remove_members(read)
    comes_to(lambda: offsets(bootstrap, *places), [GONE, GONE], within_s=20)


async def group_of_one(wire: Wire, topic: str) -> dict[str, Any]:
    """A member at work that reads the topic, in a group of the same name; as whom it commits."""
    metadata = write_subscription(Subscription(topics=(topic,)))
    protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
    joined = await member(wire, group_id=topic, protocols=protocols)  # type: ignore[arg-type]
    return {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
