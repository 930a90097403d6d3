"""PositionLookup: starting points, what the position of a partition is when nobody said so.

The committed offset if there is a group and it has one; otherwise where ``auto_offset_reset`` says; otherwise an error.
Runs beside everything else, so that partitions that have their position are read meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from penstock.client._partitions import Partitions, PartitionState
from penstock.client._surroundings import Backoff
from penstock.client.errors import NoOffset
from penstock.config import ConsumerConfig, OffsetReset
from penstock.errors import PenstockError
from penstock.model import Committed, Offset, OffsetSpec, Partition
from penstock.seams import FoundOffset, LogClient

__all__ = ["POLICIES", "PositionLookup"]

POLICIES: Final = {
    OffsetReset.EARLIEST: OffsetSpec(name=Offset.EARLIEST),
    OffsetReset.LATEST: OffsetSpec(name=Offset.LATEST),
    OffsetReset.NONE: None,
}
"""Where ``auto_offset_reset`` says to go on."""


class PositionLookup:
    """Finds out positions. ``found`` is called when some are known, ``failed`` with what the next poll shall raise."""

    def __init__(
        self,
        client: LogClient,
        config: ConsumerConfig,
        partitions: Partitions,
        backoff: Backoff,
        policy: OffsetSpec | None,
        found: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._client = client
        self._config = config
        self._partitions = partitions
        self._backoff = backoff
        self._policy = policy
        self._found = found
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def kick(self) -> None:
        """Look up what is unknown, if anything is and no look-up is under way."""
        if self._task is None and any(state.position is None for state in self._partitions):
            self._task = self._loop.create_task(self._look_up(), name="penstock positions")
            self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop looking up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def _look_up(self) -> None:
        failures = 0
        while unknown := [state for state in self._partitions if state.position is None]:
            try:
                progress = await self._committed([state for state in unknown if state.reset is None])
                progress |= await self._reset([state for state in unknown if state.reset is not None])
            except PenstockError as error:
                if not error.retriable:
                    raise
                progress = False
            if progress:
                failures = 0
                self._found()
            else:
                failures += 1
                await asyncio.sleep(self._backoff.seconds(failures))

    async def _committed(self, states: Sequence[PartitionState]) -> bool:
        if not states:
            return False
        group = self._config.group
        asked = {state.partition: state.version for state in states}
        answer: Mapping[Partition, Committed] = await self._client.committed(group, asked) if group else {}
        without: list[Partition] = []
        for state in self._same(asked):
            committed = answer.get(state.partition)
            if committed is not None and committed.offset >= 0:
                state.jump(committed.offset)
            elif self._policy is not None:
                state.look_up(self._policy)
            else:
                without.append(state.partition)
        if without:
            raise _no_offset(without, group)
        return True

    async def _reset(self, states: Sequence[PartitionState]) -> bool:
        asked = {state.partition: state.version for state in states}
        wanted = {state.partition: state.reset for state in states if state.reset is not None}
        if not wanted:
            return False
        answer: Mapping[Partition, FoundOffset] = await self._client.offsets(await self._answerable(wanted))
        progress = False
        for state in self._same(asked):
            found = answer.get(state.partition)
            if found is not None and found.offset >= 0:
                state.jump(found.offset)
                progress = True
        return progress

    async def _answerable(self, wanted: Mapping[Partition, OffsetSpec]) -> Mapping[Partition, OffsetSpec]:
        """Those with a leader, if there are any: the others' would be waited for, and hold these up."""
        if not all(map(self._client.leader, wanted)):
            await self._client.topics({partition.topic for partition in wanted})
        led = {partition: spec for partition, spec in wanted.items() if self._client.leader(partition)}
        return led or wanted

    def _same(self, asked: Mapping[Partition, int]) -> list[PartitionState]:
        """Those of ``asked`` that nobody has given up or sent elsewhere since."""
        states = [state for partition in asked if (state := self._partitions.get(partition)) is not None]
        return [state for state in states if state.position is None and state.version == asked[state.partition]]


def _no_offset(partitions: Sequence[Partition], group: str | None) -> NoOffset:
    names = ", ".join(sorted(map(str, partitions)))
    whose = f"group {group} has no committed offset of {names}" if group else f"nothing says where to start in {names}"
    return NoOffset(
        f"{whose}, and auto_offset_reset is none",
        topic=partitions[0].topic,
        partition=partitions[0].id,
        hint="Call seek(), commit an offset, or set auto_offset_reset to earliest or latest",
    )
