"""When many records are worth columns: loading Arrow and a compiler takes a second, in which others want to be served.

So it is done in a thread, and only once enough was read one by one; until then that goes on.
"""

from __future__ import annotations

import sys
from typing import Final

from penstock.concurrency.runtime import Runtime
from penstock.records.scalar_codec import Stored, encode_batch

__all__ = ["Warming"]

_WORTH_IT: Final = 5_000
"""Records read one by one before; they take about as long as the loading does."""

_MANY: Final = 64
"""From so many records in one piece on, columns are the faster way."""


class Warming:
    """``many``: how many records in one piece are to go through columns; more than there ever are while it is cold."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._read = 0
        self._begun = False
        self.many = sys.maxsize

    def note(self, records: int) -> None:
        """So many were read."""
        self._read += records
        if self._read >= _WORTH_IT and not self._begun:
            self._begun = True
            self._runtime.spawn(self.warm(), "load columns for TubeMQ readers")

    async def warm(self) -> None:
        """Load now, without keeping anybody waiting but the caller."""
        await self._runtime.in_thread(_load)
        self.many = _MANY


def _load() -> None:
    """Everything is loaded, and compiled, by using it once."""
    from penstock import kernels
    from penstock.protocols.tubemq.front.broker.columns import bulk_of

    kernels.load()
    sample = Stored(0, 0, True, b"k", b"v", (("a", b"b"), ("tubemq.filter", b"c")))
    bulk_of(bytes(encode_batch([sample, sample])), 0, most_bytes=1, most_records=1, record_bytes=1)
