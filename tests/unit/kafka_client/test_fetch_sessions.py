"""A consumer over fetch sessions: it reads all, in order and once, and says only what has changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.consumer.engine import ConsumerEngine
from penstock.config import ConsumerConfig
from penstock.model import Partition
from penstock.protocols.kafka.wire.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocols.kafka.wire.records import encode
from tests.unit.client.virtual_time import passing, run
from tests.unit.kafka_client.scripted import Stage, metadata, stage
from tests.unit.kafka_client.session_keeper import Keeper

TOPIC = "events"
FETCH = 1
COUNT = 3
LAST_WITH_NAMES = 12
PARTITIONS = [Partition(TOPIC, number) for number in range(COUNT)]
AT_ONCE = ConsumerConfig(fetch_max_wait_ms=20, retry_backoff_ms=1, retry_backoff_max_ms=2, request_timeout_ms=1_000)


@dataclass
class Log:
    """The broker's partitions, and its sessions; ``lose`` says what happens to the next fetches."""

    on: Stage
    ids: bool = True
    keeper: Keeper = field(default_factory=Keeper)
    ends: list[int] = field(default_factory=lambda: [0] * COUNT)
    told: dict[Any, int] = field(default_factory=dict)
    lose: list[str] = field(default_factory=list)
    epoch: int = -1

    def serve(self) -> None:
        ids = {TOPIC: b"i" * 16} if self.ids else None
        leaders = {TOPIC: dict.fromkeys(range(COUNT), (1, 0))}
        self.on.broker.answers |= {"Metadata": metadata({1: self.on.endpoint}, leaders, ids), "Fetch": self.fetch}

    def fetch(self, request: Any, version: int) -> object:
        how = self.lose.pop() if self.lose else ""
        if how == "request":
            return None
        by_ids = version > LAST_WITH_NAMES
        name = "topic_id" if by_ids else "topic"
        code, session_id, places = self.keeper.asked(
            request.session_id,
            request.session_epoch,
            {(getattr(topic, name), part.partition): part for topic in request.topics for part in topic.partitions},
            [(getattr(each, name), number) for each in request.forgotten_topics_data for number in each.partitions],
            by_ids=by_ids,
        )
        if how == "answer":
            return None
        if code:
            return FetchResponse(error_code=code)
        parts = [self._part(session_id, key, place.fetch_offset) for key, place in places.items()]
        news = [each for each in parts if request.session_epoch <= 0 or self._is_news(session_id, each)]
        self.told |= {(session_id, each.partition_index): each.high_watermark for each in news}
        topics = [FetchResponseTopic(**{name: topic}, partitions=news) for topic in {key[0] for key in places} if news]
        return FetchResponse(session_id=session_id, responses=topics)

    def _part(self, session_id: int, key: Any, offset: int) -> FetchResponsePartition:
        number, end = key[1], self.ends[key[1]]
        assert 0 <= offset <= end
        records = batch(number, offset, min(end, offset + 3), self.epoch) if offset < end else b""
        return FetchResponsePartition(partition_index=number, high_watermark=end, records=records)

    def _is_news(self, session_id: int, part: FetchResponsePartition) -> bool:
        return bool(part.records) or self.told.get((session_id, part.partition_index)) != part.high_watermark


def batch(number: int, start: int, end: int, epoch: int = -1) -> bytes:
    values = [b"%d.%d" % (number, offset) for offset in range(start, end)]
    return bytes(encode(pa.record_batch({"value": values}), base_offset=start, timestamp_ms=1, leader_epoch=epoch))


class Reading:
    """A consumer, and what it must read next of each partition."""

    def __init__(self, on: Stage, log: Log) -> None:
        async def call(*_: object) -> None: ...

        self.engine = ConsumerEngine(on.client, AT_ONCE, call)
        self.log = log
        self.next = [0] * COUNT
        self.dice = random.Random(0)

    async def poll(self, seconds: float) -> int:
        await self.engine.ready(asyncio.get_running_loop().time() + seconds)
        found = 0
        for each in self.engine.take(1_000):
            assert (each.offset, each.value) == (self.next[each.partition], b"%d.%d" % (each.partition, each.offset))
            self.next[each.partition] += 1
            found += 1
        return found

    async def all_of(self, partitions: list[int]) -> None:
        for _ in range(100):
            await self.poll(1.0)
            if all(self.next[number] == self.log.ends[number] for number in partitions):
                return
        raise AssertionError(f"read up to {self.next} of {self.log.ends}")

    async def anything(self) -> None:
        """Something happens, to the log or to the reader."""
        dice, number = self.dice, self.dice.randrange(COUNT)
        state = self.engine.partitions.get(PARTITIONS[number])
        match dice.choice(("append", "append", "pause", "resume", "evict", "request", "answer", "assign", "seek")):
            case "append":
                self.log.ends[number] += dice.randrange(1, 6)
            case "pause" if state is not None:
                state.paused = True
            case "resume" if state is not None:
                state.paused = False
                self.engine.go_on()
            case "evict":
                self.log.keeper.evict()
            case "request" | "answer" as lost:
                self.log.lose.append(lost)
            case "assign":
                wanted = dice.sample(range(COUNT), dice.randrange(1, COUNT + 1))
                await self.engine.assign({PARTITIONS[each]: self.next[each] for each in wanted})
            case "seek" if state is not None:
                self.next[number] = dice.randrange(self.log.ends[number] + 1)
                state.jump(self.next[number])
                self.engine.go_on()


