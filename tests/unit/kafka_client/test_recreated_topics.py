"""A topic that was deleted and created anew under its name: positions of the old topic mean nothing in the new one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.consumer.engine import ConsumerEngine
from penstock.client.ranges.range_reader import RangeRead
from penstock.config import ConsumerConfig, OffsetReset
from penstock.errors import TopicRecreated, shown_id
from penstock.model import Committed, LogRange, Partition
from penstock.protocols.kafka.client.fetch import FetchForm
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseGroupTopicPartition,
)
from penstock.protocols.kafka.wire.records import encode
from tests.unit.client.virtual_time import passing, run
from tests.unit.kafka_client.scripted import Stage, metadata, stage
from tests.unit.kafka_client.session_keeper import Keeper

TOPIC = "events"
FIRST, SECOND = Partition(TOPIC, 0), Partition(TOPIC, 1)
BOTH = (FIRST, SECOND)
OLD, NEW = b"o" * 16, b"n" * 16
FETCH, METADATA, COMMIT = 1, 3, 8
UNKNOWN_TOPIC, UNKNOWN_ID = 3, 100
LAST_WITH_NAMES, LAST_COMMIT_BY_NAME = 12, 9


@dataclass
class Broker:
    """The leader and coordinator of the topic of one name: which one that is, and how far its partitions reach."""

    on: Stage
    topic_id: bytes | None = OLD
    end: int = 100
    committed: dict[int, int] = field(default_factory=dict)
    sessions: bool = True
    keeper: Keeper = field(default_factory=Keeper)

    def serve(self) -> None:
        coordinator = FindCoordinatorResponseCoordinator(
            key="g", node_id=1, host=self.on.endpoint.host, port=self.on.endpoint.port
        )
        self.on.broker.answers |= {
            "Metadata": self._metadata,
            "Fetch": self._fetch,
            "ListOffsets": self._list,
            "FindCoordinator": lambda *_: FindCoordinatorResponse(coordinators=[coordinator]),
            "OffsetCommit": self._commit,
            "OffsetFetch": self._fetch_offsets,
        }

    def recreate(self, end: int) -> None:
        self.topic_id, self.end, self.committed = NEW, end, {}

    def _metadata(self, request: Any, version: int) -> object:
        leaders = {} if self.topic_id is None else {TOPIC: {0: (1, 0), 1: (1, 0)}}
        return metadata({1: self.on.endpoint}, leaders, {TOPIC: self.topic_id or b""})(request, version)

    def _fetch(self, request: Any, version: int) -> FetchResponse:
        by_ids = version > LAST_WITH_NAMES
        name = "topic_id" if by_ids else "topic"
        places: Mapping[Any, Any] = {
            (getattr(topic, name), part.partition): part for topic in request.topics for part in topic.partitions
        }
        code, session_id = 0, 0
        if self.sessions:
            forgotten = [
                (getattr(each, name), number) for each in request.forgotten_topics_data for number in each.partitions
            ]
            code, session_id, places = self.keeper.asked(
                request.session_id, request.session_epoch, places, forgotten, by_ids=by_ids
            )
        if code:
            return FetchResponse(error_code=code)
        topics = [
            FetchResponseTopic(
                **{name: key[0]},
                partitions=[self._part(place, 0 if self._is_here(key[0], by_ids=by_ids) else UNKNOWN_ID)],
            )
            for key, place in places.items()
        ]
        return FetchResponse(session_id=session_id, responses=topics)

    def _is_here(self, topic: object, *, by_ids: bool) -> bool:
        return topic == self.topic_id if by_ids else self.topic_id is not None

    def _part(self, asked: Any, code: int) -> FetchResponsePartition:
        start, records = asked.fetch_offset, b""
        if not code and start < self.end:
            rows = pa.record_batch(
                {"value": [value_of(self.topic_id, n) for n in range(start, min(start + 40, self.end))]}
            )
            records = bytes(encode(rows, base_offset=start, timestamp_ms=1, leader_epoch=0))
        end = -1 if code else self.end
        return FetchResponsePartition(
            partition_index=asked.partition,
            error_code=code,
            high_watermark=end,
            last_stable_offset=end,
            records=records,
        )

    def _list(self, request: Any, version: int) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    name=topic.name,
                    partitions=[
                        ListOffsetsResponsePartition(
                            partition_index=each.partition_index,
                            offset=0 if each.timestamp == -2 else self.end,
                            leader_epoch=0,
                            error_code=UNKNOWN_TOPIC if self.topic_id is None else 0,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _commit(self, request: Any, version: int) -> OffsetCommitResponse:
        topics = []
        for topic in request.topics:
            here = version <= LAST_COMMIT_BY_NAME or topic.topic_id == self.topic_id
            if here:
                self.committed |= {each.partition_index: each.committed_offset for each in topic.partitions}
            parts = [
                OffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=0 if here else UNKNOWN_ID
                )
                for each in topic.partitions
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts))
        return OffsetCommitResponse(topics=topics)

    def _fetch_offsets(self, request: Any, version: int) -> OffsetFetchResponse:
        (group,) = request.groups
        topics = [
            OffsetFetchResponseGroupTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponseGroupTopicPartition(
                        partition_index=number,
                        committed_offset=self.committed.get(number, -1),
                        error_code=0
                        if version <= LAST_COMMIT_BY_NAME or topic.topic_id == self.topic_id
                        else UNKNOWN_ID,
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in group.topics
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])


def value_of(topic_id: bytes | None, offset: int) -> bytes:
    return b"%s%d" % ((topic_id or b"?")[:1], offset)


class Reading:
    """A consumer of both partitions, and what it has read of each."""

    def __init__(self, on: Stage, reset: OffsetReset = OffsetReset.EARLIEST, group: str | None = None) -> None:
        async def call(*_: object) -> None: ...

        self.engine = ConsumerEngine(
            on.client,
            ConsumerConfig(
                auto_offset_reset=reset,
                group=group,
                enable_auto_commit=False,
                fetch_max_wait_ms=20,
                retry_backoff_ms=1,
                retry_backoff_max_ms=2,
            ),
            call,
        )
        self.values: dict[int, list[bytes]] = {0: [], 1: []}

    async def poll(self, seconds: float = 1.0) -> Any:
        await self.engine.ready(asyncio.get_running_loop().time() + seconds)
        batch = self.engine.take(1_000)
        for each in batch:
            self.values[each.partition].append(each.value or b"")
        return batch

    async def until(self, count: int) -> Any:
        """Until there are so many of each partition; the last batch."""
        for _ in range(200):
            batch = await self.poll()
            if all(len(each) >= count for each in self.values.values()):
                return batch
        raise AssertionError({number: len(each) for number, each in self.values.items()})


def every(topic_id: bytes, start: int, end: int) -> list[bytes]:
    return [value_of(topic_id, offset) for offset in range(start, end)]


def at_stage(work: Any, *, sessions: bool = True, highest: dict[int, int] | None = None) -> None:
    async def main() -> None:
        async with stage() as on:
            on.broker.highest = highest or {}
            broker = Broker(on, sessions=sessions)
            broker.serve()
            await work(on, broker)

    run(main())


@pytest.mark.parametrize("sessions", [True, False], ids=["in a session", "without one"])
@pytest.mark.parametrize("seen", [True, False], ids=["seen deleted", "recreated at once"])
def test_a_longer_topic_is_read_from_its_beginning_with_one_warning(
    sessions: bool, seen: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        await reading.until(100)
        if seen:
            broker.topic_id = None
            await reading.poll(0.1)
        broker.recreate(500)
        await reading.until(600)
        for number in (0, 1):
            assert reading.values[number] == every(OLD, 0, 100) + every(NEW, 0, 500)
        await reading.engine.close(1.0)

    with caplog.at_level(logging.WARNING, "penstock.consumer"):
        at_stage(work, sessions=sessions)
    told = [each.getMessage() for each in caplog.records if "created anew" in each.getMessage()]
    assert len(told) == 1
    for word in (
        TOPIC,
        shown_id(OLD),
        shown_id(NEW),
        "partition 0 from 100 to 0",
        "partition 1 from 100 to 0",
        "earliest",
    ):
        assert word in told[0]


def test_with_latest_only_what_comes_afterwards_is_read() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on, OffsetReset.LATEST)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        await reading.until(100)
        broker.recreate(500)
        while reading.engine.state_of(FIRST).position != 500 or reading.engine.state_of(SECOND).position != 500:
            await reading.poll(0.1)
        broker.end = 510
        await reading.until(110)
        assert reading.values[0] == every(OLD, 0, 100) + every(NEW, 500, 510)
        await reading.engine.close(1.0)

    at_stage(work)


def test_without_a_policy_polls_fail_until_somebody_seeks() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on, OffsetReset.NONE)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        await reading.until(100)
        broker.recreate(500)
        for _ in range(2):
            with pytest.raises(TopicRecreated, match="this offset is of the old topic") as raised:
                await reading.until(101)
            assert (raised.value.old_id, raised.value.new_id, raised.value.retriable) == (OLD, NEW, False)
        for partition in BOTH:
            reading.engine.state_of(partition).jump(3)
        reading.engine.go_on()
        await reading.until(597)
        assert reading.values[1] == every(OLD, 0, 100) + every(NEW, 3, 500)
        await reading.engine.close(1.0)

    at_stage(work)


def test_records_that_were_fetched_before_are_returned_before() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        await passing(0.1)
        assert all(reading.engine.state_of(each).buffer for each in BOTH)
        broker.recreate(300)
        await reading.until(340)
        for number in (0, 1):
            old = len([each for each in reading.values[number] if each.startswith(b"o")])
            assert old >= 40
            assert reading.values[number] == every(OLD, 0, old) + every(NEW, 0, len(reading.values[number]) - old)
        await reading.engine.close(1.0)

    at_stage(work)


def test_a_paused_partition_stays_paused_in_the_new_topic() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        await reading.until(100)
        broker.recreate(200)
        reading.engine.state_of(SECOND).paused = True
        while len(reading.values[0]) < 300:
            await reading.poll(0.1)
        assert len(reading.values[1]) == 100
        reading.engine.state_of(SECOND).paused = False
        reading.engine.go_on()
        await reading.until(300)
        assert reading.values[1] == every(OLD, 0, 100) + every(NEW, 0, 200)
        await reading.engine.close(1.0)

    at_stage(work)


def test_offsets_of_the_old_topic_are_not_committed_for_the_new_one() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on, group="g")
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        batch = await reading.until(100)
        await reading.engine.consumption.commit(None)
        assert broker.committed == {0: 100, 1: 100}
        broker.recreate(500)
        for what in (None, batch):
            with pytest.raises(TopicRecreated, match="cannot commit"):
                await reading.engine.consumption.commit(what)
        assert broker.committed == {}
        await reading.until(600)
        with pytest.raises(TopicRecreated, match="cannot commit"):
            await reading.engine.consumption.commit(batch)  # processed late
        await reading.engine.consumption.commit(None)
        assert broker.committed == {0: 500, 1: 500}
        await reading.engine.close(1.0)

    at_stage(work)


def test_a_rejected_batch_of_the_old_topic_moves_no_position_in_the_new_one() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        batch = await reading.until(100)
        await reading.engine.consumption.reject(batch)  # nothing has changed yet: it is read again
        again = await reading.poll()
        assert again.first_offsets.items() <= batch.first_offsets.items()
        while reading.engine.partitions.positions() != {FIRST: 100, SECOND: 100}:
            await reading.poll()
        broker.recreate(500)
        while reading.engine.partitions.positions() != {FIRST: 500, SECOND: 500}:
            await reading.poll()
        await reading.engine.consumption.reject(batch)
        assert reading.engine.partitions.positions() == {FIRST: 500, SECOND: 500}
        await reading.engine.close(1.0)

    at_stage(work)


def test_a_place_of_the_old_topic_is_not_sought_in_the_new_one() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        broker.committed = {0: 30}
        await on.client.topics([TOPIC])
        place = (await on.client.committed("g", [FIRST]))[FIRST]
        assert (place.offset, place.topic_id) == (30, OLD)
        broker.recreate(500)
        reading = Reading(on)
        await reading.engine.assign({FIRST: None, SECOND: None})
        reading.engine.state_of(FIRST).jump(place.offset, place.topic_id)
        reading.engine.go_on()
        await reading.until(500)
        assert reading.values[0] == every(NEW, 0, 500)
        await reading.engine.close(1.0)

    at_stage(work)


def test_what_is_known_of_a_new_topic_protects_it_from_older_coordinators() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        broker.recreate(500)
        await on.client.topics([TOPIC])
        stale = {FIRST: Committed(100, topic_id=OLD), SECOND: Committed(7, topic_id=NEW)}
        with pytest.raises(TopicRecreated):
            await on.client.commit("g", stale)
        assert broker.committed == {1: 7}

    at_stage(work, highest={COMMIT: LAST_COMMIT_BY_NAME})


def test_committed_offsets_are_asked_of_the_topic_that_is_there_now() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        await on.client.topics([TOPIC])
        broker.recreate(500)
        broker.committed = {0: 40}
        reading = Reading(on, OffsetReset.LATEST, group="g")
        await reading.engine.assign({FIRST: None, SECOND: None})
        while len(reading.values[0]) < 460:
            await reading.poll(0.1)
        assert reading.values == {0: every(NEW, 40, 500), 1: []}
        await reading.engine.close(1.0)

    at_stage(work)


def test_a_range_of_the_old_topic_is_not_read_from_the_new_one() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        read = RangeRead(on.client, LogRange(TOPIC, 0, 10, 90))
        assert [each.value for each in await read.next() or ()] == every(OLD, 10, 50)
        read.close()
        broker.recreate(500)
        for wanted in (read, RangeRead(on.client, LogRange(TOPIC, 0, 10, 20, topic_id=OLD))):
            with pytest.raises(TopicRecreated, match=shown_id(NEW)) as raised:
                await wanted.next()
            assert raised.value.hint == "Plan the range anew: by the offsets that the new topic has"
            wanted.close()
        fresh = RangeRead(on.client, LogRange(TOPIC, 0, 10, 20, topic_id=NEW))
        assert [each.value for each in await fresh.next() or ()] == every(NEW, 10, 20)

    at_stage(work)


def test_a_client_that_knows_only_the_old_topic_reads_a_range_of_the_new_one() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        read = RangeRead(on.client, LogRange(TOPIC, 0, 10, 20))
        assert [each.value for each in await read.next() or ()] == every(OLD, 10, 20)
        read.close()
        broker.recreate(500)
        fresh = RangeRead(on.client, LogRange(TOPIC, 0, 10, 20, topic_id=NEW))
        assert [each.value for each in await fresh.next() or ()] == every(NEW, 10, 20)

    at_stage(work)


def test_brokers_without_topic_ids_are_read_as_before() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        await reading.until(100)
        broker.recreate(500)
        await reading.until(500)
        assert reading.values[0][100:] == every(NEW, 100, 500)
        await reading.engine.close(1.0)

    at_stage(work, highest={METADATA: 9, FETCH: LAST_WITH_NAMES})


def test_fetches_by_name_notice_it_with_the_next_metadata(caplog: pytest.LogCaptureFixture) -> None:
    async def work(on: Stage, broker: Broker) -> None:
        reading = Reading(on)
        await reading.engine.assign({FIRST: 0, SECOND: 0})
        await reading.until(100)
        broker.recreate(500)
        await on.client.topics([TOPIC], fresh=True)
        await reading.until(600)
        for each in reading.values.values():
            begun = each.index(value_of(NEW, 0))  # what was read before by name was taken for more of the old topic
            assert each[begun : begun + 500] == every(NEW, 0, len(each) - begun)
        await reading.engine.close(1.0)

    with caplog.at_level(logging.WARNING, "penstock.consumer"):
        at_stage(work, highest={FETCH: LAST_WITH_NAMES})
    assert "created anew" in caplog.text


def test_an_answer_of_the_old_topic_says_nothing_of_the_new_ones_past() -> None:
    async def work(on: Stage, broker: Broker) -> None:
        await on.client.topics([TOPIC])
        cluster = on.client._cluster
        (node,) = {cluster.leader(each) for each in BOTH}
        assert node is not None
        from penstock.interfaces import ReadFrom
        from penstock.protocols.kafka.client.fetch import ReadReplicas

        form = FetchForm(cluster, node, [ReadFrom(FIRST, 90, 1 << 20, OLD)], ReadReplicas(60.0))
        form.places(13)
        answer = broker._part(type("Asked", (), {"fetch_offset": 90, "partition": 0}), 0)
        broker.recreate(500)
        await on.client.topics([TOPIC], fresh=True)
        (fetched,) = form.fetched({(OLD, 0): answer})
        assert fetched.next_offset == 100
        assert cluster.lineage(FIRST).epoch_before(100) == -1

    at_stage(work)
