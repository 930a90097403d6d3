"""An alarm rings when something is due, and a deadline that moves away moves no timer."""

from __future__ import annotations

import asyncio

import pytest

from penstock.concurrency.runtime import Deadlines
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.kafka.server.consumer_group_service import CoordinatorTimer
from tests.unit.distances import in_virtual_time


class Counted(AsyncioRuntime):
    """Counts timers."""

    timers = 0

    def call_later(self, delay_s: float, callback: object) -> asyncio.Handle:
        self.timers += 1
        return super().call_later(delay_s, callback)  # type: ignore[arg-type]


async def _beats(beats: int) -> tuple[list[tuple[float, list[str]]], int]:
    """A session of 10 s that is renewed each second, and one of 25 s that is not: what was due when, and timers."""
    runtime = Counted()
    began = runtime.monotonic()
    deadlines = Deadlines[str]()
    rung: list[tuple[float, list[str]]] = []

    def ring() -> None:
        now = runtime.monotonic()
        if due := list(deadlines.due(now)):
            rung.append((round(now - began, 3), due))

    alarm = CoordinatorTimer(runtime, deadlines.not_before, ring)
    deadlines.set("still", began + 25)
    alarm.wake()
    for _ in range(beats):
        deadlines.set("beats", runtime.monotonic() + 10)
        alarm.wake()
        await runtime.sleep(1)
    await runtime.sleep(60)
    return rung, runtime.timers


@pytest.mark.parametrize("beats", [1, 5, 40])
def test_what_is_due_is_found_when_it_is_due_though_most_moves_set_no_timer(beats: int) -> None:
    rung, timers = in_virtual_time(_beats(beats))
    assert rung == sorted([(25.0, ["still"]), (beats - 1 + 10.0, ["beats"])])
    assert timers <= 4 + beats // 5


def test_an_alarm_is_moved_to_what_is_due_earlier_and_stops() -> None:
    async def test() -> list[float]:
        runtime = AsyncioRuntime()
        began = runtime.monotonic()
        rung: list[float] = []
        due: list[float | None] = [began + 5]
        alarm = CoordinatorTimer(
            runtime, lambda: due[0], lambda: (rung.append(round(runtime.monotonic() - began, 3)), due.pop(0))[0]
        )
        alarm.wake()
        due.insert(0, began + 1)
        alarm.wake()
        await runtime.sleep(2)
        due[0] = None
        alarm.wake()
        await runtime.sleep(10)
        return rung

    assert in_virtual_time(test()) == [1.0]
