"""Brokers' tables of all groups' offsets, read as a whole: nothing else says of which queues a group has some.

A table is believed for a second, with what was committed here meanwhile put into it. Of a broker that is away the last
one counts: nobody can have committed there since. What must not live here: what a group's name means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import UpstreamLost
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import MAX_FRAME_BYTES
from penstock.protocols.rocketmq.enode.asking import Asking
from penstock.protocols.rocketmq.methods import GET_ALL_CONSUMER_OFFSET
from penstock.seams.locks import Locks
from penstock.seams.runtime import Runtime

__all__ = ["OffsetTables", "Table"]

_BELIEVED_S: Final = 1.0

Table = Mapping[str, Mapping[int, int]]
"""``topic@group`` → queue → offset."""


class OffsetTables:
    """One a node."""

    def __init__(self, asking: Asking, runtime: Runtime) -> None:
        self._asking = asking
        self._runtime = runtime
        self._turns: Locks[str] = Locks(runtime.promise)
        self._known: dict[str, tuple[float, dict[str, dict[int, int]]]] = {}
        self._meanwhile: dict[str, list[tuple[str, int, int]]] = {}

    async def of(self, broker: str) -> Table:
        """Raises UpstreamLost where the broker has never answered."""
        asked_s = self._runtime.monotonic()
        async with self._turns.held(broker):
            known = self._known.get(broker)
            if known is not None and asked_s - known[0] < _BELIEVED_S:
                return known[1]
            try:
                return await self._read(broker)
            except UpstreamLost:
                if known is None:
                    raise
                return known[1]

    def note(self, broker: str, key: str, queue: int, offset: int) -> None:
        """The broker has acknowledged this."""
        if broker in self._meanwhile:
            self._meanwhile[broker].append((key, queue, offset))
        if broker in self._known:
            self._known[broker][1].setdefault(key, {})[queue] = offset

    def forget(self, broker: str) -> None:
        """It has changed in a way that is not told here."""
        if broker in self._known:
            self._known[broker] = (float("-inf"), self._known[broker][1])

    async def _read(self, broker: str) -> Table:
        at_s = self._runtime.monotonic()
        self._meanwhile[broker] = []
        try:
            answer = await self._asking.broker(broker, GET_ALL_CONSUMER_OFFSET, m.NoFields(), standby=True)
            said = m.read_body(m.ConsumerOffsets, answer.body, max_bytes=MAX_FRAME_BYTES).offset_table
        finally:
            meanwhile = self._meanwhile.pop(broker)
        table = {key: dict(offsets) for key, offsets in said.items()}
        for key, queue, offset in meanwhile:
            table.setdefault(key, {})[queue] = offset
        self._known[broker] = (at_s, table)
        return table
