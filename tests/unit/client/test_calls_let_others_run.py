"""A loop of calls that wait for nothing leaves the event loop to others, whatever is called."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from penstock.model import Partition
from penstock.testing import Broker

P = Partition("t", 0)
ROWS = pa.table({"value": [b"x"]})
Call = Callable[[Any], Awaitable[object]]

CONSUMER: dict[str, Call] = {
    "assign": lambda c: c.assign([P]),
    "available_partitions_for": lambda c: c.available_partitions_for("t"),
    "beginning_offsets": lambda c: c.beginning_offsets([P]),
    "commit": lambda c: c.commit(),
    "commit_async": lambda c: c.commit_async(),
    "committed": lambda c: c.committed([P]),
    "end_offsets": lambda c: c.end_offsets([P]),
    "offsets_for_times": lambda c: c.offsets_for_times({P: 0}),
    "partition_status": lambda c: c.partition_status(),
    "partitions_for": lambda c: c.partitions_for("t"),
    "partitions_ready": lambda c: c.partitions_ready(0),
    "pause": lambda c: c.pause([P]),
    "poll": lambda c: c.poll(0),
    "position": lambda c: c.position(P),
    "reject": lambda c: c.reject(),
    "resume": lambda c: c.resume([P]),
    "seek": lambda c: c.seek(P, 0),
    "seek_to_beginning": lambda c: c.seek_to_beginning(),
    "seek_to_end": lambda c: c.seek_to_end([P]),
}
PRODUCER: dict[str, Call] = {
    "flush": lambda p: p.flush(),
    "partitions_for": lambda p: p.partitions_for("t"),
    "send": lambda p: p.send("t", b"x"),
    "send_batch": lambda p: p.send_batch("t", ROWS),
}
ADMIN: dict[str, Call] = {
    "beginning_offsets": lambda a: a.beginning_offsets([P]),
    "committed": lambda a: a.committed("g", [P]),
    "end_offsets": lambda a: a.end_offsets([P]),
    "topics": lambda a: a.topics(["t"]),
}
LOOPED = [("consumer", CONSUMER), ("producer", PRODUCER), ("admin", ADMIN)]
ONCE = {
    "enforce_rebalance", "send_back", "subscribe", "unsubscribe", "close",  # of a consumer
    "abort_transaction", "answer_checks", "begin_transaction", "commit_transaction", "init_transactions",
    "prepare_transaction", "send_offsets_to_transaction",  # of a producer
}  # fmt: skip
"""What nobody calls again and again: it changes what is read or written."""


async def turns_during(call: Callable[[], Awaitable[object]], times: int) -> int:
    """How many turns of the loop another task got while a loop of calls ran."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(times):
        await call()
    task.cancel()
    return turns


async def made(role: str, address: str) -> Any:
    if role == "producer":
        return AsyncProducer(address)
    if role == "admin":
        return AsyncAdmin(address)
    await filled(address)
    consumer = AsyncConsumer(address, group="g")
    await consumer.assign({P: 0})
    await consumer.poll(10)  # what could be fetched ahead is there now
    return consumer


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, calls in LOOPED for name in calls])
def test_each_call_is_a_turn_for_others(role: str, name: str) -> None:
    call = dict(LOOPED)[role][name]
    times, least = (20_000, 5) if name == "send" else (50, 50)  # a turn a batch

    async def main(address: str) -> int:
        async with await made(role, address) as client:
            await call(client)
            return await turns_during(lambda: call(client), times)

    with Broker() as broker:
        broker.create_topic("t")
        assert asyncio.run(main(broker.address)) >= least


@pytest.mark.parametrize(("kind", "calls"), [(AsyncConsumer, CONSUMER), (AsyncProducer, PRODUCER)])
def test_no_call_is_forgotten(kind: type, calls: dict[str, Call]) -> None:
    public = {name for name, each in vars(kind).items() if inspect.iscoroutinefunction(each) and name[0] != "_"}
    assert public == calls.keys() | (ONCE & vars(kind).keys())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_bare_loop_of_poll_0_joins_and_reads(protocol: str) -> None:
    async def main(address: str) -> int:
        rows = 0
        async with AsyncConsumer(f"{address}/t", group="g", group_protocol=protocol) as consumer:
            async with asyncio.timeout(30):
                while rows < 20:
                    rows += len(await consumer.poll(0))
        return rows

    with Broker() as broker:
        broker.create_topic("t", partitions=2)
        asyncio.run(filled(broker.address))
        assert asyncio.run(main(broker.address)) == 20


async def filled(address: str) -> None:
    async with AsyncProducer(address) as producer:
        for number in range(20):
            await producer.send("t", b"%d" % number)
