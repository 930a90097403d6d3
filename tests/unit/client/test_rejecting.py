"""Rejecting what polls returned, where offsets are committed: reading goes back."""

from __future__ import annotations

import pytest

from penstock.client import AsyncConsumer, Consumer
from penstock.errors import UsageError
from penstock.model import Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"
VALUES = [b"%d" % number for number in range(6)]


def test_a_rejected_batch_comes_again_with_all_after_it(log: FakeLog) -> None:
    log.write("t", VALUES)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g") as consumer:
            first = await consumer.poll(1, max_records=2)
            second = await consumer.poll(1, max_records=2)
            assert [record.value for record in [*first, *second]] == VALUES[:4]
            await consumer.reject(second[1:])
            assert [record.value for record in await consumer.poll(1)] == VALUES[3:]
            await consumer.reject(first)
            assert [record.value for record in await consumer.poll(1)] == VALUES

    run(main())


def test_rejecting_everything_goes_back_to_what_was_committed(log: FakeLog) -> None:
    log.write("t", VALUES)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g") as consumer:
            await consumer.commit(await consumer.poll(1, max_records=2))
            await consumer.poll(1)
            await consumer.reject()
            assert [record.value for record in await consumer.poll(1)] == VALUES[2:]

    run(main())


def test_partitions_that_are_gone_are_left_alone(log: FakeLog) -> None:
    log.write("t", VALUES)

    async def main() -> None:
        async with AsyncConsumer(ADDRESS) as consumer:
            await consumer.assign([Partition("t", 0)])
            batch = await consumer.poll(1)
            await consumer.assign([Partition("t4", 0)])
            await consumer.reject(batch)
            assert consumer.assignment() == {Partition("t4", 0)}

    run(main())


def test_synchronous_code_rejects_as_well(log: FakeLog) -> None:
    log.write("t", VALUES)
    with Consumer(f"{ADDRESS}/t", group="g") as consumer:
        batch = consumer.poll(5)
        consumer.reject(batch)
        assert [record.value for record in consumer.poll(5)] == VALUES


def test_records_without_their_offsets_say_why_they_cannot_be_found_again(log: FakeLog) -> None:
    log.write("t", VALUES)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g") as consumer:
            batch = await consumer.poll(1)
            part = batch.parts[0]
            narrow = type(batch).of(part.partition, part.batch.select(["value"]), part.next_offset)
            with pytest.raises(UsageError, match="without their offsets"):
                await consumer.reject(narrow)

    run(main())
