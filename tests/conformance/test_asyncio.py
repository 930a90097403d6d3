"""The asyncio classes do what the synchronous ones do: one journey through each."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from penstock.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from penstock.model import LogRange, Partition
from penstock.seams import NewTopic
from tests.conformance.conftest import CONSUMER, Log


def test_a_journey_there_and_back(log: Log, group: str) -> None:
    topic = f"async-{group}"

    async def journey() -> list[bytes | None]:
        async with AsyncAdmin(log.address) as admin, AsyncProducer(log.address) as producer:
            await admin.create_topics([NewTopic(topic, 1)])
            one = await producer.send(topic, b"one", b"key")
            table = await producer.send_batch(topic, pa.table({"value": [b"two", b"three"]}))
            assert (await one).offset == 0
            assert await table == (LogRange(topic, 0, 1, 3),)
            found: list[bytes | None] = []
            async with AsyncConsumer(log.at(topic), group=group, **CONSUMER) as consumer:
                async for batch in consumer:
                    found += [record.value for record in batch]
                    await consumer.commit(batch)
                    if len(found) == 3:
                        break
            committed = await admin.committed(group)
            assert committed[Partition(topic, 0)].offset == 3
            assert (await admin.lag(group))[Partition(topic, 0)].offsets == 0
            return found

    async def within_reason() -> list[bytes | None]:
        async with asyncio.timeout(20):
            return await journey()

    assert asyncio.run(within_reason()) == [b"one", b"two", b"three"]
