"""Java's hash code of a text: filters are compared by it, and members share partitions out by it.

Source: Java Language, ``String.hashCode``.
"""

from __future__ import annotations

from typing import Final

__all__ = ["java_hash"]

_INT32: Final = 0xFFFF_FFFF


def java_hash(text: str) -> int:
    """``String.hashCode`` as 32 unsigned bits.

    >>> java_hash("hello")
    99162322
    """
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & _INT32
    return found
