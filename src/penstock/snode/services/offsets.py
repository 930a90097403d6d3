"""Committed offsets and groups' own records, for all fronts: a table in memory over an internal topic in the log.

A commit is a batch in that topic; it is answered when the batch is as durable as any acknowledged record, and the
table is read back from the topic at start, last record wins. The topic is not left to grow: when a partition of it
holds many more records than are still true, the true ones are written once more and everything before them is deleted.
What must not live here: who may commit, and the format, which a protocol's codec knows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from penstock.errors import PenstockError
from penstock.groups.committed import CommittedTable
from penstock.groups.undecided import Undecided, Wanted
from penstock.model import Committed, Partition
from penstock.seams.enode import Appended, Enode, FetchPart, TopicState, extent, fetch_one
from penstock.seams.locks import Locks
from penstock.seams.offsets import Ended, Entry, OffsetsCodec, Replayed
from penstock.seams.runtime import Promise, Runtime

__all__ = ["OffsetsService"]

_log = logging.getLogger("penstock.node")
_READ_BYTES = 1 << 20
_ENTRIES_PER_BATCH = 500


class OffsetsService:
    """``penstock.seams.node.Offsets``. ``partitions`` of the internal topic are chosen when it is made, and stay.

    ``rewrite_after``: records a partition may hold beside those still true, before it is rewritten.
    """

    def __init__(
        self, enode: Enode, codec: OffsetsCodec, runtime: Runtime, *, partitions: int, rewrite_after: int = 10_000
    ) -> None:
        self._enode = enode
        self._codec = codec
        self._runtime = runtime
        self._partitions = partitions
        self._rewrite_after = rewrite_after
        self._table = CommittedTable()
        self._undecided = Undecided()
        self._records: dict[str, bytes] = {}
        self._writing: dict[int, int] = {}
        self._idle: dict[int, Promise[None]] = {}
        self._gates: dict[int, Promise[None]] = {}
        self._topic: TopicState | None = None
        self._making: Locks[str] = Locks(runtime.promise)

    @property
    def topic(self) -> str:
        """The internal topic's name."""
        return self._codec.topic

    async def load(self) -> None:
        """Read everything back. Raises CorruptBatch, ProtocolViolation, StoreError: nothing is forgotten in silence."""
        topic = self._topic = await self._enode.topic(self._codec.topic)
        for number in range(topic.partitions if topic else 0):
            partition = Partition(self._codec.topic, number)
            start, end, _, _ = await extent(self._enode, partition)
            while start < end:
                found = await fetch_one(self._enode, FetchPart(partition, start, _READ_BYTES))
                for replayed in self._codec.replay(found.read()):
                    self._apply(number, replayed)
                start = found.next_offset

    def _apply(self, number: int, replayed: Replayed | Ended) -> None:
        if isinstance(replayed, Ended):
            self._decide(number, replayed.producer_id, commit=replayed.commit)
        elif replayed.producer_id >= 0:
            if replayed.partition is not None and replayed.committed is not None:
                wanted = Wanted(replayed.group, replayed.partition, replayed.committed, replayed.position)
                self._undecided.add(number, replayed.producer_id, wanted)
        elif replayed.partition is not None:
            self._table.set(replayed.group, replayed.partition, replayed.committed, position=replayed.position)
        elif replayed.record is not None:
            self._records[replayed.group] = replayed.record
        else:
            self._records.pop(replayed.group, None)

    # What fronts call.

    def groups(self) -> Sequence[str]:
        return self._table.groups()

    def committed(self, group: str) -> Mapping[Partition, Committed]:
        return self._table.of(group)

    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None:
        """Raises StoreError; then nothing, or only a first part, is committed."""
        rows = list(offsets.items())
        for at in range(0, len(rows), _ENTRIES_PER_BATCH):
            part = rows[at : at + _ENTRIES_PER_BATCH]
            appended = await self._append(group, [self._codec.offset_entry(group, *row) for row in part])
            for position, (partition, committed) in enumerate(part, appended.base_offset):
                self._table.set(group, partition, committed, position=position)

    async def forget(self, group: str, partitions: Collection[Partition]) -> None:
        """Take offsets away. Raises StoreError."""
        known = [partition for partition in partitions if partition in self._table.of(group)]
        for at in range(0, len(known), _ENTRIES_PER_BATCH):
            part = known[at : at + _ENTRIES_PER_BATCH]
            appended = await self._append(group, [self._codec.offset_entry(group, one, None) for one in part])
            for position, partition in enumerate(part, appended.base_offset):
                self._table.set(group, partition, None, position=position)

    async def save_group(self, group: str, record: bytes | None) -> None:
        if record is None and group not in self._records:
            return
        await self._append(group, [self._codec.group_entry(group, record)])
        if record is None:
            self._records.pop(group, None)
        else:
            self._records[group] = record

    def saved_groups(self) -> Mapping[str, bytes]:
        return self._records

    # Within transactions.

    async def place_of(self, group: str) -> Partition:
        topic = await self.ensure_topic()
        return Partition(topic.name, self._codec.partition_of(group, topic.partitions))

    async def commit_within(
        self, group: str, offsets: Mapping[Partition, Committed], producer_id: int, epoch: int
    ) -> None:
        """Raises StoreError; the transaction can then only be aborted."""
        place = await self.place_of(group)
        rows = list(offsets.items())
        for at in range(0, len(rows), _ENTRIES_PER_BATCH):
            part = rows[at : at + _ENTRIES_PER_BATCH]
            entries = [self._codec.offset_entry(group, *row) for row in part]
            batch = self._codec.batch(entries, self._runtime.now_ms(), producer_id, epoch)
            appended = await self._append_to(place.id, batch)
            for position, (partition, committed) in enumerate(part, appended.base_offset):
                self._undecided.add(place.id, producer_id, Wanted(group, partition, committed, position))

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Raises StoreError; nothing is decided then."""
        await self._append_to(place.id, marker)
        self._decide(place.id, producer_id, commit=commit)

    def undecided(self, group: str) -> Collection[Partition]:
        return self._undecided.of(group)

    def _decide(self, number: int, producer_id: int, *, commit: bool) -> None:
        for wanted in self._undecided.end(number, producer_id):
            if commit:
                # At the position of the commit, not of the marker: a commit outside that came between stays.
                self._table.set(wanted.group, wanted.partition, wanted.committed, position=wanted.position)

    async def ensure_topic(self) -> TopicState:
        """The internal topic, made when it is first needed."""
        if self._topic is not None:
            # Remembered, so that nothing is waited for between whoever may commit and the append.
            return self._topic
        async with self._making.held(self._codec.topic):
            topic = await self._enode.topic(self._codec.topic)
            if topic is None:
                topic = await self._enode.create_topic(self._codec.topic, self._partitions, self._codec.config)
            self._topic = topic
        return topic

    # Writing.

    async def _append(self, group: str, entries: Sequence[Entry]) -> Appended:
        place = await self.place_of(group)
        return await self._append_to(place.id, self._codec.batch(entries, self._runtime.now_ms()))

    async def _append_to(self, number: int, batch: bytes) -> Appended:
        topic = await self.ensure_topic()
        while (gate := self._gates.get(number)) is not None:
            await gate
        self._writing[number] = self._writing.get(number, 0) + 1
        appended: Appended | None = None
        try:
            appended = await self._enode.append(Partition(topic.name, number), batch)
            return appended
        finally:
            self._written(number, topic.partitions, appended)

    def _written(self, number: int, partitions: int, appended: Appended | None) -> None:
        self._writing[number] -= 1
        if not self._writing[number]:
            del self._writing[number]
            idle = self._idle.pop(number, None)
            if idle is not None:
                idle.set(None)
        holds = 0 if appended is None else appended.last_offset + 1 - appended.log_start_offset
        # The whole table bounds from above what is true in this partition; counting exactly would cost each commit.
        # What is undecided cannot be written once more: it belongs to its producer.
        if (
            number not in self._gates
            and not self._undecided.any_at(number)
            and holds > self._rewrite_after + 2 * (len(self._table) + len(self._records))
        ):
            self._gates[number] = self._runtime.promise()
            self._runtime.spawn(self._rewrite(number, partitions), f"rewrite {self._codec.topic}-{number}")

    async def _rewrite(self, number: int, partitions: int) -> None:
        """Write what is true once more, then delete everything before: a crash in between leaves both, which is right.

        Nobody else writes to the partition meanwhile: a commit between reading the table and writing what it said
        would be overruled by its own past.
        """
        partition = Partition(self._codec.topic, number)
        try:
            if self._writing.get(number):
                idle = self._idle[number] = self._runtime.promise()
                await idle
            if self._undecided.any_at(number):
                return
            before = (await extent(self._enode, partition)).end
            entries = self._true_entries(number, partitions)
            for at in range(0, len(entries), _ENTRIES_PER_BATCH):
                part = entries[at : at + _ENTRIES_PER_BATCH]
                await self._enode.append(partition, self._codec.batch(part, self._runtime.now_ms()))
            await self._enode.delete_records(partition, before)
        except PenstockError as error:
            # Nothing is lost: what was true stands in the log, once or twice. The next commit tries again.
            _log.warning("cannot rewrite %s: %s", partition, error)
        finally:
            self._gates.pop(number).set(None)

    def _true_entries(self, number: int, partitions: int) -> list[Entry]:
        entries = [
            self._codec.group_entry(group, record)
            for group, record in self._records.items()
            if self._codec.partition_of(group, partitions) == number
        ]
        for group in self._table.groups():
            if self._codec.partition_of(group, partitions) == number:
                offsets = self._table.of(group)
                entries += [self._codec.offset_entry(group, each, offsets[each]) for each in offsets]
        return entries
