"""Routing: the partition of each row: explicit, by key, or sticky for rows without either.

Sticky: such rows go to one partition until they fill about one batch, then to another (KIP-794), so that batches are
full. Of two random partitions, the one with fewer queued bytes is used, so a slow node gets less.

Where the log's own producers go round robin (`Sender.turn_bytes`), the next idle partition takes its turn as soon as
the previous batch has been sent. Single records that are waited for then go round one by one, many records batch by
batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from penstock.client.producer.delivery import BatchFuture, PartitionRun, RecordResult
from penstock.client.runtime.imports import functions_there, start_import
from penstock.config import Partitioner
from penstock.errors import UsageError
from penstock.interfaces import Sender
from penstock.model import Partition, TopicInfo
from penstock.records.arrow import binary_array, integers_of, number_array, valid_of
from penstock.records.scalar_writer import FewRows, Rows, fnv1a, murmur2

__all__ = [
    "ANYWHERE",
    "Chooser",
    "KeyPartitions",
    "PartitionerFunction",
    "TopicRouter",
    "chooser_of",
    "murmur2_of_column",
    "taken",
]

# Other choices than those of the log's own clients: librdkafka's hashes, round robin, or a user's function.
#
# Sources: librdkafka 2.x, ``rd_kafka_msg_partitioner_*``; Apache Kafka 4.x, ``RoundRobinPartitioner``. Tests compare
# with both.
PartitionerFunction: TypeAlias = Callable[[str, bytes | None, int], int | None]
"""Topic, key, number of partitions: returns the partition of a record that names none; None for any."""

ANYWHERE: Final = -(2**63)
"""A placeholder for any partition."""


class Chooser(Protocol):
    """Chooses for one topic with ``count`` partitions: for each record that names none, its partition or `ANYWHERE`."""

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]: ...
    def column(self, keys: pa.Array, count: int) -> Int64s: ...


def chooser_of(kind: Partitioner | PartitionerFunction, topic: str) -> Chooser | None:
    """The Chooser of a topic; None for the log's own choice."""
    if not isinstance(kind, Partitioner):
        return _Yours(kind, topic)
    if kind is Partitioner.ROUND_ROBIN:
        return _InTurn()
    if kind is Partitioner.RANDOM:
        return _Anywhere()
    return _ByHash(_HASHES[kind]) if kind in _HASHES else None


def _murmur2(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


class _Hash(Struct, frozen=True):
    """A hash of keys. Null keys, and empty ones, may go anywhere unless ``null_too``, or ``empty_too``."""

    of: Callable[[bytes], int]
    null_too: bool = True
    empty_too: bool = True

    def one(self, key: bytes | None, count: int) -> int:
        if (key is None and not self.null_too) or (key == b"" and not self.empty_too):
            return ANYWHERE
        return self.of(key or b"") % count


_HASHES: Final[Mapping[Partitioner, _Hash]] = {
    Partitioner.CONSISTENT: _Hash(zlib.crc32),
    Partitioner.CONSISTENT_RANDOM: _Hash(zlib.crc32, null_too=False, empty_too=False),
    Partitioner.MURMUR2: _Hash(_murmur2),
    Partitioner.MURMUR2_RANDOM: _Hash(_murmur2, null_too=False),
    Partitioner.FNV1A: _Hash(fnv1a),
    Partitioner.FNV1A_RANDOM: _Hash(fnv1a, null_too=False),
}


class _ByHash:
    def __init__(self, by: _Hash) -> None:
        self._by = by

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]:
        return [self._by.one(key, count) for key in keys]

    def column(self, keys: pa.Array, count: int) -> Int64s:
        """Hashes each distinct key once."""
        distinct = keys.dictionary_encode()
        known = [self._by.one(key, count) for key in distinct.dictionary.to_pylist()]
        there = valid_of(distinct.indices)
        places = integers_of(distinct.indices) * there
        found: Int64s = np.array(known or [0], np.int64)[places]
        return np.where(there > 0, found, self._by.one(None, count))


class _Anywhere:
    """Ignores keys."""

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]:
        del count
        return [ANYWHERE] * len(keys)

    def column(self, keys: pa.Array, count: int) -> Int64s:
        del count
        return np.full(len(keys), ANYWHERE, np.int64)


class _InTurn:
    """Round robin, whatever the key."""

    def __init__(self) -> None:
        self._next = 0

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]:
        first, self._next = self._next, self._next + len(keys)
        return [(first + number) % count for number in range(len(keys))]

    def column(self, keys: pa.Array, count: int) -> Int64s:
        first, self._next = self._next, self._next + len(keys)
        return (first + np.arange(len(keys), dtype=np.int64)) % count


