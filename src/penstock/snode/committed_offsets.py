"""Committed offsets and groups' own records, for all fronts: tables in memory, backed by a journal.

A commit is a batch in the journal, answered once that batch is as durable as any acknowledged record. At start the
tables are read back from the journal; the last record wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from penstock.concurrency.limits import ADDRESS_PERCENT, UNLIMITED, Memory, NoRoom, Shares
from penstock.groups.offsets import CommittedTable, Latest, PendingTxnOffsets, Wanted
from penstock.interfaces.node import (
    Ended,
    Entry,
    Journals,
    Look,
    Noted,
    OffsetsCodec,
    Replayed,
    Standing,
    Which,
    Within,
)
from penstock.model import Committed, Partition

__all__ = ["KeptOffsets", "OffsetsService", "kept_offsets"]

OFFSET_BYTES: Final = 600
"""Bytes of a committed offset without its metadata, in all tables together."""
_MOST: Final = 200_000
_PART_OF_MEMORY: Final = 4

KeptOffsets: TypeAlias = Shares[tuple[str, Partition]]


def kept_offsets(most: int = _MOST, memory: Memory = UNLIMITED, address_percent: int = ADDRESS_PERCENT) -> KeptOffsets:
    """The counter of offsets. An offset's owner is the host that committed it first; one read from the log has none."""
    return Shares("committed offsets", "max_committed_offsets", most, memory, address_percent, _PART_OF_MEMORY)


