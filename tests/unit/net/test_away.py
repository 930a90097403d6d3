"""A server that is away: when the log hears of it, and what."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from types import SimpleNamespace

import pytest

from penstock.client._connect import _a_call, _tried_until
from penstock.config import ConsumerConfig, ProducerConfig
from penstock.errors import ConnectionLost
from penstock.model import Endpoint
from penstock.net import blocking_channel
from penstock.net._away import Away
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.net.memory import MemoryNetwork
from penstock.net.options import TransportOptions
from penstock.protocols.kafka.client import KafkaOptions
from penstock.protocols.kafka.client.dialect import KafkaDialect
from tests.unit.client import virtual_time

NOWHERE = Endpoint("nowhere", 9)
OPTIONS = TransportOptions(tried_until="a call gives up after api_timeout_ms=60000")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.net"]


def test_it_is_told_after_five_seconds_every_thirty_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    away = Away("tried for ever")
    with caplog.at_level(logging.INFO, "penstock.net"):
        for second in range(70):
            away.failed(NOWHERE, second, second + 0.5, "cannot connect: refused")
        away.answered(NOWHERE, 71.0)
        away.answered(NOWHERE, 72.0)
    assert said(caplog) == [
        *(f"node nowhere:9 is away for {n} s: cannot connect: refused; tried for ever" for n in (6, 36, 66)),
        "node nowhere:9 is back after 71 s",
    ]


def test_a_moment_and_an_attempt_of_long_ago_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    away = Away()
    with caplog.at_level(logging.INFO, "penstock.net"):
        away.failed(NOWHERE, 0.0, 1.0, "x")
        away.failed(NOWHERE, 500.0, 500.1, "x")
        away.answered(NOWHERE, 501.0)
    assert said(caplog) == []


def test_one_long_attempt_is_told_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    away = Away()
    with caplog.at_level(logging.INFO, "penstock.net"):
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

    with caplog.at_level(logging.WARNING, "penstock.net"):
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
    passing = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda seconds: None)
    monkeypatch.setattr(blocking_channel, "time", passing)
    with caplog.at_level(logging.WARNING, "penstock.net"):
        for _ in range(3):
            with pytest.raises(ConnectionLost) as caught:
                run(channel.link(free))
            assert caught.value.__cause__ is None
    assert said(caplog)
    assert "Connection refused; a call gives up after api_timeout_ms=60000" in said(caplog)[0]


def test_each_client_names_the_option_that_bounds_it() -> None:
    assert _tried_until(ProducerConfig()) == "a record waits for delivery_timeout_ms=120000"
    assert "as long as this client reads" in _tried_until(ConsumerConfig())
    assert "api_timeout_ms=60000 (first_contact_timeout_ms=10000" in _a_call(ConsumerConfig())
