"""Choosing partitions otherwise than the log's own clients do: by librdkafka's hashes, in turn, or as you say.

Source: librdkafka 2.x, ``rd_kafka_msg_partitioner_*``; Apache Kafka 4.x, ``RoundRobinPartitioner``. Both are
asked in the tests.

What must not live here: the log's own choice (`_keys`), and where rows go that may go anywhere (`_routing`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock._dataclasses import dataclass
from penstock.columnar.hashes import fnv1a, murmur2
from penstock.columnar.inputs import integers_of, valid_of
from penstock.config import Partitioner
from penstock.errors import UsageError

__all__ = ["ANYWHERE", "Chooser", "PartitionerFunction", "chooser_of"]

PartitionerFunction: TypeAlias = Callable[[str, bytes | None, int], int | None]
"""Topic, key, number of partitions: the partition of a record that names none; None for any."""

ANYWHERE: Final = -(2**63)
"""In place of a partition: any will do."""

Int64s = npt.NDArray[np.int64]


class Chooser(Protocol):
    """One topic's: the partition of each record that names none, of ``count``; `ANYWHERE` where any will do."""

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]: ...
    def column(self, keys: pa.Array, count: int) -> Int64s: ...


def chooser_of(kind: Partitioner | PartitionerFunction, topic: str) -> Chooser | None:
    """One for a topic; None where the log's own choice is wanted."""
    if not isinstance(kind, Partitioner):
        return _Yours(kind, topic)
    if kind is Partitioner.ROUND_ROBIN:
        return _InTurn()
    if kind is Partitioner.RANDOM:
        return _Anywhere()
    return _ByHash(_HASHES[kind]) if kind in _HASHES else None


def _murmur2(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class _Hash:
    """``of`` a key; keys that have none may go anywhere: null ones, and empty ones."""

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
        """Each different key is hashed once."""
        distinct = keys.dictionary_encode()
        known = [self._by.one(key, count) for key in distinct.dictionary.to_pylist()]
        there = valid_of(distinct.indices)
        places = integers_of(distinct.indices) * there
        found: Int64s = np.array(known or [0], np.int64)[places]
        return np.where(there > 0, found, self._by.one(None, count))


class _Anywhere:
    """Keys are ignored."""

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]:
        del count
        return [ANYWHERE] * len(keys)

    def column(self, keys: pa.Array, count: int) -> Int64s:
        del count
        return np.full(len(keys), ANYWHERE, np.int64)


class _InTurn:
    """One partition after the other, whatever the key."""

    def __init__(self) -> None:
        self._next = 0

    def few(self, keys: Sequence[bytes | None], count: int) -> Sequence[int]:
        first, self._next = self._next, self._next + len(keys)
        return [(first + number) % count for number in range(len(keys))]

    def column(self, keys: pa.Array, count: int) -> Int64s:
        first, self._next = self._next, self._next + len(keys)
        return (first + np.arange(len(keys), dtype=np.int64)) % count


class _Yours:
    """A user's function, asked for each record: it may remember what it likes."""

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
            message = f"the partitioner returned {found!r:.60}, wanted is a partition, or None for any"
            raise UsageError(message, topic=self._topic)
        return int(found)