class OffsetsService:
    """``penstock.interfaces.node.Offsets``. The number of the journal's ``partitions`` is fixed when it is created.

    ``kept`` counts offsets that are committed, or pending in a transaction, by group and partition.
    """

    def __init__(
        self, journals: Journals, codec: OffsetsCodec, *, partitions: int, kept: KeptOffsets | None = None
    ) -> None:
        self._kept = kept_offsets() if kept is None else kept
        self._codec = codec
        self._journal = journals.journal(codec.topic, places=partitions, config=codec.config)
        self._table = CommittedTable()
        self._undecided = PendingTxnOffsets()
        self._records: dict[str, bytes] = {}
        self._records_order: Latest[str] = Latest()
        self._writing: dict[str, list[list[Replayed]]] = {}

    async def load(self) -> None:
        """Read everything back. Raises CorruptBatch, ProtocolViolation, StoreError: nothing is dropped silently."""
        await self._journal.replay(self._follow)
        self._quiet()

    # Calls from fronts.

    async def groups(self) -> Sequence[str]:
        await self._journal.settled()
        return self._table.groups()

    async def committed(self, group: str) -> Mapping[Partition, Committed]:
        await self._journal.settled()
        return self._table.of(group)

    async def saved_groups(self) -> Mapping[str, bytes]:
        await self._journal.settled()
        return self._records

    async def standing(self, group: str) -> Standing:
        await self._journal.settled()
        return Standing(self._table.of(group), self._undecided.of(group))

    async def commit(
        self, group: str, offsets: Mapping[Partition, Committed], look: Look | None = None, host: str | None = None
    ) -> None:
        """Raises StoreError, with none or only the first of the offsets committed; NoRoom, with none committed."""

        def compose() -> list[Replayed]:
            _ask(look)
            self._find_room(group, offsets, host)
            return _commits(group, offsets)

        await self._write(group, compose)

    async def forget(self, group: str, which: Which, look: Look | None = None) -> None:
        """Raises StoreError."""

        def compose() -> list[Replayed]:
            _ask(look)
            known = self._known(group)
            return [Replayed(group, one, None, None) for one, committed in known.items() if which(one, committed)]

        await self._write(group, compose)

    async def expire(self, group: str, which: Which) -> None:
        """Raises StoreError."""

        def compose() -> list[Replayed]:
            if len(self._writing[group]) > 1:
                return []  # a newer offset may be in flight and would come first in the log: try again later
            undecided = self._undecided.of(group)
            known = self._table.of(group)
            old = [one for one, committed in known.items() if one not in undecided and which(one, committed)]
            return [Replayed(group, one, None, None) for one in old]

        await self._write(group, compose)

    async def delete_group(self, group: str, look: Callable[[bool], None]) -> None:
        """Raises StoreError."""

        def compose() -> list[Replayed]:
            known = self._known(group)
            look(bool(known))
            has_record = group in self._records or any(each.partition is None for each in self._under_way(group))
            record = [Replayed(group, None, None, None)] if has_record else []
            return [*(Replayed(group, partition, None, None) for partition in known), *record]

        await self._write(group, compose)

    def _known(self, group: str) -> dict[Partition, Committed]:
        """Current offsets, and those in flight, which are in the log before anything that is written now."""
        known = {**self._undecided.of(group), **self._table.of(group)}
        coming = {each.partition: each.committed for each in self._under_way(group)}
        return known | {one: said for one, said in coming.items() if one is not None and said is not None}

    def _under_way(self, group: str) -> Iterator[Replayed]:
        """The group's writes in flight, in the order of the log."""
        return chain.from_iterable(self._writing.get(group, ()))

    async def save_group(self, group: str, record: bytes, look: Look | None = None) -> None:
        """Raises StoreError."""

        def compose() -> list[Replayed]:
            _ask(look)
            return [Replayed(group, None, None, record)]

        await self._write(group, compose)

    # Transactions.

    async def place_of(self, group: str) -> Partition:
        return await self._journal.partition(await self._place(group))

    async def commit_within(
        self,
        group: str,
        offsets: Mapping[Partition, Committed],
        producer_id: int,
        epoch: int,
        look: Look | None = None,
        host: str | None = None,
    ) -> None:
        """Raises StoreError, after which the transaction can only be aborted, and NoRoom."""

        def compose() -> list[Replayed]:
            _ask(look)
            self._find_room(group, offsets, host)
            return _commits(group, offsets)

        await self._write(group, compose, Within(producer_id, epoch))

    async def end_within(self, place: Partition, producer_id: int, marker: bytes, *, commit: bool) -> None:
        """Raises StoreError; the transaction is then still undecided."""
        await self._journal.mark(place.id, marker)
        self._decide(place.id, producer_id, commit=commit)

    def _find_room(self, group: str, offsets: Mapping[Partition, Committed], host: str | None) -> None:
        """Count new offsets. Raises NoRoom, and then counts none."""
        known = self._table.of(group)
        counted: list[Partition] = []
        for partition, committed in offsets.items():
            before = known.get(partition)
            if before is not None and len(before.metadata) >= len(committed.metadata):
                continue
            why = self._kept.put((group, partition), host, OFFSET_BYTES + len(committed.metadata))
            if why is not None:
                for each in counted:
                    self._correct(group, each)
                raise NoRoom(why)
            counted.append(partition)

    def _correct(self, group: str, partition: Partition) -> None:
        """Stop counting an offset that is not committed, because its commit failed or it was deleted."""
        if partition not in self._table.of(group):
            self._kept.drop((group, partition))

    # The tables. They change only after an entry is in the log.

    async def _place(self, group: str) -> int:
        return self._codec.partition_of(group, await self._journal.places())

    async def _write(self, group: str, compose: Callable[[], Sequence[Replayed]], within: Within | None = None) -> None:
        said: list[Replayed] = []

        def entries() -> list[Entry]:
            said.extend(compose())
            return [self._entry(each) for each in said]

        self._writing.setdefault(group, []).append(said)
        try:
            place = await self._place(group)
            positions = await self._journal.append(place, entries, within)
            for position, each in zip(positions, said, strict=True):
                self._take(place, position, each, -1 if within is None else within.producer_id)
        except BaseException:
            for each in said:
                if each.partition is not None and each.committed is not None and within is None:
                    self._correct(group, each.partition)
            raise
        finally:
            self._writing[group] = [each for each in self._writing[group] if each is not said]
            if not self._writing[group]:
                del self._writing[group]
            if not self._writing:
                self._quiet()

    def _entry(self, said: Replayed) -> Entry:
        if said.partition is None:
            return self._codec.group_entry(said.group, said.record)
        return self._codec.offset_entry(said.group, said.partition, said.committed)

    def _follow(self, place: int, found: Noted | Ended) -> None:
        if isinstance(found, Ended):
            self._decide(place, found.producer_id, commit=found.commit)
        elif found.key is not None:
            said = self._codec.read(found.key, found.value)
            if said is not None:
                self._take(place, found.position, said, found.producer_id)

    def _take(self, place: int, position: int, said: Replayed, producer_id: int) -> None:
        if said.partition is None:
            if producer_id < 0 and self._records_order.takes(said.group, position, gone=said.record is None):
                self._records.pop(said.group, None)
                if said.record is not None:
                    self._records[said.group] = said.record
        elif producer_id < 0:
            self._table.set(said.group, said.partition, said.committed, position=position)
            if said.committed is None:
                self._undecided.forget(place, said.group, said.partition, position)
                self._correct(said.group, said.partition)
            elif (said.group, said.partition) not in self._kept:
                self._kept.take((said.group, said.partition), None, 0)
        elif said.committed is not None:
            self._undecided.add(place, producer_id, Wanted(said.group, said.partition, said.committed, position))
            if (said.group, said.partition) not in self._kept:
                self._kept.take((said.group, said.partition), None, 0)

    def _decide(self, place: int, producer_id: int, *, commit: bool) -> None:
        for wanted in self._undecided.end(place, producer_id):
            if commit:
                # At the position of the commit, not of the marker, so that a later commit outside the transaction wins.
                self._table.set(wanted.group, wanted.partition, wanted.committed, position=wanted.position)
            self._correct(wanted.group, wanted.partition)

    def _quiet(self) -> None:
        self._table.quiet()
        self._records_order.quiet()


def _ask(look: Look | None) -> None:
    if look is not None:
        look()


def _commits(group: str, offsets: Mapping[Partition, Committed]) -> list[Replayed]:
    return [Replayed(group, partition, committed, None) for partition, committed in offsets.items()]
