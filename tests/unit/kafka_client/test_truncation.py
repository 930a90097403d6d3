"""A log that was cut off and written anew behind a reader's back (KIP-320): noticed, told, never skipped or doubled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.ranges.range_reader import RangeRead
from penstock.config import ConsumerConfig, OffsetReset
from penstock.errors import LogTruncated
from penstock.interfaces import ReadFrom, ReadLimits
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.protocols.kafka.wire.fetch import (
    FetchResponse,
    FetchResponseDivergingEpoch,
    FetchResponsePartition,
    FetchResponseTopic,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from penstock.protocols.kafka.wire.records import encode
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage

FIRST = Partition("events", 0)
FETCH = 1
OUT_OF_RANGE, FENCED_LEADER_EPOCH = 1, 74
LAST_THAT_DOES_NOT_ASK = 11  # Fetch with lastFetchedEpoch begins with the next version
LIMITS = ReadLimits(0, 1, 1 << 20)
BOTH_WAYS = pytest.mark.parametrize("fetch", [18, LAST_THAT_DOES_NOT_ASK], ids=["Fetch tells", "asked before"])


@dataclass
class Log:
    """A partition as its leader has it: batches of (leader epoch, first offset, end); answers as Kafka 4.3 does."""

    batches: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1][2]

    def epoch_end(self, asked: int) -> tuple[int, int]:
        """The largest epoch up to ``asked`` that is here, and where the next one begins."""
        known = max((epoch for epoch, _, _ in self.batches if epoch <= asked), default=-1)
        return known, min((first for epoch, first, _ in self.batches if epoch > asked), default=self.end)

    def on(self, on: Stage, *, fetch: int = 18) -> None:
        """Let the stage's broker lead it, in the epoch of its last batch."""
        on.broker.highest = {FETCH: fetch}
        leaders = {FIRST.topic: {FIRST.id: (1, self.batches[-1][0])}}
        on.broker.answers = {
            "Metadata": metadata({1: on.endpoint}, leaders),
            "Fetch": self._fetch,
            "OffsetForLeaderEpoch": self._reach,
            "ListOffsets": self._list,
        }

    def _fetch(self, request: Any, version: int) -> FetchResponse:
        asked = request.topics[0].partitions[0]
        known, end = self.epoch_end(asked.last_fetched_epoch)
        diverging, records = FetchResponseDivergingEpoch(), b""
        parted = known < asked.last_fetched_epoch or end < asked.fetch_offset
        if parted and version > LAST_THAT_DOES_NOT_ASK and asked.last_fetched_epoch >= 0:
            diverging = FetchResponseDivergingEpoch(epoch=known, end_offset=end)
        code = 0 if asked.fetch_offset <= self.end or diverging.end_offset >= 0 else OUT_OF_RANGE
        if asked.current_leader_epoch != self.batches[-1][0]:
            code, diverging = FENCED_LEADER_EPOCH, FetchResponseDivergingEpoch()
        if code == 0 and diverging.end_offset < 0:
            records = b"".join(batch(*each) for each in self.batches if each[2] > asked.fetch_offset)
        told = FetchResponsePartition(
            partition_index=0, error_code=code, high_watermark=self.end, diverging_epoch=diverging, records=records
        )
        return FetchResponse(responses=[FetchResponseTopic(topic=FIRST.topic, partitions=[told])])

    def _reach(self, request: Any, _: int) -> OffsetForLeaderEpochResponse:
        known, end = self.epoch_end(request.topics[0].partitions[0].leader_epoch)
        told = OffsetForLeaderEpochResponsePartition(partition=0, leader_epoch=known, end_offset=end)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderEpochResponseTopic(topic=FIRST.topic, partitions=[told])]
        )

    def _list(self, request: Any, _: int) -> ListOffsetsResponse:
        latest = request.topics[0].partitions[0].timestamp == -1
        told = ListOffsetsResponsePartition(
            partition_index=0, offset=self.end if latest else 0, leader_epoch=self.batches[-1][0] if latest else -1
        )
        return ListOffsetsResponse(topics=[ListOffsetsResponseTopic(name=FIRST.topic, partitions=[told])])


def batch(epoch: int, first: int, end: int) -> bytes:
    values = [b"%d.%d" % (epoch, offset) for offset in range(first, end)]
    written = bytearray(encode(pa.record_batch({"value": values}), base_offset=first, timestamp_ms=1))
    written[12:16] = epoch.to_bytes(4, "big")  # as its leader does, outside the checksum
    return bytes(written)


def values(log: Log, start: int, end: int) -> list[bytes]:
    every = [
        (offset, b"%d.%d" % (epoch, offset)) for epoch, first, last in log.batches for offset in range(first, last)
    ]
    return [value for offset, value in every if start <= offset < end]


BEFORE = Log([(1, 0, 100), (3, 100, 600)])
SHORTER = Log([(1, 0, 100), (4, 100, 300)])
LONGER = Log([(1, 0, 100), (4, 100, 900)])
PAST_IN_ANOTHER_EPOCH = Log([(1, 0, 80), (2, 80, 150), (4, 150, 900)])
AFTERWARDS = pytest.mark.parametrize(
    ("after", "parted_at"),
    [(SHORTER, 100), (LONGER, 100), (PAST_IN_ANOTHER_EPOCH, 80)],
    ids=["shorter", "longer", "another past"],
)


async def consumed(engine: ConsumerEngine, until: Callable[[list[bytes]], bool]) -> list[bytes]:
    found: list[bytes] = []
    while not until(found):
        await engine.ready(asyncio.get_running_loop().time() + 10)
        found += [each.value or b"" for each in engine.take(10_000)]
    return found


