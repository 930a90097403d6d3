"""PositionLookup: starting points, what the position of a partition is when nobody said so.

The committed offset if there is a group and it has one; otherwise where ``auto_offset_reset`` says; otherwise an error.
Runs beside everything else, so that partitions that have their position are read meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from penstock.client._partitions import Partitions, PartitionState
from penstock.client._surroundings import Backoff
from penstock.client.errors import NoOffset
from penstock.config import ConsumerConfig, OffsetReset
from penstock.config.logs import ClientLog
from penstock.errors import FirstContactTimeout, PenstockError, shown_id
from penstock.model import Committed, Offset, OffsetSpec, Partition
from penstock.seams import FoundOffset, KnowsTopicIds, LogClient

__all__ = ["POLICIES", "PositionLookup"]

POLICIES: Final = {
    OffsetReset.EARLIEST: OffsetSpec(name=Offset.EARLIEST),
    OffsetReset.LATEST: OffsetSpec(name=Offset.LATEST),
    OffsetReset.NONE: None,
}
"""Where ``auto_offset_reset`` says to go on."""

_MOST_SHOWN: Final = 10
"""Partitions that one warning names."""


class _Anew(NamedTuple):
    """A partition whose topic is another one now, and its positions in the two."""

    partition: Partition
    old_id: bytes
    new_id: bytes
    before: int
    after: int


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
        log: ClientLog,
    ) -> None:
        self._client = client
        self._log = log
        self._topic_id = client.topic_id if isinstance(client, KnowsTopicIds) else None
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
                if isinstance(error, FirstContactTimeout) or not error.retriable:
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
        ids = self._ids(asked)
        anew: list[_Anew] = []
        answer: Mapping[Partition, Committed] = await self._client.committed(group, asked) if group else {}
        without: list[Partition] = []
        for state in self._same(asked):
            committed = answer.get(state.partition)
            if committed is not None and committed.offset >= 0:
                self._jump(state, committed.offset, committed.topic_id or ids.get(state.partition.topic), anew)
            elif self._policy is not None:
                state.look_up(self._policy)
            else:
                without.append(state.partition)
        self._tell_recreated(anew, "as its group has committed")
        if without:
            raise _no_offset(without, group)
        return True

    async def _reset(self, states: Sequence[PartitionState]) -> bool:
        asked = {state.partition: state.version for state in states}
        wanted = {state.partition: state.reset for state in states if state.reset is not None}
        if not wanted:
            return False
        answerable = await self._answerable(wanted)
        ids = self._ids(answerable)
        answer: Mapping[Partition, FoundOffset] = await self._client.offsets(answerable)
        progress = False
        anew: list[_Anew] = []
        for state in self._same(asked):
            found = answer.get(state.partition)
            if found is not None and found.offset >= 0:
                self._jump(state, found.offset, ids.get(state.partition.topic), anew)
                progress = True
        self._tell_recreated(anew, f"auto_offset_reset={self._config.auto_offset_reset.value}")
        return progress

    def _jump(self, state: PartitionState, offset: int, topic_id: bytes | None, anew: list[_Anew]) -> None:
        partition, found = state.partition, state.recreated
        left = self._partitions.left.pop(partition, None)
        if found is not None:
            anew.append(_Anew(partition, found.old_id, found.new_id, found.offset or 0, offset))
        elif left is not None and topic_id not in (None, left[0]):
            anew.append(_Anew(partition, left[0], topic_id or b"", left[1], offset))
        state.jump(offset, topic_id)

    def _ids(self, partitions: Iterable[Partition]) -> Mapping[str, bytes | None]:
        """The topics that are asked. As they are known before: if another one has answered, a read finds that out,
        but an offset of an old topic that was taken for one of the new topic would stay unnoticed."""
        if self._topic_id is None:
            return {}
        return {topic: self._topic_id(topic) for topic in {partition.topic for partition in partitions}}

    def _tell_recreated(self, anew: Sequence[_Anew], why: str) -> None:
        """One warning a topic, with the positions of its partitions before and after."""
        for topic, of_topic in groupby(sorted(anew), key=lambda each: each.partition.topic):
            found = list(of_topic)
            moves = [f"partition {each.partition.id} from {each.before} to {each.after}" for each in found]
            more = f" and {len(moves) - _MOST_SHOWN} more" if len(moves) > _MOST_SHOWN else ""
            self._log.warning(
                "topic %s was deleted and created anew (id %s, before %s): what was not read of the old topic is lost;"
                " resetting %s%s (%s)",
                topic,
                shown_id(found[0].new_id),
                shown_id(found[0].old_id),
                ", ".join(moves[:_MOST_SHOWN]),
                more,
                why,
            )

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
