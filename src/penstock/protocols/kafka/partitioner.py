"""Where a keyed record goes: murmur2, as Kafka's Java producer computes it (``Utils.murmur2``, seed 0x9747b28c).

Keyless records are the engine's choice and not decided here.
"""

from __future__ import annotations

from penstock.columnar.hashes import murmur2

__all__ = ["murmur2", "partition_for"]


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among all ``partitions`` of its topic, whether they have a leader now or not.

    >>> partition_for(b"foobar", 10)
    6
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
