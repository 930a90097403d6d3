"""Clients taken where they cannot live: closed ones, other threads, loops and processes, pickles."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import sys
import threading
import types
from functools import partial
from unittest import mock

import pytest

import penstock
from penstock import Closed, UsageError
from tests.mistakes.row import Mistake, World, mistake

TABLE: list[Mistake] = []
row = partial(mistake, TABLE)


@row("the producer is closed", Closed)
def sending_after_close(world: World) -> None:
    with penstock.Producer(world.address) as producer:
        producer.send("orders", b"value").result(20)
    producer.send("orders", b"value")


@row("the consumer is closed", Closed)
def polling_after_close(world: World) -> None:
    with penstock.Consumer(f"{world.address}/orders") as consumer:
        consumer.poll(0.1)
    consumer.poll(0.1)


@row("the admin is closed", Closed)
def asking_an_admin_after_close(world: World) -> None:
    admin = penstock.Admin(world.address)
    admin.close()
    admin.topics()


@row("Producer cannot be pickled or copied: it has connections. Send address and options")
def pickling_a_producer(world: World) -> None:
    with penstock.Producer(world.address) as producer:
        pickle.dumps(producer)


@row("RangeReader cannot be pickled or copied")
def pickling_a_reader(world: World) -> None:
    with penstock.RangeReader(world.address) as reader:
        pickle.dumps(reader)


@row("this consumer is being used by another thread. Make one consumer per thread")
def two_threads_with_one_consumer(world: World) -> None:
    with penstock.Consumer(f"{world.address}/orders") as consumer:
        polling = threading.Event()

        class Polled(penstock.RebalanceListener):
            def assigned(self, partitions: object) -> None:
                polling.set()
                done.wait(20)

        done = threading.Event()
        consumer.subscribe("orders", Polled())
        thread = threading.Thread(target=consumer.poll, args=(1,))
        thread.start()
        try:
            assert polling.wait(20)
            consumer.poll(0)
        finally:
            done.set()
            thread.join()


@row("this AsyncProducer belongs to another event loop. Make one AsyncProducer per loop")
def a_producer_in_a_second_loop(world: World) -> None:
    producer = penstock.AsyncProducer(world.address)

    async def first() -> None:
        await (await producer.send("orders", b"value"))

    async def second() -> None:
        await producer.send("orders", b"value")

    with asyncio.Runner() as one:
        one.run(first())
        try:
            asyncio.run(second())
        finally:
            one.run(producer.close())


@row("this AsyncConsumer belongs to another event loop")
def a_consumer_in_a_second_loop(world: World) -> None:
    consumer = penstock.AsyncConsumer(f"{world.address}/orders")

    async def poll() -> None:
        await consumer.poll(0.1)

    with asyncio.Runner() as one:
        one.run(poll())
        try:
            asyncio.run(poll())
        finally:
            one.run(consumer.close())


@row("this object was made before a fork. Make a new one in the child process")
def a_reader_after_a_fork(world: World) -> None:
    with penstock.RangeReader(world.address) as reader:
        reader.topics(["orders"])
        here = os.getpid()
        with mock.patch("os.getpid", return_value=here + 1):
            reader.topics(["orders"])


@row("result.. would block the loop that has to send the record. Await it instead")
def blocking_the_loop_that_delivers(world: World) -> None:
    async def main() -> None:
        async with penstock.AsyncProducer(world.address, linger_ms=1_000) as producer:
            (await producer.send("orders", b"value")).result(5)

    asyncio.run(main())


@row("gevent has patched threads or select: .* monkey.patch_all.thread=False, select=False")
def a_process_that_gevent_has_patched(world: World) -> None:
    from penstock.client.runtime.background_loop import LoopThread

    monkey = types.ModuleType("gevent.monkey")
    monkey.is_module_patched = lambda name: name == "threading"  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {"gevent.monkey": monkey}):
        LoopThread()


@row("a producer was not closed, and 2 records are not delivered .2 to orders.", "WARNING")
def a_producer_that_nobody_closes(world: World) -> None:
    async def main() -> None:
        producer = penstock.AsyncProducer(world.address, linger_ms=60_000)
        await producer.send("orders", b"1")
        await producer.send("orders", b"2")

    def left_to_the_collector() -> None:
        asyncio.run(main())
        gc.collect()

    with pytest.warns(ResourceWarning, match="2 to orders"):
        left_to_the_collector()


@row("this producer has no transactions. Give it a transactional_id", UsageError)
def a_transaction_without_an_id(world: World) -> None:
    with penstock.Producer(world.address) as producer, producer.transaction():
        pass
