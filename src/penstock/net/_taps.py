"""What may stand between a connection and its session, for tests that inject faults.

What must not live here: connections.
"""

from __future__ import annotations

from typing import Protocol

from penstock.seams.faults import Handle
from penstock.seams.framing import Frame, Pieces
from penstock.seams.front import Peer

__all__ = ["Handle", "Tap"]


class Tap(Protocol):
    """Stands between a connection and its session: may wait, change the frame or the answer, or hang up."""

    async def __call__(self, peer: Peer, frame: Frame, handle: Handle) -> Pieces | None: ...
