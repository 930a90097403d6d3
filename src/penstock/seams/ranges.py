"""RangeSource: what the range reader needs of a protocol: "read this from there", with more requests ahead.

The range reader (`penstock.client`) keeps the order, decodes, knows the end, tries again and waits for a log that is
too short. A protocol sends requests, reads answers, and knows where a record can begin and who has the partition.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.errors import OffsetOutOfRange, PenstockError
from penstock.seams.channel import Channel
from penstock.seams.client import Fetched
from penstock.seams.retry import RetryLimits

__all__ = ["RangeLimits", "RangeSource"]


class RangeLimits(RetryLimits, Protocol):
    """What a client's options say of reading ranges."""

    @property
    def short_log_patience_ms(self) -> int:
        """How long a log that ends before a range does is waited for: a new leader may be behind for a moment."""
        ...


class RangeSource(Protocol):
    """The requests of one range of one partition; for one reader."""

    @property
    def channel(self) -> Channel[Any]: ...

    @property
    def limits(self) -> RangeLimits: ...

    @property
    def start(self) -> int:
        """Where reading begins: what was asked for, or the first place behind it where a record can begin."""
        ...

    @property
    def end(self) -> int:
        """Where it ends, likewise."""
        ...

    @property
    def ahead(self) -> int:
        """How many requests are on their way."""
        ...

    @property
    def depth(self) -> int:
        """How many are worth having on their way before the next answer is taken, by the answers so far; 1 and more."""
        ...

    async def ask(self, offset: int) -> None:
        """Send the next request: from ``offset`` if none is on its way, else from where the last one will end."""
        ...

    async def take(self) -> Fetched:
        """The first answer that is not taken yet. Trouble is in ``Fetched.error``, or raised.

        Its ``size`` is 0 only where the log ends; its ``decode(stop=end)`` cuts at the range's end.
        """
        ...

    def note(self, error: PenstockError) -> None:
        """A request failed: draw the conclusion, such as that somebody else has the partition now."""
        ...

    def gone(self, text: str, offset: int) -> OffsetOutOfRange:
        """The error of this protocol that says that a place is not in the log."""
        ...

    def close(self) -> None:
        """Give up what is on its way, if anything is; ``ask`` begins anew."""
        ...

    async def finish(self) -> None:
        """As ``close``, where the range is done and time may be taken to be kind to others on the connection."""
        ...
