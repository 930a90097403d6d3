"""A Kafka cluster as an enode, the cluster being a node of ours that answers wrongly, late or never."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from penstock.config import ListenAddress, SnodeConfig
from penstock.errors import (
    LogOffsetOutOfRange,
    OutOfOrderSequence,
    PenstockError,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from penstock.interfaces.enode import FetchPart, extent, fetch_one
from penstock.interfaces.node import BackendContext
from penstock.model import Endpoint, Partition
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.kafka.backend.enode import KafkaEnode, open_enode
from penstock.records.scalar_codec import Stored, encode_batch, stored_records
from penstock.testing import Broker

T = TypeVar("T")
AT = Partition("t", 0)


@pytest.fixture
def cluster() -> Iterator[Broker]:
    with Broker(auto_create_topics=False) as broker:
        broker.create_topic("t", partitions=2)
        yield broker


def over(cluster: Broker, work: Callable[[KafkaEnode], Awaitable[T]]) -> T:
    """What ``work`` returns, which is given the enode."""

    async def run() -> T:
        runtime = AsyncioRuntime()
        config = SnodeConfig(listen=(ListenAddress("kafka", Endpoint("127.0.0.1", 0)),))
        enode = open_enode(cluster.address, BackendContext(runtime, config, AsyncioChannel))  # type: ignore[arg-type]
        await enode.start()
        try:
            return await asyncio.wait_for(work(enode), 30)
        finally:
            await runtime.stop()
            await enode.close(1)

    return asyncio.run(run())


def batch(value: bytes, producer: tuple[int, int, int] | None = None) -> bytes:
    from penstock.records.batch import ANYONE, Producing
    from penstock.records.scalar_writer import FewRows, encode_few

    producing = ANYONE if producer is None else Producing(*producer)
    return bytes(encode_few(FewRows((None,), (value,), (1,)), producing=producing))


async def everything(enode: KafkaEnode, partition: Partition = AT) -> list[bytes | None]:
    end = (await extent(enode, partition)).end
    found: list[bytes | None] = []
    at = 0
    while at < end:
        part = await fetch_one(enode, FetchPart(partition, at, 1 << 20))
        found += [record.value for record in stored_records(part.read(), at)]
        at = part.next_offset
    return found


@pytest.mark.parametrize("fault", ["lost request", "lost answer", "moved", "doubt"])
def test_what_was_called_first_is_stored_first_and_once(cluster: Broker, fault: str) -> None:
    faults = {
        "lost request": lambda: cluster.faults.drop("Produce", moment="before"),
        "lost answer": lambda: cluster.faults.drop("Produce", moment="after"),
        "moved": lambda: cluster.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2),
        "doubt": lambda: cluster.faults.error("Produce", "REQUEST_TIMED_OUT", moment="after", times=2),
    }
    values = [b"%d" % number for number in range(40)]

    async def work(enode: KafkaEnode) -> tuple[list[int], list[bytes | None]]:
        await enode.append(AT, batch(values[0]))
        faults[fault]()
        told = await asyncio.gather(*(enode.append(AT, batch(value)) for value in values[1:]))
        return [each.base_offset for each in told], await everything(enode)

    offsets, stored = over(cluster, work)
    assert (offsets, stored) == (list(range(1, 40)), values)


def test_a_cluster_that_does_not_answer_is_not_reachable(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> None:
        assert await enode.unreachable() is None
        cluster.faults.drop("Metadata", times=1_000)
        with pytest.raises((TimeoutError, PenstockError)):
            await asyncio.wait_for(enode.unreachable(), 0.5)

    over(cluster, work)


def test_a_caller_who_goes_does_not_take_his_batch_along(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> list[bytes | None]:
        cluster.faults.delay("Produce", 0.2)
        gone = asyncio.ensure_future(enode.append(AT, batch(b"first")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gone.cancel()
        await enode.append(AT, batch(b"second"))
        return await everything(enode)

    assert over(cluster, work) == [b"first", b"second"]


def test_a_producers_own_numbers_are_checked_by_the_cluster(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> list[bytes | None]:
        relay = enode.relay("kafka")
        assert relay is not None
        producer = await relay.producer_id()  # type: ignore[attr-defined]
        cluster.faults.drop("Produce", moment="after")
        await enode.append(AT, batch(b"0", (producer, 0, 0)))
        again = await enode.append(AT, batch(b"0", (producer, 0, 0)))
        assert again.base_offset == 0
        with pytest.raises(OutOfOrderSequence):
            await enode.append(AT, batch(b"2", (producer, 0, 2)))
        await enode.append(AT, batch(b"1", (producer, 0, 1)))
        return await everything(enode)

    assert over(cluster, work) == [b"0", b"1"]


def test_what_is_wrong_with_one_batch_is_told_of_it_alone(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> list[object]:
        batches = [(AT, batch(b"x")), (Partition("gone", 0), batch(b"x")), (Partition("t", 7), batch(b"x"))]
        return [type(each) for each in await enode.append_all([*batches, (AT, b"no batch"), (AT, batch(b"y"))])]

    kinds = over(cluster, work)
    assert kinds[1:3] == [UnknownTopic, UnknownPartition]
    assert issubclass(kinds[3], PenstockError)  # type: ignore[arg-type]
    assert not any(issubclass(kinds[at], PenstockError) for at in (0, 4))  # type: ignore[arg-type]


def test_who_waits_hears_of_what_others_write(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> None:
        both = {AT: 0, Partition("t", 1): 0}
        waits = [enode.arrival(both) for _ in range(3)]
        forgotten = enode.arrival(both)
        enode.forget_arrival(forgotten)
        await enode.append(Partition("t", 1), batch(b"x"))
        for each in waits:
            await each
        assert enode.arrival(both | {Partition("t", 1): 0}).done
        later = enode.arrival({Partition("t", 1): 1})
        assert not later.done
        await enode.append(Partition("t", 1), batch(b"y"))
        await later
        assert not forgotten.done

    over(cluster, work)


def test_who_comes_while_a_broker_is_being_connected_to_is_told_as_well(cluster: Broker) -> None:
    cluster.create_topic("u")

    async def work(enode: KafkaEnode) -> None:
        late = Partition("u", 0)
        await enode.extents((AT, late))
        first = enode.arrival({AT: 0})
        await asyncio.sleep(0)  # the question waits for its connection
        second = enode.arrival({late: 0})
        await enode.append_all([(AT, batch(b"x")), (late, batch(b"x"))])
        await first
        await second

    over(cluster, work)


def test_an_offset_that_is_not_there_says_where_the_log_is(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> tuple[int, int]:
        for value in (b"a", b"b", b"c"):
            await enode.append(AT, batch(value))
        assert await enode.delete_records(AT, 1) == 1
        with pytest.raises(LogOffsetOutOfRange):
            await enode.delete_records(AT, 9)
        with pytest.raises(LogOffsetOutOfRange) as caught:
            await fetch_one(enode, FetchPart(AT, 0, 100))
        return caught.value.start_offset, caught.value.end_offset

    assert over(cluster, work) == (1, 3)


def test_topics_come_change_and_go(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> None:
        made = await enode.create_topic("new", 1, {"retention.ms": "1000"})
        with pytest.raises(TopicExists):
            await enode.create_topic("new", 1, {})
        assert (made.partitions, dict(made.config)) == (1, {"retention.ms": "1000"})
        assert await enode.topic("new") is made
        assert await enode.topic_by_id(made.id) is made
        await enode.add_partitions("new", 3)
        await enode.set_config("new", {"retention.bytes": "5"})
        changed = await enode.topic("new")
        assert changed is not None
        assert (changed.partitions, dict(changed.config)) == (3, {"retention.bytes": "5"})
        assert [place.id for place in await enode.places("new")] == [0, 1, 2]
        await enode.delete_topic("new")
        assert await enode.topic("new") is None
        assert {topic.name for topic in await enode.topics()} == {"t"}

    over(cluster, work)


def test_a_batch_of_its_own_time_keeps_it(cluster: Broker) -> None:
    async def work(enode: KafkaEnode) -> list[Stored]:
        await enode.append(AT, bytes(encode_batch([Stored(0, 7, False, None, b"x", ())])))
        return list(stored_records((await fetch_one(enode, FetchPart(AT, 0, 100))).read(), 0))

    (found,) = over(cluster, work)
    assert (found.timestamp_ms, found.timed) == (7, True)
