"""What a group was is not written behind what it has become, however late a lost write is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import UpstreamLost
from penstock.net.runtime import AsyncioRuntime
from penstock.protocols.kafka.groups.classic_group import Group, GroupSettings
from penstock.protocols.kafka.server.group_service import GroupService


class Slow:
    """A log whose first write of a group is lost, and may be tried again once others have been made."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.lost = asyncio.Event()
        self.others_are_there = asyncio.Event()

    async def save_group(self, group: str, record: bytes, look: Callable[[], None]) -> None:
        del group
        look()
        if record == b"first" and not self.lost.is_set():
            self.lost.set()
            await self.others_are_there.wait()
            raise UpstreamLost("its answer got lost")
        self.written.append(record)


class Nothing:
    """No groups of the newer protocol."""

    def coexist_with(self, older: object) -> None:
        """Nobody goes over."""

    async def save(self, group: str) -> None:
        """There is nothing to write."""


@pytest.mark.parametrize("others", [1, 2])
def test_a_lost_write_is_not_tried_again_behind_later_ones(others: int) -> None:
    async def work() -> None:
        failures: list[BaseException] = []
        runtime = AsyncioRuntime(failures.append)
        offsets: Any = Slow()
        newer: Any = Nothing()
        keeper = GroupService(GroupSettings(), newer, offsets, runtime)
        group = Group("g")
        keeper.coordinator.group = lambda _: group  # type: ignore[method-assign]
        keeper.store("g", b"first", None)
        await offsets.lost.wait()
        for number in range(others):
            keeper.store("g", b"later %d" % number, None)
            await runtime.sleep(0.01)
        offsets.others_are_there.set()
        await runtime.sleep(0.2)
        await runtime.stop()
        assert offsets.written == [b"later %d" % number for number in range(others)]
        assert not failures

    asyncio.run(work())
