"""A topic is deleted and created anew, longer than before, while it is read: our node and a real broker alike."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, AsyncConsumer, Committed, Consumer, Producer, RangeReader, TopicRecreated
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Partition
from penstock.protocols.kafka.wire.offsets import FindCoordinatorRequest
from tests.interop.node_or_kafka import WHERE, node_or_kafka
from tests.interop.wire import told, wired
from tests.unit.kafka_front.transaction_kit import FIRST, VERSIONS, Writer

pytestmark = pytest.mark.interop

OLD, NEW, PARTITIONS = 60, 200, 2
SETTINGS = {"group.initial.rebalance.delay.ms": 0}
NODE_SETTINGS = {"initial.rebalance.delay.ms": 0}


class Scene:
    """A server, and a topic on it."""

    def __init__(self, bootstrap: str) -> None:
        self.address = f"kafka://{bootstrap}"
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self.group = f"g-{self.topic}"
        self.parts = [Partition(self.topic, number) for number in range(PARTITIONS)]
        self.admin = Admin(self.address)
        self.make("old", OLD)

    def make(self, word: str, count: int) -> None:
        """Create it, with so many records in each partition."""
        self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])
        with Producer(self.address) as producer:
            for offset in range(count):
                for part in self.parts:
                    producer.send(self.topic, f"{word}-{offset}".encode(), partition=part.id)

    def again(self) -> None:
        self.admin.delete_topics([self.topic])
        self.make("new", NEW)

    def committed(self) -> dict[int, int]:
        return {part.id: each.offset for part, each in self.admin.committed(self.group).items()}


@contextmanager
def scene(where: str, home: Path) -> Iterator[Scene]:
    with node_or_kafka(where, home, SETTINGS if where == "kafka" else NODE_SETTINGS) as bootstrap:
        made = Scene(bootstrap)
        try:
            yield made
        finally:
            made.admin.close()


def values(word: str, count: int) -> list[bytes]:
    return [f"{word}-{offset}".encode() for offset in range(count)]


class Seen:
    """What was read of each partition."""

    def __init__(self) -> None:
        self.of: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}

    def add(self, batch: Any) -> None:
        for each in batch:
            self.of[each.partition].append(each.value)

    def all_have(self, count: int) -> bool:
        return all(len(each) >= count for each in self.of.values())


@WHERE
@pytest.mark.parametrize("how", ["assigned", "alone", "classic", "consumer"])
def test_a_consumer_goes_on_at_the_beginning_and_says_so(
    where: str, how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with scene(where, tmp_path) as on, caplog.at_level(logging.WARNING, "penstock.consumer"):
        grouped = {"group": on.group, "group_protocol": how} if how in {"classic", "consumer"} else {}
        with Consumer(on.address, auto_offset_reset="earliest", **grouped) as consumer:
            if how == "assigned":
                consumer.assign(dict.fromkeys(on.parts, 0))
            else:
                consumer.subscribe([on.topic])
            seen = Seen()
            while not seen.all_have(OLD):
                seen.add(consumer.poll(1.0))
            on.again()
            while not seen.all_have(OLD + NEW):
                seen.add(consumer.poll(1.0))
            for each in seen.of.values():
                assert each == values("old", OLD) + values("new", NEW)
        assert f"topic {on.topic} was deleted and created anew" in caplog.text
        if grouped:
            assert all(offset <= NEW for offset in on.committed().values())


@WHERE
def test_an_asynchronous_one_that_comes_late_commits_nothing_of_the_old_topic(where: str, tmp_path: Path) -> None:
    async def work(on: Scene) -> None:
        async with AsyncConsumer(
            on.address, group=on.group, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            await consumer.subscribe([on.topic])
            seen, batch = Seen(), None
            while not seen.all_have(OLD):
                batch = await consumer.poll(1.0)
                seen.add(batch)
            assert batch
            await consumer.commit()
            await asyncio.to_thread(on.again)
            with pytest.raises(TopicRecreated, match="cannot commit"):
                await consumer.commit(batch)
            assert await asyncio.to_thread(on.committed) == {}
            while not seen.all_have(OLD + NEW):
                seen.add(await consumer.poll(1.0))
            await consumer.commit()
            assert await asyncio.to_thread(on.committed) == dict.fromkeys(range(PARTITIONS), NEW)

    with scene(where, tmp_path) as on:
        asyncio.run(work(on))


@WHERE
def test_ranges_and_commits_by_id_are_refused_and_a_producer_goes_on(where: str, tmp_path: Path) -> None:
    with scene(where, tmp_path) as on, Producer(on.address) as producer, RangeReader(on.address) as reader:
        old = on.admin.topics([on.topic])[on.topic].id
        assert old is not None
        producer.send(on.topic, b"one more", partition=0)
        producer.flush()
        on.again()
        with pytest.raises(TopicRecreated):
            list(reader.read(LogRange(on.topic, 0, 0, 10, topic_id=old)))
        with pytest.raises(TopicRecreated):
            on.admin.commit(on.group, {on.parts[0]: Committed(OLD, topic_id=old)})
        assert on.committed() == {}
        assert producer.send(on.topic, b"and one more", partition=0).result(10).offset == NEW


@WHERE
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_goes_on_only_in_the_first_version(
    where: str, version: int, commit: bool, tmp_path: Path
) -> None:
    async def work(on: Scene, bootstrap: str) -> None:
        async with wired(bootstrap) as wire:
            writer = Writer(wire, f"tx-{on.topic}", version)
            find = FindCoordinatorRequest(coordinator_keys=[writer.name], key_type=1)

            async def coordinator() -> int:
                return int((await wire.ask(find, 4)).coordinators[0].error_code)

            async def add() -> list[int]:
                return await writer.add((on.topic, 0)) if version == FIRST else [0]

            assert await told(coordinator) == 0
            assert await told(writer.init) == 0
            assert await told(add) == [0]
            assert await told(lambda: writer.produce(on.topic, b"lost")) == 0
            await asyncio.to_thread(on.again)
            # In the second version a transaction begins with sequence 0, in every partition.
            assert await told(lambda: writer.produce(on.topic, b"next")) == (0 if version == FIRST else 45)
            assert await told(lambda: writer.end(commit=commit)) == 0
            assert await told(add) == [0]
            assert await told(lambda: writer.produce(on.topic, b"new")) == 0
            assert await told(lambda: writer.end(commit=True)) == 0

            def read() -> list[bytes | None]:
                with RangeReader(on.address, isolation_level="read_committed") as reader:
                    return [row.value for rows in reader.read(on.parts[0]) for row in rows][NEW:]

            # A real broker answers before it has written the marker.
            while b"new" not in (found := await asyncio.to_thread(read)):
                pass
            assert found == ([b"next"] if commit and version == FIRST else []) + [b"new"]

    with scene(where, tmp_path) as on:
        asyncio.run(work(on, on.address.removeprefix("kafka://")))