class _Yours:
    """A user's function, called for each record because it may keep state."""

    def __init__(self, function: PartitionerFunction, topic: str) -> None:
        self._function = function
        self._topic = topic

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]:
        return [self._one(key, count) for key in keys]

    def column(self, keys: pa.Array, count: int) -> Int64s:
        return np.array(self.few(keys.to_pylist(), count), np.int64)

    def _one(self, key: bytes | None, count: int) -> int:
        try:
            found: object = self._function(self._topic, key, count)
        except Exception as error:
            raise UsageError(f"the partitioner raised {error!r:.200}", topic=self._topic) from error
        if found is None:
            return ANYWHERE
        if isinstance(found, bool) or not isinstance(found, int | np.integer) or not -(2**31) <= found < 2**31:
            message = f"the partitioner must return a partition, or None for any, but returned {found!r:.60}"
            raise UsageError(message, topic=self._topic)
        return int(found)


# Partitions for many keys at once. The protocol's Sender decides a key's partition; this only calls it less often.
#
# A sender that hashes as Kafka's Java producer does (murmur2, seed 0x9747b28c) is recognised by a few probes, and its
# hash is then computed for whole columns. Any other is called once for each distinct key of a column.
_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_MOST: Final = 2**31 - 1
_PROBES: Final = (b"", b"a", b"penstock", b"a key of thirty-three letters ...")

UInt32s = npt.NDArray[np.uint32]


