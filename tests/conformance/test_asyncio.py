"""The asyncio classes do what the synchronous ones do: one journey through each."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from penstock.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from penstock.interfaces import NewTopic
from tests.conformance.conftest import Log


def test_a_journey_there_and_back(log: Log, group: str) -> None:
    topic = f"async_{group}".replace("-", "_")

    async def journey() -> list[bytes | None]:
        async with AsyncAdmin(log.address) as admin, AsyncProducer(log.writing) as producer:
            await admin.create_topics([NewTopic(topic, 1)])
            partition = (await admin.topics([topic]))[topic].partitions[0].partition
            one = await producer.send(topic, b"one", b"key", partition=0)
            table = await producer.send_batch(topic, pa.table({"value": [b"two", b"three"], "partition": [0, 0]}))
            first = (await one).offset
            (span,) = await table
            assert (span.topic, span.partition, span.node) == (topic, partition.id, partition.node)
            assert first < span.start < span.end
            found: list[bytes | None] = []
            async with AsyncConsumer(log.at(topic), group=group, **log.consumer) as consumer:
                async for batch in consumer:
                    found += [record.value for record in batch]
                    await consumer.commit(batch)
                    if len(found) == 3:
                        break
                end = (await consumer.end_offsets([partition]))[partition]
            committed = await admin.committed(group)
            assert span.end <= committed[partition].offset == end
            assert (await admin.lag(group))[partition].offsets == 0
            return found

    async def within_reason() -> list[bytes | None]:
        async with asyncio.timeout(20):
            return await journey()

    assert asyncio.run(within_reason()) == [b"one", b"two", b"three"]
