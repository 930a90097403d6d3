"""Where a keyed record goes: murmur2, as Kafka's Java producer computes it (``Utils.murmur2``, seed 0x9747b28c).

Keyless records are the engine's choice and not decided here.
"""

from __future__ import annotations

__all__ = ["murmur2", "partition_for"]

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned."""
    length = len(data)
    whole = length & ~3
    h = _SEED ^ length
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among all ``partitions`` of its topic, whether they have a leader now or not.

    >>> partition_for(b"foobar", 10)
    6
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