def engine(on: Stage, policy: OffsetReset) -> ConsumerEngine:
    async def call(*_: object) -> None: ...

    config = ConsumerConfig(auto_offset_reset=policy, fetch_max_wait_ms=0, retry_backoff_ms=1, retry_backoff_max_ms=2)
    return ConsumerEngine(on.client, config, call)


async def elected(on: Stage, after: Log, fetch: int) -> None:
    after.on(on, fetch=fetch)
    await on.client.topics([FIRST.topic], fresh=True)


@BOTH_WAYS
@AFTERWARDS
@pytest.mark.parametrize("policy", [OffsetReset.EARLIEST, OffsetReset.LATEST])
def test_a_consumer_goes_back_to_where_the_logs_part_and_says_so(
    caplog: pytest.LogCaptureFixture, policy: OffsetReset, after: Log, parted_at: int, fetch: int
) -> None:
    async def run() -> None:
        async with stage() as on:
            BEFORE.on(on, fetch=fetch)
            reading = engine(on, policy)
            await reading.assign({FIRST: 0})
            assert await consumed(reading, lambda found: len(found) >= 600) == values(BEFORE, 0, 600)
            await elected(on, after, fetch)
            new = await consumed(reading, lambda found: found[-1:] == values(after, after.end - 1, after.end))
            assert new[-(after.end - parted_at) :] == values(after, parted_at, after.end)
            assert reading.partitions.positions() == {FIRST: after.end}
            await reading.close(1.0)

    with caplog.at_level(logging.WARNING, "penstock"):
        go(run())
    assert f"resetting to offset {parted_at}" in caplog.text
    assert "up to 600 in leader epoch 3" in caplog.text


@BOTH_WAYS
@AFTERWARDS
def test_without_a_policy_the_next_poll_says_what_is_lost(after: Log, parted_at: int, fetch: int) -> None:
    async def run() -> None:
        async with stage() as on:
            BEFORE.on(on, fetch=fetch)
            reading = engine(on, OffsetReset.NONE)
            await reading.assign({FIRST: 0})
            await consumed(reading, lambda found: len(found) >= 600)
            await elected(on, after, fetch)
            at = 600
            while at > parted_at:  # a past of several epochs is followed back step by step
                with pytest.raises(LogTruncated) as told:
                    await consumed(reading, bool)
                assert (told.value.topic, told.value.partition, told.value.offset) == ("events", 0, at)
                assert told.value.parted_at < at
                at = told.value.parted_at
                reading.state_of(FIRST).jump(at)
            assert at == parted_at
            new = await consumed(reading, lambda found: found[-1:] == values(after, after.end - 1, after.end))
            assert new == values(after, parted_at, after.end)
            await reading.close(1.0)

    go(run())


async def read_all(read: RangeRead) -> list[bytes]:
    found: list[bytes] = []
    while (messages := await read.next()) is not None:
        found += [each.value or b"" for each in messages]
    return found


@BOTH_WAYS
def test_ranges_end_in_the_same_error_however_often_they_are_read(fetch: int) -> None:
    async def run() -> None:
        async with stage() as on:
            BEFORE.on(on, fetch=fetch)
            assert await read_all(RangeRead(on.client, LogRange("events", 0, 0, 600))) == values(BEFORE, 0, 600)
            await elected(on, LONGER, fetch)
            for _ in range(2):
                with pytest.raises(LogTruncated, match="500 offsets that were read, up to 600 in leader epoch 3"):
                    await read_all(RangeRead(on.client, LogRange("events", 0, 600, 900)))
            assert await read_all(RangeRead(on.client, LogRange("events", 0, 100, 900))) == values(LONGER, 100, 900)

    go(run())


@BOTH_WAYS
def test_an_end_that_was_asked_for_counts_as_read(fetch: int) -> None:
    async def run() -> None:
        async with stage() as on:
            BEFORE.on(on, fetch=fetch)
            found = await on.client.offsets({FIRST: OffsetSpec(name=Offset.LATEST)})
            assert found[FIRST].offset == 600
            await elected(on, LONGER, fetch)
            with pytest.raises(LogTruncated):
                await read_all(RangeRead(on.client, LogRange("events", 0, 600, 900)))

    go(run())


def test_an_epoch_that_ended_without_a_record_is_no_truncation() -> None:
    async def run() -> None:
        async with stage() as on:
            BEFORE.on(on)
            on.client._cluster.lineage(FIRST).heard(4, 600)  # a leader of epoch 4 told its end, and wrote nothing
            after = Log([*BEFORE.batches, (5, 600, 700)])
            after.on(on)
            assert await read_all(RangeRead(on.client, LogRange("events", 0, 600, 700))) == values(after, 600, 700)

    go(run())


def test_a_leader_is_asked_once_and_only_where_epochs_are_known() -> None:
    async def run() -> None:
        async with stage() as on:
            BEFORE.on(on, fetch=LAST_THAT_DOES_NOT_ASK)
            node = (await on.client.topics([FIRST.topic]))[FIRST.topic].partitions[0].leader
            assert node is not None
            await on.client.read(node, [ReadFrom(FIRST, 50, 1 << 20)], LIMITS)
            assert not on.broker.asked("OffsetForLeaderEpoch")
            grown = Log([*BEFORE.batches, (5, 600, 700)])
            await elected(on, grown, LAST_THAT_DOES_NOT_ASK)
            for _ in range(3):
                (found,) = await on.client.read(node, [ReadFrom(FIRST, 600, 1 << 20)], LIMITS)
                assert (found.error, found.next_offset) == (None, 700)
            (asked,) = on.broker.asked("OffsetForLeaderEpoch")
            partition = asked.topics[0].partitions[0]
            assert (partition.current_leader_epoch, partition.leader_epoch) == (5, 3)

    go(run())
