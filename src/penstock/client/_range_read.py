"""RangeRead: exactly ``[start, end)`` of one partition of any protocol, as fast as one connection allows.

Where the next batch begins can be told before an answer is decoded, so the next request is on its way by then; under
the blocking transport that is the only overlap there is, and enough.

The range ends where the next offset to read is its end or more, which also covers what compaction took away and
transaction markers before the end. A log that ends sooner is waited for a little (a new leader may be behind) and is
then an error: who asks for a range counts on having all of it.
What must not live here: requests, and where a partition lies (a protocol's `penstock.seams.RangeSource`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.client._bad_records import BadRecords
from penstock.errors import PenstockError, UsageError
from penstock.model import LogRange, Partition
from penstock.seams import Fetched, HearsOfMoves, LogClient, Retry
from penstock.seams.client import not_whole

if TYPE_CHECKING:
    from penstock.columnar import Messages

__all__ = ["RangeRead"]

_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 0.4


class RangeRead:
    """Call ``next`` until it returns None; ``close`` if you stop before. ``offset`` is where ``next`` goes on.

    ``columns`` are those to decode (None: all); ``fetch_bytes`` 0 leaves the size of requests to the protocol.
    """

    def __init__(
        self,
        client: LogClient,
        wanted: LogRange,
        *,
        columns: Sequence[str] | None = None,
        fetch_bytes: int = 0,
        bad_records: BadRecords | None = None,
    ) -> None:
        if not 0 <= wanted.start <= wanted.end:
            raise UsageError(
                f"a range from {wanted.start} to {wanted.end}", topic=wanted.topic, partition=wanted.partition
            )
        self._source = client.ranges(wanted, fetch_bytes=fetch_bytes)
        self._moved = client.moved if isinstance(client, HearsOfMoves) else None
        self._partition = Partition.of(wanted)
        self._columns = columns
        self._bad_records = bad_records or BadRecords()
        self._end = self._source.end
        self._told = 0
        self.offset = self._source.start

    async def next(self) -> Messages | None:
        """The next records, at least one; None when the range is done.

        Raises OffsetOutOfRange where records of the range are not there (any more), LogTruncated where those before it
        are not the ones that were read, CorruptBatch, ServerError, ConnectionLost.
        """
        source = self._source
        retry = Retry(source.channel, source.limits)
        short: Retry | None = None
        while self.offset < self._end:
            try:
                fetched = await self._fetch()
            except PenstockError as error:
                if self._moved is not None and self._moved(self._partition):
                    source.close()
                    continue
                source.note(error)
                source.close()
                await retry.after(error)
                continue
            if fetched.size:
                if messages := self._take(fetched):
                    return messages
                continue
            short = short or Retry(source.channel, source.limits, timeout_ms=source.limits.short_log_patience_ms)
            await self._wait_for_more(fetched, short)
        await source.finish()
        return None

    def close(self) -> None:
        """Give up what was asked for ahead; harmless when nothing was."""
        self._source.close()

    async def _fetch(self) -> Fetched:
        """The answer from ``offset``, with the request for what follows it already sent."""
        source = self._source
        while source.ahead < source.depth:
            await source.ask(self.offset)
        fetched = await source.take()
        if fetched.error is not None:
            raise fetched.error
        self._told = fetched.next_offset
        if fetched.offset < self._told < self._end and not source.ahead:
            await source.ask(self._told)
        return fetched

    def _take(self, fetched: Fetched) -> Messages:
        """Decode; what damage left of it moves ``offset`` only up to the damage."""
        try:
            messages, following, _ = self._bad_records.decode(fetched, stop=self._end, columns=self._columns)
        except PenstockError:
            self._source.close()
            raise
        if following != self._told and following < self._end:
            self._source.close()  # the run ended early: before a damaged batch, or because it inflates to too much
        if following <= self.offset:
            if self._told <= self.offset:
                return self._take_around(fetched)
            following = self._end  # what came begins behind the end: the rest of the range was compacted away
        self.offset = following
        return messages

    def _take_around(self, fetched: Fetched) -> Messages:
        """The same, of an answer without one whole batch."""
        self._source.close()
        messages, self.offset, _ = self._bad_records.decode_around(
            fetched, not_whole(fetched), stop=self._end, columns=self._columns
        )
        return messages

    async def _wait_for_more(self, fetched: Fetched, short: Retry) -> None:
        text = f"the log ends at {fetched.high_watermark}, before the end of the range, {self._end}"
        seconds = min(_FIRST_WAIT_S * 2.0**short.attempts, _LONGEST_WAIT_S)
        await short.pause(self._source.gone(text, self.offset), seconds=seconds)
