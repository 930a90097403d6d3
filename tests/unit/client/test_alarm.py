"""An alarm rings by the earliest time that it was set to, on any event loop, also where that time is now."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.runtime.background_loop import CoalescingTimer
from penstock.net.loops import new_loop
from tests.loops import LOOPS
from tests.unit.client import virtual_time


def test_it_rings_once_by_the_earliest_time() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        rung: list[float] = []
        alarm = CoalescingTimer(loop, lambda: rung.append(round(loop.time() - begun, 3)))
        begun = loop.time()
        for delay in (5.0, 2.0, 3.0):
            alarm.call_by(begun + delay)
        await virtual_time.passing(10)
        assert rung == [2.0]
        alarm.call_by(loop.time() + 1)
        alarm.cancel()
        await virtual_time.passing(10)
        assert rung == [2.0]

    virtual_time.run(work())


@pytest.mark.parametrize("loop", LOOPS)
def test_one_that_rings_now_can_be_set_again(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_EVENT_LOOP", loop)

    async def work() -> None:
        running = asyncio.get_running_loop()
        rung = asyncio.Event()
        alarm = CoalescingTimer(running, rung.set)
        alarm.call_by(running.time())
        alarm.call_by(running.time() - 1)
        alarm.call_by(running.time() + 60)
        async with asyncio.timeout(5):
            await rung.wait()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work())
