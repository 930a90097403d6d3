"""The node's clock stands still while the node cannot serve: a held loop expires nobody whose words lie in a socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.model import Endpoint
from penstock.net.connecting import ListenerOptions
from penstock.net.flow_control import Budget
from penstock.net.network import MemoryNetwork
from penstock.net.runtime import AsyncioRuntime
from penstock.net.server import serve
from tests.unit.client.virtual_time import VirtualLoop, passing
from tests.unit.net.toy import ToyFront

_STEP_S = 0.5
"""What a time away counts for at most."""


def go(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


def held(seconds: float) -> None:
    """One piece of work takes so long, or the process is stopped: nothing else is done meanwhile."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.now += seconds


@pytest.mark.parametrize("away_s", [2.0, 30.0, 86_400.0])
def test_time_away_is_not_counted_and_the_clock_never_goes_back(away_s: float) -> None:
    async def test() -> None:
        runtime = AsyncioRuntime()
        loop = asyncio.get_running_loop()
        await passing(10)
        assert runtime.monotonic() == pytest.approx(10)
        held(away_s)
        seen = [runtime.monotonic()]
        for _ in range(40):
            await passing(0.05)
            seen.append(runtime.monotonic())
        assert seen == sorted(seen)
        assert 12 <= runtime.monotonic() <= 12 + _STEP_S
        assert runtime.clock.away_s == pytest.approx(away_s, abs=_STEP_S)
        assert loop.time() == pytest.approx(12 + away_s)
        await runtime.stop()

    go(test())


def test_a_busy_loop_is_not_away() -> None:
    async def test() -> None:
        runtime = AsyncioRuntime()
        for _ in range(100):
            held(0.2)
            await passing(0.01)
        assert runtime.monotonic() == pytest.approx(21)
        await runtime.stop()

    go(test())


def test_a_timer_waits_for_as_long_as_the_node_was_away() -> None:
    async def test() -> None:
        runtime = AsyncioRuntime()
        loop = asyncio.get_running_loop()
        rung: list[float] = []
        runtime.call_later(6, lambda: rung.append(loop.time()))
        cancelled = runtime.call_later(6, lambda: rung.append(-1))
        await passing(1)
        held(60)
        await passing(1)
        assert not rung
        cancelled.cancel()
        await passing(10)
        assert rung == [pytest.approx(66, abs=_STEP_S)]
        assert rung[0] >= 66 - _STEP_S
        await runtime.stop()

    go(test())


def test_a_heartbeat_that_lay_in_the_socket_is_read_before_its_session_is_judged() -> None:
    """Also where a loop looks at timers first, as uvloop does."""

    async def test() -> None:
        runtime = AsyncioRuntime()
        heard, expired = runtime.monotonic(), False

        def judge() -> None:
            nonlocal expired
            left = heard + 6 - runtime.monotonic()
            if left > 0.002:
                runtime.call_later(left, judge)
            else:
                expired = True

        judge()
        for _ in range(20):
            held(10)
            await passing(0.01)  # the timers that came due meanwhile are looked at
            heard = runtime.monotonic()
            await passing(2)
            assert not expired
        await passing(6.1)
        assert expired
        await runtime.stop()

    go(test())


def test_a_long_time_away_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        runtime = AsyncioRuntime()
        held(1.5)
        await passing(1)
        assert not caplog.records
        held(20)
        await passing(1)
        await runtime.stop()

    with caplog.at_level(logging.WARNING, "penstock.node"):
        go(test())
    (told,) = caplog.messages
    assert "the node did not serve for 19.5 s" in told


def test_clients_are_not_closed_as_idle_for_the_time_that_the_node_was_away() -> None:
    async def test() -> None:
        network = MemoryNetwork()
        runtime = AsyncioRuntime()
        options = ListenerOptions(idle_timeout_s=600)
        listener = await serve(
            ToyFront(), Endpoint("127.0.0.1", 0), options=options, network=network, clock=runtime.clock
        )

        class Client(asyncio.BufferedProtocol):
            def get_buffer(self, sizehint: int) -> bytearray:
                return bytearray(max(sizehint, 64))

            def buffer_updated(self, nbytes: int) -> None:
                del nbytes

        await network.connect(Client, listener.endpoint)
        held(7_200)
        await passing(300)
        assert listener.connections == 1
        await passing(400)
        assert listener.connections == 0
        await listener.close()
        await runtime.stop()

    go(test())


class _Reader:
    """Holds much, and reads on as soon as the node serves again."""

    def __init__(self, now: AsyncioRuntime) -> None:
        self.progressed = now.monotonic()
        self.cut = False

    def weigh(self) -> None:
        """It holds the same."""

    def budget_changed(self) -> None:
        """It waits."""

    def cut_off(self) -> None:
        self.cut = True


def test_who_could_not_read_on_while_the_node_was_away_is_not_hung_up_on() -> None:
    async def test() -> None:
        runtime = AsyncioRuntime()
        budget = Budget(1 << 20)
        budget.now = runtime.monotonic
        reader = _Reader(runtime)
        budget.hold(reader, 2 << 20)
        held(30)
        await passing(0.2)
        assert not reader.cut
        await passing(2)
        assert reader.cut
        await runtime.stop()

    go(test())


def test_no_address_has_all_connections() -> None:
    async def test() -> None:
        network = MemoryNetwork()
        options = ListenerOptions(max_connections=400)
        listener = await serve(ToyFront(), Endpoint("127.0.0.1", 0), options=options, network=network)
        clients: list[asyncio.BaseTransport] = []

        class Client(asyncio.BufferedProtocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                clients.append(transport)

            def get_buffer(self, sizehint: int) -> bytearray:
                return bytearray(max(sizehint, 64))

            def buffer_updated(self, nbytes: int) -> None:
                del nbytes

        for _ in range(210):
            await network.connect(Client, listener.endpoint)
        assert (listener.connections, listener.refused) == (200, 10)
        clients[0].close()
        await passing(1)
        await network.connect(Client, listener.endpoint)
        assert (listener.connections, listener.refused) == (200, 10)
        await listener.close()

    go(test())
