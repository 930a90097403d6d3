"""How many bytes all connections of a node copy in one turn of the event loop, and the memory they copy them through.

What must not live here: which bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.seams.turns import Turn

__all__ = ["LUMP_BYTES", "Copying"]

LUMP_BYTES: Final = 1 << 20
"""What is copied between two looks at how much it was; the socket of a client that reads takes it at once."""

_BYTES: Final = 2 << 20
"""Copied from a file to a socket within a millisecond or two."""


class Copying(Turn):
    """One a node; bytes are spent."""

    def __init__(self) -> None:
        super().__init__(_BYTES, _soon)
        self._space: memoryview | None = None

    def borrow(self) -> memoryview:
        """Room for a lump, which has been used before if it can: fresh memory costs as much as the copying."""
        space, self._space = self._space, None
        return memoryview(bytearray(LUMP_BYTES)) if space is None else space

    def give_back(self, space: memoryview) -> None:
        """Nobody looks at it any more."""
        self._space = space


def _soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)  # of a node that was made before its loop ran
