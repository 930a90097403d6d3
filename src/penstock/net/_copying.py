"""How many bytes all connections of a node copy in one turn of the event loop, and the memory they copy them through.

What must not live here: which bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.net._lumps import Lumps
from penstock.seams.turns import Turn

__all__ = ["Copying"]

_BYTES: Final = 2 << 20
"""Copied from a file to a socket within a millisecond or two."""


class Copying(Turn):
    """One a node; bytes are spent."""

    def __init__(self) -> None:
        super().__init__(_BYTES, _soon)
        self.lumps = Lumps()


def _soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)  # of a node that was made before its loop ran
