"""A server that is away: when the log hears of it, and what."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.connecting import _a_call, _transport, _tried_until
from penstock.config import ConsumerConfig, ProducerConfig
from penstock.errors import ConnectionLost
from penstock.interfaces.channel import Link
from penstock.model import Endpoint
from penstock.net import blocking_channel
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.blocking_channel import BlockingChannel, BlockingConnection, run
from penstock.net.connecting import Silence, Stop, TransportOptions, UnreachableNodeLog
from penstock.net.network import MemoryNetwork
from penstock.net.server import serve
from penstock.protocols.kafka.client.connection import KafkaDialect, KafkaOptions
from tests.unit.client import virtual_time
from tests.unit.net.toy import ToyDialect, ToyFront, ask, encode

NOWHERE = Endpoint("nowhere", 9)
OPTIONS = TransportOptions(tried_until="a call gives up after api_timeout_ms=60000")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.connection"]


def test_it_is_told_after_five_seconds_every_thirty_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    away = UnreachableNodeLog("tried for ever")
    with caplog.at_level(logging.INFO, "penstock.connection"):
        for second in range(70):
            away.failed(NOWHERE, second, second + 0.5, "cannot connect: refused")
        away.answered(NOWHERE, 71.0)
        away.answered(NOWHERE, 72.0)
    assert said(caplog) == [
        *(f"node nowhere:9 is away for {n} s: cannot connect: refused; tried for ever" for n in (6, 36, 66)),
        "node nowhere:9 is back after 71 s",
    ]


def test_each_line_says_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    away = UnreachableNodeLog(whose=_transport(ConsumerConfig(client_id="orders", group="50%")).whose)
    with caplog.at_level(logging.INFO, "penstock.connection"):
        away.failed(NOWHERE, 0.0, 10.0, "refused")
        away.answered(NOWHERE, 11.0)
        away.silent(NOWHERE, 12.0, 18.0)
        away.spoke(NOWHERE, 19.0)
    assert said(caplog) == [
        "[client orders, group 50%] node nowhere:9 is away for 10 s: refused",
        "[client orders, group 50%] node nowhere:9 is back after 11 s",
        "[client orders, group 50%] node nowhere:9 has not answered for 6 s",
        "[client orders, group 50%] node nowhere:9 answers again after 7 s",
    ]


def test_a_moment_and_an_attempt_of_long_ago_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    away = UnreachableNodeLog()
    with caplog.at_level(logging.INFO, "penstock.connection"):
        away.failed(NOWHERE, 0.0, 1.0, "x")
        away.failed(NOWHERE, 500.0, 500.1, "x")
        away.answered(NOWHERE, 501.0)
    assert said(caplog) == []


def test_one_long_attempt_is_told_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    away = UnreachableNodeLog()
    with caplog.at_level(logging.INFO, "penstock.connection"):
        away.failed(NOWHERE, 0.0, 10.0, "not ready within 10 s")
    assert said(caplog) == ["node nowhere:9 is away for 10 s: not ready within 10 s"]


def test_a_client_over_an_event_loop_tells_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        channel = AsyncioChannel(KafkaDialect(KafkaOptions()), network=MemoryNetwork(), options=OPTIONS)
        loop = asyncio.get_running_loop()
        while loop.time() < 40:
            with pytest.raises(ConnectionLost) as caught:
                await channel.link(NOWHERE)
            assert caught.value.__cause__ is None
        await channel.close()

    with caplog.at_level(logging.WARNING, "penstock.connection"):
        virtual_time.run(main())
    first, second = said(caplog)
    assert re.match("node nowhere:9 is away for [56] s: cannot connect: ", first)
    assert re.match("node nowhere:9 is away for 3[5-8] s: cannot connect: ", second)
    assert second.endswith("; a call gives up after api_timeout_ms=60000")


def test_a_client_over_blocking_sockets_tells_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = Endpoint("127.0.0.1", taken.getsockname()[1])
    channel = BlockingChannel(KafkaDialect(KafkaOptions()), options=OPTIONS)
    clock = iter(range(1_000))
    monkeypatch.setattr(blocking_channel, "_clock", SimpleNamespace(monotonic=lambda: float(next(clock))))
    with caplog.at_level(logging.WARNING, "penstock.connection"):
        for _ in range(3):
            with pytest.raises(ConnectionLost) as caught:
                run(channel.link(free))
            assert caught.value.__cause__ is None
    assert said(caplog)
    assert "Connection refused; a call gives up after api_timeout_ms=60000" in said(caplog)[0]


def test_each_client_names_the_option_that_bounds_it() -> None:
    assert "a record waits for delivery_timeout_ms=120000 (first_contact_timeout_ms" in _tried_until(ProducerConfig())
    assert "as long as this client reads" in _tried_until(ConsumerConfig())
    assert "api_timeout_ms=60000 (first_contact_timeout_ms=10000" in _a_call(ConsumerConfig())


@asynccontextmanager
async def asking(front: ToyFront) -> AsyncIterator[tuple[Link[str], Endpoint]]:
    network = MemoryNetwork()
    listener = await serve(front, Endpoint("127.0.0.1", 0), network=network)
    channel = AsyncioChannel(ToyDialect(), network=network, options=OPTIONS)
    try:
        yield await channel.link(listener.endpoint), listener.endpoint
    finally:
        await channel.close()
        front.gate.set()
        await listener.close()


def test_a_server_that_is_silent_on_an_open_connection_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> Endpoint:
        front = ToyFront()
        async with asking(front) as (link, endpoint):
            parked = link.connection.start(ask(b"park"), timeout_s=600)
            await virtual_time.passing(4)
            link.connection.start(ask(b"another"), timeout_s=600)  # asking again is no answer
            await virtual_time.passing(66)
            front.gate.set()
            await parked.reply()
            await link.connection.call(ask(b"hello"), timeout_s=5)
            await virtual_time.passing(600)
        return endpoint

    with caplog.at_level(logging.WARNING, "penstock.connection"):
        node = virtual_time.run(main())
    assert said(caplog) == [
        *(f"node {node} has not answered for {n} s; {OPTIONS.tried_until}" for n in (5, 35, 65)),
        f"node {node} answers again after 70 s",
    ]


def test_what_is_meant_to_take_long_is_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        front = ToyFront()
        async with asking(front) as (link, _):
            parked = link.connection.start(ask(b"park"), timeout_s=600, held_s=60)
            await virtual_time.passing(64)
            assert said(caplog) == []
            await virtual_time.passing(2)
            assert len(said(caplog)) == 1
            front.gate.set()
            await parked.reply()

    with caplog.at_level(logging.WARNING, "penstock.connection"):
        virtual_time.run(main())
    assert "has not answered for 5 s" in said(caplog)[0]
    assert len(said(caplog)) == 2


def test_several_connections_that_are_silent_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    away = UnreachableNodeLog()
    first, second = Silence(NOWHERE, away), Silence(NOWHERE, away)
    with caplog.at_level(logging.WARNING, "penstock.connection"):
        for each in (first, second):
            each.asked(0.0, 0.0, owed=False)
        for each in (first, second, first, second):
            each.look(5.0)
        away.failed(NOWHERE, 10.0, 20.0, "not ready within 10 s")
        away.failed(NOWHERE, 30.0, 40.0, "not ready within 10 s")
        first.heard(41.0)
        second.heard(41.0)
    assert said(caplog) == [
        "node nowhere:9 has not answered for 5 s",
        "node nowhere:9 is away for 40 s: not ready within 10 s",
        "node nowhere:9 answers again after 41 s",
    ]


def test_a_silent_server_is_told_over_blocking_sockets(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    now = 0.0

    class Passing:
        """Each wait for bytes takes the time that it may; then they are there."""

        def __getattr__(self, name: str) -> Any:
            return getattr(ours, name)

        def recv_into(self, into: memoryview) -> int:
            nonlocal now
            waited = ours.gettimeout() or 0.0
            if now < 40:
                now += waited
                raise TimeoutError
            return ours.recv_into(into)

    monkeypatch.setattr(blocking_channel, "_clock", SimpleNamespace(monotonic=lambda: now))
    connection = BlockingConnection(NOWHERE, Passing(), ToyDialect(), UnreachableNodeLog(), Stop())  # type: ignore[arg-type]
    theirs.sendall(b"".join(encode(1, b"late", reply=True)))
    with ours, theirs, caplog.at_level(logging.WARNING, "penstock.connection"):
        assert bytes(run(connection.call(ask(b"x"), timeout_s=100)).body) == b"late"
    assert said(caplog) == [
        *(f"node nowhere:9 has not answered for {n} s" for n in (5, 35)),
        "node nowhere:9 answers again after 40 s",
    ]
