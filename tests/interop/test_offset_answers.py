"""Logs of every kind, asked for offsets by name, by time and by epoch: our node answers as a real broker does."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from penstock.client import Admin
from penstock.interfaces import NewTopic
from penstock.protocols.kafka.wire.fetch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from penstock.protocols.kafka.wire.offsets import FindCoordinatorRequest
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from penstock.protocols.kafka.wire.topics import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from penstock.records.batch import batches
from penstock.testing import Broker
from tests.interop.peers.fixtures import KafkaBroker
from tests.interop.wire import Wire, told, wired
from tests.unit.kafka_front.kit import batch
from tests.unit.kafka_front.transaction_kit import FIRST, Writer, fetch

pytestmark = pytest.mark.interop

Told = dict[str, object]
_NAMES = (-1, -2, -3, -4, -5, -6, -100)
_HALF_AN_HOUR = 1_800_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Log:
    """One partition, written batch by batch, then asked. ``found`` has each answer by its name."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire, self.topic = wire, topic
        self.writer = Writer(wire, f"tx-{topic}", FIRST)
        self.found: Told = {}

    async def put(self, *times_ms: int) -> None:
        """A batch of one record for each time."""
        for time_ms in times_ms:
            part = ProduceRequestPartition(index=0, records=batch(time_ms=time_ms))
            topic = ProduceRequestTopic(name=self.topic, partition_data=[part])
            message = ProduceRequest(acks=-1, timeout_ms=9_000, topic_data=[topic])
            assert await told(lambda message=message: self._put(message)) == 0  # type: ignore[misc]

    async def _put(self, message: ProduceRequest) -> int:
        answer = await self.wire.ask(message, 9)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def transaction(self, *, commit: bool) -> None:
        if self.writer.producer_id < 0:
            await told(self._coordinator)
            assert await told(self.writer.init) == 0
        await self.begin()
        assert await told(lambda: self.writer.end(commit=commit)) == 0
        while await self._end(committed=True) < await self._end(committed=False):
            pass  # a real broker writes the marker after its answer
        ended_ms = now_ms()
        while now_ms() == ended_ms:
            pass  # no two markers of one time

    async def begin(self) -> None:
        """Write a record in a transaction, and leave it open."""
        assert await told(lambda: self.writer.add((self.topic, 0))) == [0]
        assert await told(lambda: self.writer.produce(self.topic, b"v")) == 0

    async def _coordinator(self) -> int:
        answer = await self.wire.ask(FindCoordinatorRequest(coordinator_keys=[self.writer.name], key_type=1), 4)
        return int(answer.coordinators[0].error_code)

    async def delete_before(self, offset: int) -> tuple[int, int]:
        part = DeleteRecordsRequestPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequestTopic(name=self.topic, partitions=[part])
        answer = await self.wire.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=9_000), 2)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.low_watermark

    async def marker_times(self) -> dict[int, int]:
        """Fetch by fetch: a real broker rolls its segment where times lie far apart, and answers one of them."""
        times = {}
        at = (await self.offset(-2, committed=False)).offset
        while (part := await fetch(self.wire, self.topic, offset=at)).high_watermark > at:
            for one in batches(bytes(part.records)):
                at = one.next_offset
                if one.control:
                    times[one.base_offset] = one.max_timestamp
            if at >= part.last_stable_offset:
                break
        return times

    async def ask(self, state: str) -> None:
        markers = await self.marker_times()
        times = {time_ms: f"marker at {offset}" for offset, time_ms in sorted(markers.items(), reverse=True)}
        asked = {**{str(name): name for name in _NAMES}, "time 0": 0, "time 1000": 1_000, "time 2001": 2_001}
        asked |= {f"time of {name}": time_ms for time_ms, name in times.items()}
        asked |= {f"after {name}": time_ms + 1 for time_ms, name in times.items()}
        for committed in (False, True):
            for name, timestamp in asked.items():
                found = await self.offset(timestamp, committed=committed)
                said = times.get(found.timestamp, found.timestamp)
                self.found[f"{state}, {name}, committed={committed}"] = (found.error_code, found.offset, said)
        epoch = (await self.offset(-1, committed=False)).leader_epoch
        for name, number in (("none", -1), ("the present", epoch), ("a future", epoch + 1)):
            self.found[f"{state}, {name} epoch"] = await self._epoch(number)

    async def _end(self, *, committed: bool) -> int:
        return int((await self.offset(-1, committed=committed)).offset)

    async def offset(self, timestamp: int, *, committed: bool) -> Any:
        part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsRequestTopic(name=self.topic, partitions=[part])
        message = ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=[topic])
        return (await self.wire.ask(message, 9)).topics[0].partitions[0]

    async def _epoch(self, epoch: int) -> object:
        part = OffsetForLeaderEpochRequestPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        topic = OffsetForLeaderEpochRequestTopic(topic=self.topic, partitions=[part])
        answer = await self.wire.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), 4)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.end_offset