class KeyPartitions:
    """The partitions that one sender chooses for keys."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        # With 2^31-1 partitions, the partition is nearly the hash itself: four matches are no coincidence.
        hashes = murmur2_of_column(binary_array(_PROBES)) & np.uint32(_MOST)
        self._vectorised = [sender.partition_for(key, _MOST) for key in _PROBES] == [
            int(each) % _MOST for each in hashes
        ]

    def one(self, key: bytes, count: int) -> int:
        """The partition of one key, of ``count``."""
        return self._sender.partition_for(key, count) if count > 1 else 0

    def partitions(self, keys: pa.Array, count: int) -> Int32s:
        """The partition of each key, of ``count``; the result for a null key has no meaning."""
        if count == 1:
            return np.zeros(len(keys), np.int32)
        if self._vectorised:
            hashed: Int32s = ((murmur2_of_column(keys) & np.uint32(_MOST)) % np.uint32(count)).astype(np.int32)
            return hashed
        distinct = keys.dictionary_encode()
        by_name = [
            0 if key is None else self._sender.partition_for(key, count) for key in distinct.dictionary.to_pylist()
        ]
        places = integers_of(distinct.indices) * valid_of(distinct.indices)
        asked: Int32s = np.array(by_name or [0], np.int32)[places]
        return asked


def murmur2_of_column(keys: pa.Array) -> UInt32s:
    """The hash of each value of a binary column (nulls hash as the bytes under them).

    All keys advance together, four bytes per step, at the end only the longest ones; for that they are sorted by
    length.
    """
    _, ends_buffer, data_buffer = keys.buffers()
    ends = np.frombuffer(ends_buffer, np.int32, len(keys) + 1, 4 * keys.offset).astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    # Three spare bytes: the last bytes of the last key are read as a whole word and masked.
    data = np.zeros((int(ends[-1]) if len(keys) else 0) + 4, np.uint8)
    if data_buffer is not None:
        data[:-4] = np.frombuffer(data_buffer, np.uint8, len(data) - 4)
    words = np.ndarray(len(data) - 3, "<u4", data, strides=(1,))
    with np.errstate(over="ignore"):
        return _hash(words, starts, lengths)


def _hash(words: npt.NDArray[Any], starts: Int64s, lengths: Int64s) -> UInt32s:
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    whole = lengths // 4
    for step in range(int(whole[0]) if len(whole) else 0):
        alive = int(np.searchsorted(-whole, -step, side="left"))
        block = words[starts[:alive] + 4 * step] * _M
        block ^= block >> np.uint32(24)
        hashes[:alive] = hashes[:alive] * _M ^ block * _M
    rest = (lengths % 4).astype(np.uint32)
    tails = words[starts + 4 * whole] & ((np.uint32(1) << (rest * np.uint32(8))) - np.uint32(1))
    hashes = np.where(rest > 0, (hashes ^ tails) * _M, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    result = np.empty_like(hashes)
    result[order] = hashes
    return result


# Reordering the rows of a batch, with or without Arrow's functions, which cost 0.1 s to import.
_FEW: Final = 100
"""So many rows can be moved one by one at no noticeable cost."""


def taken(rows: pa.RecordBatch, order: npt.NDArray[np.integer[Any]]) -> pa.RecordBatch:
    """The rows at the positions ``order``, at least one. Imports nothing, because a loop calls it."""
    if functions_there():
        return rows.take(number_array(pa.int64(), len(order), order.astype(np.int64)))
    if len(order) > _FEW:
        start_import()
    cuts = np.flatnonzero(np.diff(order) != 1) + 1
    firsts, lengths = order[[0, *cuts]], np.diff([0, *cuts, len(order)])
    return pa.concat_batches(
        [rows.slice(int(first), int(length)) for first, length in zip(firsts, lengths, strict=True)]
    )


Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
NOTHING_NAMED: Final[Mapping[int, int]] = {}
_FIRST: Final = np.zeros(1, np.int64)
_COMPARED: Final = 16
_BEHIND: Final = 8
"""For round robin: how many partitions are compared for the next turn, and by how many turns one may lag behind."""


class TopicRouter:
    """The router of one topic. ``waiting_bytes`` is the queued bytes of a partition; ``random`` is uniform in [0, 1).

    ``avoids`` says which partitions are in trouble: unbound rows go there only if there is no other. With
    ``turn_bytes`` above 0, partitions take turns of at most so many bytes, and ``is_idle`` says whether nothing of a
    partition is queued or in flight.
    """

    def __init__(
        self,
        info: TopicInfo,
        keys: KeyPartitions,
        batch_bytes: int,
        waiting_bytes: Callable[[Partition], int],
        random: Callable[[], float],
        avoids: Callable[[Partition], bool] = lambda _: False,
        chooser: Chooser | None = None,
        *,
        turn_bytes: int = 0,
        is_idle: Callable[[Partition], bool] | None = None,
    ) -> None:
        self._partitions = [each.partition for each in info.partitions]
        self._keys = keys
        self._batch_bytes = min(batch_bytes, turn_bytes) if turn_bytes else batch_bytes
        self._is_idle = is_idle if turn_bytes else None
        self._waiting_bytes = waiting_bytes
        self._random = random
        self._avoids = avoids
        self._chooser = chooser
        self._taken = [0] * len(self._partitions)
        self._sticky = self._draw()
        self._sticky_bytes = 0

    @property
    def count(self) -> int:
        """The number of partitions."""
        return len(self._partitions)

    def renew(self, info: TopicInfo) -> None:
        """The topic was looked up again, and may have more partitions."""
        self._partitions = [each.partition for each in info.partitions]
        self._taken = [0] * len(self._partitions)
        self._sticky = min(self._sticky, self.count - 1)

    def route(
        self, rows: Rows, outcome: BatchFuture, born: float, named: Mapping[int, int] = NOTHING_NAMED
    ) -> list[PartitionRun]:
        """Split rows into runs and set them in ``outcome``. Runs for a missing partition are settled with an error.

        ``named`` are the explicit partitions of few rows, by position; columns have them in ``partition``. Raises
        UsageError if that column has no integers.
        """
        if isinstance(rows, FewRows):
            if len(rows.values) == 1 and self._chooser is None:
                return self._route_one(rows, outcome, born, named)
            return self._route_few(rows, outcome, born, named)
        return self._route_columns(rows, outcome, born)

    def _route_few(
        self, rows: FewRows, outcome: BatchFuture, born: float, named: Mapping[int, int]
    ) -> list[PartitionRun]:
        count, places = self.count, range(rows.num_rows)
        if self._chooser is None:
            targets = [
                named[place] if place in named else None if key is None else self._keys.one(key, count)
                for place, key in zip(places, rows.keys, strict=True)
            ]
        else:
            targets = self._chosen_few(self._chooser, rows.keys, named)
        free = targets.count(None)
        sticky = iter(self._sticky_few(free, outcome.size * free // rows.num_rows))
        used: dict[int, list[int]] = {}
        for place, target in zip(places, targets, strict=True):
            used.setdefault(next(sticky) if target is None else target, []).append(place)
        runs = []
        for partition, here in sorted(used.items()):
            picked = rows if len(used) == 1 else rows.picked(here)
            run = self._run(outcome, partition, picked, outcome.size * len(here) // rows.num_rows, born)
            run.free = all(targets[place] is None for place in here)
            runs.append(run)
        if len(used) > 1:
            run_of, place_of = [0] * rows.num_rows, [0] * rows.num_rows
            for number, (_, here) in enumerate(sorted(used.items())):
                for at, place in enumerate(here):
                    run_of[place], place_of[place] = number, at
            outcome.places = (run_of, place_of)
        outcome.runs = runs  # last: a waiter in another thread sees all of it, or nothing
        return runs

    def _route_one(
        self, rows: FewRows, outcome: BatchFuture, born: float, named: Mapping[int, int]
    ) -> list[PartitionRun]:
        """As `_route_few`, for a single record, as from a caller that waits for each one."""
        key = rows.keys[0]
        free = not named and key is None
        if named:
            target = named[0]
        elif key is not None:
            target = self._keys.one(key, len(self._partitions))
        else:
            target = 0 if len(self._partitions) == 1 else self._sticky_few(1, outcome.size)[0]
        run = self._run(outcome, target, rows, outcome.size, born)
        run.free = free
        runs = outcome.runs = [run]
        return runs

    def _chosen_few(self, chooser: Chooser, keys: Sequence[bytes | None], named: Mapping[int, int]) -> list[int | None]:
        """The partition of each row, None for any."""
        left = [place for place in range(len(keys)) if place not in named]
        chosen = dict(zip(left, chooser.few([keys[place] for place in left], self.count), strict=True))
        targets = [named.get(place, chosen.get(place, ANYWHERE)) for place in range(len(keys))]
        return [None if target == ANYWHERE else target for target in targets]

    def _sticky_few(self, rows: int, size: int) -> Sequence[int]:
        """As `_sticky_targets`, for rows that rarely fill a batch."""
        if not rows or len(self._partitions) == 1:
            return (0,) * rows
        ill = self._avoids(self._partitions[self._sticky])
        over = self._sticky_bytes + size > self._batch_bytes or (self._is_idle is not None and self._turn_is_over())
        if ill or over:
            return [int(each) for each in self._sticky_targets(rows, size)]
        self._sticky_bytes += size
        return (self._sticky,) * rows

    def _route_columns(self, rows: pa.RecordBatch, outcome: BatchFuture, born: float) -> list[PartitionRun]:
        named = rows.schema.get_field_index("partition")
        if named < 0 and len(self._partitions) == 1 and self._chooser is None:
            return self._route_whole(0, rows, outcome, born, free=not _any_key(rows))
        target, free = self._targets(rows, outcome.size)
        if named >= 0:
            rows = rows.remove_column(named)
        if int(target.min()) == (last := int(target.max())):
            return self._route_whole(last, rows, outcome, born, free=bool(free.all()))
        order = np.argsort(target, kind="stable")
        in_order = target[order]
        bounds = np.concatenate([_FIRST, np.flatnonzero(in_order[1:] != in_order[:-1]) + 1])
        used, lengths = in_order[bounds], np.diff(bounds, append=len(target))
        sorted_rows = taken(rows, order)
        runs = [
            self._run(
                outcome,
                int(partition),
                sorted_rows.slice(int(first), int(length)),
                outcome.size * int(length) // len(target),
                born,
            )
            for partition, first, length in zip(used, bounds, lengths, strict=True)
        ]
        whole = np.minimum.reduceat(free[order], bounds)
        for run, all_free in zip(runs, whole, strict=True):
            run.free = bool(all_free)
        run_of, place = np.empty(len(target), np.int32), np.empty(len(target), np.int32)
        run_of[order] = np.repeat(np.arange(len(used), dtype=np.int32), lengths)
        place[order] = np.arange(len(target), dtype=np.int32) - np.repeat(bounds, lengths).astype(np.int32)
        outcome.places = (run_of, place)
        outcome.runs = runs
        return runs

    def _route_whole(
        self, partition: int, rows: pa.RecordBatch, outcome: BatchFuture, born: float, *, free: bool
    ) -> list[PartitionRun]:
        run = self._run(outcome, partition, rows, outcome.size, born)
        run.free = free
        runs = outcome.runs = [run]
        return runs

    def elsewhere(self, partition: Partition) -> Partition | None:
        """A random healthy partition other than this; None if there is none."""
        well = [each for each in self._partitions if each != partition and not self._avoids(each)]
        return well[int(self._random() * len(well))] if well else None

    def _run(self, outcome: BatchFuture, partition: int, rows: Rows, size: int, born: float) -> PartitionRun:
        """Rows of one partition; settled at once if there is no such partition."""
        if 0 <= partition < len(self._partitions):
            return PartitionRun(outcome, self._partitions[partition], rows, size, born)
        topic = self._partitions[0].topic
        run = PartitionRun(outcome, Partition(topic, partition), rows, size, born)
        hint = f"The topic has partitions 0 to {self.count - 1}"
        run.settle(
            RecordResult(0, run.count, -1, -1, UsageError(f"there is no partition {partition}", topic=topic, hint=hint))
        )
        return run

    def _targets(self, rows: pa.RecordBatch, size: int) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """The partition of each row, and whether another would do as well."""
        target = np.full(rows.num_rows, ANYWHERE, np.int64)
        named = rows.schema.get_field_index("partition")
        if named >= 0:
            target = _named(rows.column(named))
        keys_at = rows.schema.get_field_index("key")
        if self._chooser is not None:
            left = np.flatnonzero(target == ANYWHERE)
            keys = rows.column(keys_at) if keys_at >= 0 else pa.nulls(rows.num_rows, pa.binary())
            keys = keys if len(left) == len(keys) else keys.take(pa.array(left))
            target[left] = self._chooser.column(keys, self.count)
        elif keys_at >= 0 and rows.column(keys_at).null_count < rows.num_rows and (target == ANYWHERE).any():
            keys = rows.column(keys_at)
            by_key = (valid_of(keys) > 0) & (target == ANYWHERE)
            target = np.where(by_key, self._keys.partitions(keys, self.count), target)
        is_free = target == ANYWHERE
        free = np.flatnonzero(is_free)
        if len(free):
            target[free] = self._sticky_targets(len(free), size * len(free) // rows.num_rows)
        return target, is_free

    def _sticky_targets(self, rows: int, size: int) -> Int32s:
        if self.count == 1:
            return np.zeros(rows, np.int32)
        if self._is_idle is not None and self._turn_is_over():
            self._sticky, self._sticky_bytes = self._draw(self._sticky, self._sticky_bytes), 0
        if self._avoids(self._partitions[self._sticky]):
            self._sticky = self._draw(self._sticky)
        # Rows count as equally large: batches should fill up, but not to the byte.
        ends = (np.arange(1, rows + 1) * size) // rows + self._sticky_bytes
        turns = (ends - 1) // self._batch_bytes
        chosen = [self._sticky]
        for _ in range(int(turns[-1])):
            chosen.append(self._draw(chosen[-1], self._batch_bytes))
        self._sticky = chosen[-1]
        self._sticky_bytes = int(ends[-1]) - int(turns[-1]) * self._batch_bytes
        return np.array(chosen, np.int32)[turns]

    def _turn_is_over(self) -> bool:
        """For round robin: whether the rows of the sticky partition have left its queue."""
        return self._sticky_bytes > 0 and not self._waiting_bytes(self._partitions[self._sticky])

    def _next(self, previous: int, size: int, is_idle: Callable[[Partition], bool]) -> int:
        """The partition after ``previous``, which took ``size``: one that is healthy and idle, else a healthy one.

        Of the next few candidates, the one that has taken least: turns differ in size, and large ones must not always
        hit the same partition. A partition that was unavailable for long catches up a few turns, not all that it
        missed.
        """
        self._taken[previous] += size
        found: list[int] = []
        well = -1
        for step in range(1, self.count + 1):
            place = (previous + step) % self.count
            if self._avoids(self._partitions[place]):
                continue
            well = place if well < 0 else well
            if is_idle(self._partitions[place]):
                found.append(place)
                if len(found) == _COMPARED:
                    break
        if not found:
            return well if well >= 0 else (previous + 1) % self.count
        least = min(found, key=self._taken.__getitem__)
        self._taken[least] = max(self._taken[least], self._taken[previous] - _BEHIND * self._batch_bytes)
        return least

    def _draw(self, previous: int = -1, size: int = 0) -> int:
        if self._is_idle is not None and previous >= 0:
            return self._next(previous, size, self._is_idle)
        drawn = [int(self._random() * self.count) for _ in range(2)]
        others = [each for each in drawn if each != previous] or [(previous + 1) % self.count]
        return min(map(self._healthy, others), key=lambda each: self._waiting_bytes(self._partitions[each]))

    def _healthy(self, drawn: int) -> int:
        """The first healthy partition from the drawn one on; the drawn one itself if none is healthy."""
        following = ((drawn + step) % self.count for step in range(self.count))
        return next((each for each in following if not self._avoids(self._partitions[each])), drawn)


def _any_key(rows: pa.RecordBatch) -> bool:
    at = rows.schema.get_field_index("key")
    return at >= 0 and bool(rows.column(at).null_count < rows.num_rows)


def _named(column: pa.Array) -> Int64s:
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        try:
            column = column.cast(pa.int64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column partition must hold integers, got {column.type}: {error}") from None
    return np.where(valid_of(column) > 0, integers_of(column), ANYWHERE)
