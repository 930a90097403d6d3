"""Hashes by which producers of several makes agree where a key goes. One key at a time; columns are the client's.

Sources: murmur2 as Kafka's Java client computes it (``Utils.murmur2``, seed 0x9747b28c); FNV-1a as librdkafka does
(``rd_fnv1a``), which takes the amount of the signed number, as Sarama.
"""

from __future__ import annotations

__all__ = ["fnv1a", "murmur2"]

_PRIME = 0x01000193
_BASIS = 0x811C9DC5
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


def fnv1a(data: bytes) -> int:
    """The 32-bit hash; of one that would be negative if it had a sign, the amount."""
    found = _BASIS
    for each in data:
        found = (found ^ each) * _PRIME & _MASK
    return found if found < 2**31 else 2**32 - found
