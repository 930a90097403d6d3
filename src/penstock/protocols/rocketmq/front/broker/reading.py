"""Reading for pulls: from where, how many, for whom, and where the next pull begins.

A pull takes 32 messages, a piece of the log may hold thousands, in one batch. So what is left of a piece after a pull
stays open for the pull that begins there: looking for the place in it anew each time would cost more than the messages.
What is compressed is inflated beside the event loop. What must not live here: holding, answers.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.columnar.batch import batches
from penstock.columnar.plain_records import MAX_INFLATED_BYTES, Stored, stored_records
from penstock.model import Codec, Partition
from penstock.protocols.rocketmq.front.broker.filters import Wanted
from penstock.protocols.rocketmq.front.broker.messages import Dress
from penstock.seams.beside import Beside
from penstock.seams.enode import Enode, Extent, FetchPart, TopicState, extent, fetch_one
from penstock.seams.framing import Buffer

__all__ = ["Limits", "Piece", "Reader"]

_PIECE_BYTES: Final = 256 << 10
_MOST_OPEN: Final = 256
_MOST_OPEN_BYTES: Final = 32 << 20
_RATIO: Final = 32
"""What a compressed batch is expected to inflate to at most: text rarely shrinks to less than a thirtieth."""


class Limits(NamedTuple):
    """Of one answer; a message that is larger than ``size`` goes alone. ``examined`` counts those left out, too."""

    messages: int
    size: int
    examined: int


@dataclass(slots=True)
class Piece:
    """What a pull brings: messages one behind the other, where the next pull begins, and where the queue stood.

    ``end`` is where transactions that are open begin, if there are any: nobody is given what comes later. ``log_end``
    is the end of the log itself.
    """

    messages: list[bytes]
    next_offset: int
    start: int
    end: int
    log_end: int


class _Open(NamedTuple):
    records: Iterator[Stored]
    next_offset: int
    size: int


class Reader:
    """One a front. Open pieces are bounded, in number and bytes."""

    def __init__(self, enode: Enode, beside: Beside) -> None:
        self._enode = enode
        self._beside = beside
        self._open: OrderedDict[tuple[bytes, int, int], _Open] = OrderedDict()
        self._open_bytes = 0

    async def read(
        self, topic: TopicState, partition: Partition, offset: int, dress: Dress, wanted: Wanted | None, limits: Limits
    ) -> Piece:
        """From ``offset`` on. Raises LogOffsetOutOfRange, StoreError, CorruptBatch."""
        opened = self._take(topic, partition, offset)
        if opened is None:
            found = await fetch_one(self._enode, FetchPart(partition, offset, _PIECE_BYTES, stable=True))
            where = Extent(found.start, found.end, found.stable, found.epoch)
            if not len(found.data):
                return _nothing(max(offset, found.next_offset) if found.next_offset <= found.stable else offset, where)
            opened = await self._opened(found.read(), found.aborted, offset, found.next_offset)
        else:
            where = await extent(self._enode, partition)
        return self._taken(topic, partition, opened, offset, where, dress, wanted, limits)

    def _taken(
        self,
        topic: TopicState,
        partition: Partition,
        opened: _Open,
        offset: int,
        where: Extent,
        dress: Dress,
        wanted: Wanted | None,
        limits: Limits,
    ) -> Piece:
        piece = _nothing(offset, where)
        size = 0
        for examined, record in enumerate(opened.records, 1):
            message = dress.stored(record) if wanted is None or wanted(record) else None
            if message is not None and piece.messages and size + len(message) > limits.size:
                self._put(
                    topic, partition, piece.next_offset, opened._replace(records=chain((record,), opened.records))
                )
                return piece
            piece.next_offset = record.offset + 1
            if message is not None:
                piece.messages.append(message)
                size += len(message)
            if len(piece.messages) >= limits.messages or examined >= limits.examined:
                self._put(topic, partition, piece.next_offset, opened)
                return piece
        piece.next_offset = opened.next_offset
        return piece

    async def _opened(self, data: Buffer, aborted: object, offset: int, next_offset: int) -> _Open:
        records = partial(stored_records, data, offset, aborted)  # type: ignore[arg-type]
        packed = sum(header.length for header in batches(data) if header.codec is not Codec.NONE)
        if not packed:
            return _Open(records(), next_offset, len(data))
        every = await self._beside.run(lambda: list(records()), min(MAX_INFLATED_BYTES, _RATIO * packed))
        return _Open(iter(every), next_offset, sum(sys.getsizeof(record.value) for record in every))

    # What is open.

    def _take(self, topic: TopicState, partition: Partition, offset: int) -> _Open | None:
        opened = self._open.pop((topic.id, partition.id, offset), None)
        if opened is not None:
            self._open_bytes -= opened.size
        return opened

    def _put(self, topic: TopicState, partition: Partition, offset: int, opened: _Open) -> None:
        self._take(topic, partition, offset)
        self._open[topic.id, partition.id, offset] = opened
        self._open_bytes += opened.size
        while self._open and (len(self._open) > _MOST_OPEN or self._open_bytes > _MOST_OPEN_BYTES):
            _, oldest = self._open.popitem(last=False)
            self._open_bytes -= oldest.size


def _nothing(offset: int, where: Extent) -> Piece:
    return Piece([], offset, where.start, where.stable, where.end)