async def _mixed(log: Log) -> None:
    await log.ask("empty")
    await log.put(1_000, 3_000, 2_000)
    await log.ask("plain")
    await log.transaction(commit=True)
    await log.ask("a marker newest")
    (marked,) = (await log.marker_times()).values()
    await log.put(marked)
    await log.ask("a record of the marker's time")
    await log.transaction(commit=False)
    await log.ask("aborted")
    await log.begin()
    await log.put(4_000)
    await log.ask("open")
    await log.put(now_ms() + _HALF_AN_HOUR)
    for committed in (False, True):
        last = await log.offset(-3, committed=committed)
        log.found[f"a record of the future, committed={committed}"] = (last.error_code, last.offset)


async def _deleted(log: Log) -> None:
    await log.transaction(commit=True)
    await log.transaction(commit=False)
    await log.put(1_000)
    for offset in (1, 0, 3, 2, -2, 99):
        log.found[f"delete before {offset}"] = await log.delete_before(offset)
        await log.ask(f"deleted before {offset}")
    for offset in (4, -1):
        log.found[f"delete before {offset}"] = await log.delete_before(offset)
        await log.ask(f"deleted before {offset}")


async def _markers_only(log: Log) -> None:
    await log.transaction(commit=True)
    assert await log.delete_before(1) == (0, 1)
    await log.ask("one marker")
    await log.transaction(commit=False)
    await log.ask("a record between markers")


async def _timeless(log: Log) -> None:
    await log.put(-1, -1)
    await log.ask("no times")
    await log.put(0, 0)
    await log.ask("the first of times")


STATES = {
    "timeless": _timeless,
    "mixed": _mixed,
    "deleted": _deleted,
    "markers": _markers_only,
}

KNOWN = {
    # A real broker looks at whole batches and forgets that the log begins behind the newest one.
    f"deleted before {offset}, -3, committed={committed}"
    for offset in (4, -1)
    for committed in (False, True)
}
"""Where ours differs: what was deleted is no answer."""


def answers(bootstrap: str, state: str) -> Told:
    options = {"segment.ms": str(20 * 365 * 86_400_000)}  # one segment, although markers are written now
    topic = f"{state}-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([NewTopic(topic, 1, 1, options)])

    async def main() -> Told:
        async with wired(bootstrap) as wire:
            log = Log(wire, topic)
            await STATES[state](log)
            return log.found

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("state", STATES)
def test_our_node_answers_as_a_real_broker(kafka_broker: KafkaBroker, broker: Broker, state: str) -> None:
    theirs, ours = answers(kafka_broker().bootstrap, state), answers(broker.bootstrap, state)
    differing = {what: (their, ours.get(what)) for what, their in theirs.items() if their != ours.get(what)}
    assert {what: answers for what, answers in differing.items() if what not in KNOWN} == {}