def requests(on: Stage) -> Iterator[tuple[int, list[int], list[int]]]:
    """Epoch, partitions named and forgotten, of each fetch."""
    for each in on.broker.asked("Fetch"):
        named = [part.partition for topic in each.topics for part in topic.partitions]
        yield each.session_epoch, named, [n for topic in each.forgotten_topics_data for n in topic.partitions]


@pytest.mark.parametrize("ids", [True, False], ids=["topic ids", "names"])
def test_a_consumer_says_only_what_has_changed(ids: bool) -> None:
    async def main() -> None:
        async with stage() as on:
            log = Log(on, ids)
            log.serve()
            reading = Reading(on, log)
            await reading.engine.assign(dict.fromkeys(PARTITIONS, 0))
            await reading.poll(1.0)
            assert next(requests(on)) == (0, [0, 1, 2], [])
            assert {each[1:] == ([], []) for each in list(requests(on))[1:]} == {True}
            on.broker.seen.clear()
            log.ends[1] = 2
            await reading.all_of([1])
            await reading.poll(0.1)
            assert [each[1] for each in requests(on) if each[1]] == [[1]]
            await reading.engine.assign(dict.fromkeys(PARTITIONS[:2]))
            await reading.poll(0.1)
            assert [each[2] for each in requests(on) if each[2]] == [[2]]
            assert min(epoch for epoch, _, _ in requests(on)) > 0
            await reading.engine.close(1.0)
            await passing(0.1)
            assert not log.keeper.sessions

    run(main())


@pytest.mark.parametrize("trouble", ["evict", "request", "answer"])
def test_a_session_that_is_gone_is_begun_anew_and_nothing_is_lost_or_twice(trouble: str) -> None:
    async def main() -> None:
        async with stage() as on:
            log = Log(on, ends=[5, 5, 5])
            log.serve()
            reading = Reading(on, log)
            await reading.engine.assign(dict.fromkeys(PARTITIONS, 0))
            await reading.all_of([0, 1, 2])
            on.broker.seen.clear()
            if trouble == "evict":
                log.keeper.evict()
            else:
                log.lose.append(trouble)
            log.ends = [7, 5, 9]
            await reading.all_of([0, 1, 2])
            begun = [named for epoch, named, _ in requests(on) if epoch == 0]
            assert [sorted(named) for named in begun] == [[0, 1, 2]]
            (kept,) = log.keeper.sessions.values()
            assert {key[1] for key in kept.places} == {0, 1, 2}
            await reading.engine.close(1.0)

    run(main())


def test_a_broker_that_has_no_room_is_read_without_a_session() -> None:
    async def main() -> None:
        async with stage() as on:
            log = Log(on, keeper=Keeper(room=0), ends=[5, 5, 5])
            log.serve()
            reading = Reading(on, log)
            await reading.engine.assign(dict.fromkeys(PARTITIONS, 0))
            await reading.all_of([0, 1, 2])
            assert {epoch for epoch, _, _ in requests(on)} == {0}
            await reading.engine.close(1.0)

    run(main())


def test_a_broker_that_refuses_what_it_was_not_asked_is_left_in_peace_for_a_while() -> None:
    async def main() -> None:
        async with stage() as on:
            Log(on).serve()
            on.broker.answers["Fetch"] = lambda *_: FetchResponse(error_code=70)

            async def call(*_: object) -> None: ...

            engine = ConsumerEngine(on.client, ConsumerConfig(), call)
            await engine.assign(dict.fromkeys(PARTITIONS, 0))
            await engine.ready(asyncio.get_running_loop().time() + 10)
            assert len(on.broker.asked("Fetch")) < 30
            await engine.close(1.0)

    run(main())


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_all_is_read_in_order_and_once(seed: int) -> None:
    async def main() -> None:
        async with stage() as on:
            log = Log(on, ids=bool(seed % 2), keeper=Keeper(1_000 if seed % 5 else 0))
            log.serve()
            reading = Reading(on, log)
            reading.dice.seed(seed)
            await reading.engine.assign(dict.fromkeys(PARTITIONS, 0))
            for _ in range(60):
                await reading.anything()
                await reading.poll(reading.dice.choice((0.0, 0.004, 0.03, 1.5)))
            log.lose.clear()
            await reading.engine.assign({PARTITIONS[each]: reading.next[each] for each in range(COUNT)})
            for state in reading.engine.partitions:
                state.paused = False
            reading.engine.go_on()
            await reading.all_of([0, 1, 2])
            await reading.engine.close(1.0)

    run(main())
