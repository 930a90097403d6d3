"""Memory for lumps on their way out, used again once nobody looks at it: fresh memory costs as much as the copying.

Who does is what Python itself knows. A transport that has not sent all of a lump keeps a view of it, and a bytearray
with a view cannot change its size. That is true of every event loop, and of TLS; how many bytes a transport says it
holds is another question, which they answer differently. What must not live here: which bytes, when.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LUMP_BYTES", "Lumps"]

LUMP_BYTES: Final = 1 << 20
"""What is copied between two looks at how much it was; the socket of a client that reads takes it at once."""

_KEPT: Final = 4
"""More are not kept: clients that read slowly have memory of their own, which goes with them."""


class Lumps:
    """One a node."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def borrow(self) -> bytearray:
        """Room for a lump that nobody looks at, used before if it can be."""
        for place, lump in enumerate(self._kept):
            if _unseen(lump):
                return self._kept.pop(place)
        return bytearray(LUMP_BYTES)

    def give_back(self, lump: bytearray) -> None:
        """The borrower will not look at it any more; a transport still may."""
        if len(self._kept) == _KEPT:
            self._kept.pop(0)
        self._kept.append(lump)


def _unseen(lump: bytearray) -> bool:
    """Whether there is no view of it."""
    try:
        lump.pop()
    except BufferError:
        return False
    lump.append(0)
    return True
