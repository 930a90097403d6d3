"""How a topic's partitions on one broker are numbered: store number times 10,000, plus the number within the store.

Source: Apache InLong TubeMQ 2.x, ``TBaseConstants.META_STORE_INS_BASE``. All partitions of a store share one sequence
of offsets, 28 bytes of index a record.
"""

from __future__ import annotations

from typing import Final

__all__ = ["INDEX_BYTES", "STORE_BASE", "aligned", "partition_ids", "store_of", "within_store"]

STORE_BASE: Final = 10_000
INDEX_BYTES: Final = 28
"""What one record takes in its store's index: the step of offsets."""


def partition_ids(stores: int, partitions: int) -> list[int]:
    """Return the ids of ``stores`` stores with ``partitions`` each, in order.

    >>> partition_ids(2, 3)
    [0, 1, 2, 10000, 10001, 10002]
    """
    return [store * STORE_BASE + number for store in range(stores) for number in range(partitions)]


def store_of(partition_id: int) -> int:
    """Return the number of the store that holds a partition."""
    return partition_id // STORE_BASE


def within_store(partition_id: int) -> int:
    """Return a partition's number within its store."""
    return partition_id % STORE_BASE


def aligned(offset: int) -> int:
    """Return the largest offset up to ``offset`` at which an index record can begin."""
    return offset - offset % INDEX_BYTES
