"""The contents of the benchmark topics: a rule for record i, and the sums that a reader of all records must get.

Record i goes to partition i % 4, where it has offset i // 4 and timestamp BASE_MS + i. Keys are 10 bytes, values look
like small JSON events; both repeat after `CYCLE` records, which is more than any compressor's window.
`bench.loading` writes the records.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

__all__ = ["BASE_MS", "CYCLE", "PARTITIONS", "VARIANTS", "Digest", "Topic", "expected", "records", "topic"]

PARTITIONS = 4
CYCLE = 100_000
BASE_MS = 1_700_000_000_000
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's contents: values of ``value_bytes``, in batches of 16 KiB, the default of Java's producer."""

    variant: str
    count: int
    value_bytes: int
    codec: str = "none"

    @property
    def name(self) -> str:
        """A name with everything that determines the data, so that a kept topic is never taken for another one."""
        return f"bench-{self.value_bytes}-{self.codec}-{self.count}"

    @property
    def each(self) -> int:
        """The number of records in each partition."""
        return self.count // PARTITIONS


@dataclass(frozen=True, slots=True)
class Digest:
    """Sums over records, in any order; timestamps are counted from BASE_MS.

    ``binding`` ties values to offsets: the sum of (offset + 1) * sum of the value's bytes, in 64 bits.
    """

    records: int = 0
    offsets: int = 0
    timestamps: int = 0
    binding: int | None = None

    def agrees(self, other: Digest) -> bool:
        """Whether both read the same records; ``binding`` is compared only if both have it."""
        exact = (self.records, self.offsets, self.timestamps) == (other.records, other.offsets, other.timestamps)
        return exact and (None in {self.binding, other.binding} or self.binding == other.binding)


_FULL = {
    "100 B": (5_000_000, 100, "none"),
    "100 B lz4": (5_000_000, 100, "lz4"),
    "1 KB": (2_000_000, 1000, "none"),
    "1 KB lz4": (2_000_000, 1000, "lz4"),
}
VARIANTS = tuple(_FULL)
_QUICK_SHARE = 25


def topic(variant: str, *, quick: bool = False) -> Topic:
    """The topic of a variant: "100 B", "100 B lz4", "1 KB" or "1 KB lz4"."""
    count, size, codec = _FULL[variant]
    return Topic(variant, count // _QUICK_SHARE if quick else count, size, codec)


@cache
def records(value_bytes: int) -> Sequence[tuple[bytes, bytes]]:
    """Key and value of records 0 to CYCLE - 1."""
    dice = random.Random(7)
    room = value_bytes - 60
    tails = [dice.randbytes((room + 1) // 2).hex()[:room] for _ in range(997)]
    pairs = []
    for i in range(CYCLE):
        body = f'{{"id":{i:012d},"user":"u{i * 7919 % CYCLE:06d}","amount":{i % 997:07d},"x":"{tails[i % 997]}'
        pairs.append((b"k%09d" % i, (body[: value_bytes - 2] + '"}').ljust(value_bytes).encode()))
    return pairs


def expected(topic: Topic, partitions: Sequence[int] = range(PARTITIONS)) -> Digest:
    """The sums that a reader of these partitions must get."""
    sums = np.array([sum(value) for _, value in records(topic.value_bytes)], np.uint64)
    total = Digest(0, 0, 0, 0)
    for partition in partitions:
        offsets = np.arange(topic.each, dtype=np.uint64)
        numbers = offsets * np.uint64(PARTITIONS) + np.uint64(partition)
        binding = int(((offsets + np.uint64(1)) * sums[numbers % np.uint64(CYCLE)]).sum(dtype=np.uint64))
        total = Digest(
            total.records + topic.each,
            total.offsets + int(offsets.sum()),
            total.timestamps + int(numbers.sum()),
            ((total.binding or 0) + binding) & _WORD,
        )
    return total
