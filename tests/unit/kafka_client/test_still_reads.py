"""A consumer whose session stands still asks the same again without composing it anew; and what ends that at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.protocols.kafka.client.fetch import FetchForm
from penstock.protocols.kafka.wire.fetch import (
    FetchResponse,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from tests.unit.client.virtual_time import passing, run
from tests.unit.kafka_client.scripted import Answer, Stage, metadata, stage
from tests.unit.kafka_client.test_fetch_sessions import COUNT, PARTITIONS, TOPIC, Log, Reading


class Composed:
    """How often a request was composed from all that is known, instead of being asked again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        places = FetchForm.places

        def counted(form: FetchForm, version: int) -> Any:
            self.count += 1
            return places(form, version)

        monkeypatch.setattr(FetchForm, "places", counted)

    def since(self) -> int:
        before, self.count = self.count, 0
        return before


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> Composed:
    return Composed(monkeypatch)


@asynccontextmanager
async def still(composed: Composed, *, ids: bool = True) -> AsyncIterator[tuple[Stage, Log, Reading]]:
    """A consumer that has read everything, and waits."""
    async with stage() as on:
        log = Log(on, ids, ends=[2] * COUNT)
        ends = [OffsetForLeaderEpochResponsePartition(partition=1, leader_epoch=7, end_offset=99)]
        told = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderEpochResponseTopic(topic=TOPIC, partitions=ends)])
        on.broker.answers["OffsetForLeaderEpoch"] = lambda *_: told
        log.serve()
        on.broker.answers["Fetch"] = held(log.fetch)
        reading = Reading(on, log)
        await reading.engine.assign(dict.fromkeys(PARTITIONS, 0))
        await reading.all_of([0, 1, 2])
        await reading.poll(0.1)
        composed.since()
        on.broker.seen.clear()
        yield on, log, reading
        await reading.engine.close(1.0)


def held(answer: Answer) -> Answer:
    """As a broker that holds a fetch for a moment: one that answers at once, with nothing, is left in peace."""

    async def later(request: Any, version: int) -> object:
        await passing(0.01)
        return answer(request, version)

    return later


def asked(on: Stage) -> list[dict[int, int]]:
    """Offsets by partition, of each fetch."""
    return [
        {part.partition: part.fetch_offset for topic in each.topics for part in topic.partitions}
        for each in on.broker.asked("Fetch")
    ]


def forgotten(on: Stage) -> list[Collection[int]]:
    return [n for each in on.broker.asked("Fetch") for topic in each.forgotten_topics_data for n in topic.partitions]


@pytest.mark.parametrize("ids", [True, False], ids=["topic ids", "names"])
def test_what_stands_still_is_asked_again_and_what_came_goes_on(composed: Composed, ids: bool) -> None:
    async def main() -> None:
        async with still(composed, ids=ids) as (on, log, reading):
            for end in range(3, 8):
                log.ends[1] = end
                await reading.all_of([1])
                await reading.poll(0.05)
            assert composed.since() == 0
            named = [each for each in asked(on) if each]
            assert named == [{1: end} for end in range(3, 8)]
            epochs = [each.session_epoch for each in on.broker.asked("Fetch")]
            assert epochs == [*range(epochs[0], epochs[0] + len(epochs))]

    run(main())


def test_a_seek_takes_effect_with_the_very_next_request(composed: Composed) -> None:
    async def main() -> None:
        async with still(composed) as (on, _, reading):
            reading.next[2] = 1
            before = len(asked(on))
            reading.engine.state_of(PARTITIONS[2]).jump(1)
            reading.engine.go_on()
            await reading.all_of([0, 1, 2])
            assert asked(on)[before] == {2: 1}
            await reading.poll(0.1)
            assert [each for each in asked(on)[before + 1 :] if each] == [{2: 2}]

    run(main())


def test_what_is_paused_is_forgotten_and_what_goes_on_is_named(composed: Composed) -> None:
    async def main() -> None:
        async with still(composed) as (on, log, reading):
            state = reading.engine.state_of(PARTITIONS[0])
            state.paused = True
            await reading.poll(0.1)
            assert (forgotten(on), composed.since() > 0) == ([0], True)
            log.ends[0] = 4
            await reading.poll(0.1)
            assert reading.next[0] == 2
            state.paused = False
            reading.engine.go_on()
            await reading.all_of([0])
            assert {0: 2} in asked(on)
            await reading.poll(0.1)
            composed.since()
            await reading.poll(0.2)
            assert composed.since() == 0

    run(main())


def test_what_is_given_up_is_forgotten_and_what_is_added_is_named(composed: Composed) -> None:
    async def main() -> None:
        async with still(composed) as (on, log, reading):
            await reading.engine.assign(dict.fromkeys(PARTITIONS[1:]))
            await reading.poll(0.1)
            assert forgotten(on) == [0]
            log.ends[0] = 5
            await reading.engine.assign({PARTITIONS[0]: 2, PARTITIONS[1]: None, PARTITIONS[2]: None})
            await reading.all_of([0])
            assert {0: 2} in asked(on)

    run(main())


@pytest.mark.parametrize("code", [70, 71])
def test_a_session_that_is_lost_is_begun_anew_in_full(composed: Composed, code: int) -> None:
    async def main() -> None:
        async with still(composed) as (on, log, reading):
            answers = [FetchResponse(error_code=code)]
            on.broker.answers["Fetch"] = held(lambda *given: answers.pop() if answers else log.fetch(*given))
            while answers:
                await reading.poll(0.01)
            log.ends = [4, 2, 3]
            await reading.all_of([0, 1, 2])
            full = [each for each in on.broker.asked("Fetch") if each.session_epoch == 0]
            assert [sorted(part.partition for part in each.topics[0].partitions) for each in full] == [[0, 1, 2]]
            await reading.poll(0.1)
            composed.since()
            await reading.poll(0.2)
            assert composed.since() == 0

    run(main())


def test_what_is_known_anew_of_the_cluster_is_looked_at(composed: Composed) -> None:
    async def main() -> None:
        async with still(composed) as (on, log, reading):
            leaders = {TOPIC: dict.fromkeys(range(COUNT), (1, 5))}
            on.broker.answers["Metadata"] = metadata({1: on.endpoint}, leaders, {TOPIC: b"i" * 16})
            await on.client.topics([TOPIC], fresh=True)
            log.ends[0] = 3
            await reading.all_of([0])
            await reading.poll(0.1)
            assert composed.since() > 0
            epochs = {
                part.current_leader_epoch
                for each in on.broker.asked("Fetch")
                for topic in each.topics
                for part in topic.partitions
            }
            assert 5 in epochs

    run(main())


def test_a_record_of_another_leader_has_its_past_asked_for_before_reading_goes_on(composed: Composed) -> None:
    async def main() -> None:
        async with still(composed) as (on, log, reading):
            log.epoch = 7  # of a leader of which this client has not heard, or that is gone by now
            log.ends[1] = 4
            await reading.all_of([1])
            await reading.poll(0.05)
            (question,) = on.broker.asked("OffsetForLeaderEpoch")
            (asked_of,) = question.topics[0].partitions
            assert (asked_of.partition, asked_of.leader_epoch, asked_of.current_leader_epoch) == (1, 7, 0)
            named = [each for each in asked(on) if each]
            assert named == [{1: 4}]

    run(main())
