"""BadRecords: what a reader does with records that cannot be decoded, and with those that a deserializer refuses.

Only this module evaluates ``on_bad_record``. The consumers' buffers, the range reader and the deserializers call it
after an error was raised, and never before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock import _clock
from penstock.config import OnBadRecord
from penstock.config.client import ClientLog
from penstock.errors import CorruptBatch, DeserializationError, PenstockError, ProtocolViolation
from penstock.interfaces import DecodesInPieces, Fetched
from penstock.model import Partition, Record, TimestampType
from penstock.records.messages import ERROR_HEADER, RECORDS_HEADER, Messages, Part

if TYPE_CHECKING:
    from penstock.records.messages import Refused

__all__ = ["BadRecords"]

_QUIET_S: Final = 60.0
_MOST_BYTES: Final = 256 << 20
"""How large the decoded pieces of one fetch may become; the rest is fetched again."""


class BadRecords:
    """The policy of one reader. ``skips`` is the meaning of `OnBadRecord.AUTO` for its log.

    ``total`` counts the records that were skipped or passed on raw. Thread-safe; an unpickled copy counts and warns by
    itself.
    """

    def __init__(
        self,
        choice: OnBadRecord = OnBadRecord.AUTO,
        *,
        skips: bool = False,
        log: ClientLog | None = None,
        now: Callable[[], float] = _clock.monotonic,
    ) -> None:
        self._choice, self._skips = choice, skips
        self._of_log, self._of_deserializers = choice, choice
        if choice is OnBadRecord.AUTO:
            self._of_log = OnBadRecord.SKIP if skips else OnBadRecord.FAIL
            self._of_deserializers = OnBadRecord.FAIL
        self._log = log or ClientLog("penstock.consumer")
        self._now = now
        self._lock = threading.Lock()
        self._warned: dict[Partition, tuple[float, int]] = {}
        self.total = 0

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (self._choice, self._skips)

    def decode(
        self, fetched: Fetched, *, stop: int | None = None, columns: Sequence[str] | None = None
    ) -> tuple[Messages, int, PenstockError | None]:
        """As ``fetched.decode``, around damage: the messages, the next offset to read, and the error that ended them.

        Raises that error at once if no messages come before it, and every other error of ``decode``.
        """
        try:
            messages, following = fetched.decode(stop=stop, columns=columns)
        except (CorruptBatch, ProtocolViolation) as error:
            return self.decode_around(fetched, error, stop=stop, columns=columns)
        return messages, following, None

    @property
    def refused(self) -> Refused | None:
        """The handler for a record that a deserializer refuses; None where that is an error."""
        return None if self._of_deserializers is OnBadRecord.FAIL else self._refused

    def decode_around(
        self,
        fetched: Fetched,
        error: CorruptBatch | ProtocolViolation,
        *,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> tuple[Messages, int, PenstockError | None]:
        """As `decode`, for an answer whose decoding has already failed with ``error``."""
        place, offset = fetched.partition, fetched.offset
        if not isinstance(fetched, DecodesInPieces):
            raise _worded(error, place)
        parts: list[Part] = []
        following = offset
        size = 0
        for piece in fetched.pieces(stop=stop, columns=columns):
            if isinstance(piece, Messages):
                for part in piece.parts:
                    _append(parts, part)
                    following = max(following, part.next_offset)
                    size += part.batch.nbytes
                if size > _MOST_BYTES:
                    break
                continue
            if self._of_log is OnBadRecord.FAIL or piece.next_offset is None or piece.next_offset <= following:
                failure = _worded(piece, place)
                if following <= offset:
                    raise failure
                return Messages(parts), following, failure
            self._count(place, piece)
            following = piece.next_offset if stop is None else min(piece.next_offset, stop)
            rows = [_raw(place, piece)] if self._of_log is OnBadRecord.RAW else []
            _append(parts, Part(place, None, following, records=rows, topic_id=fetched.topic_id))
        if following <= offset:
            raise _worded(error, place)
        return Messages(parts), following, None

    def _refused(self, error: DeserializationError, raw: Record[Any, Any]) -> Record[Any, Any] | None:
        self._count(Partition.of(raw), error)
        if self._of_deserializers is OnBadRecord.SKIP:
            return None
        headers = (*raw.headers, (ERROR_HEADER, error.message.encode()))
        return Record(
            raw.topic, raw.partition, raw.offset, raw.timestamp_ms, raw.key, raw.value, headers, raw.timestamp_type,
            raw.extra, raw.node,
        )  # fmt: skip

    def _count(self, place: Partition, error: CorruptBatch | DeserializationError) -> None:
        """Count the records, and warn once per partition and minute."""
        records = error.records if isinstance(error, CorruptBatch) else 1
        now, unsaid = self._now(), 0
        with self._lock:
            self.total += records
            if place in self._warned:
                said, unsaid = self._warned[place]
                if now - said < _QUIET_S:
                    self._warned[place] = said, unsaid + records
                    return
            self._warned[place] = now, 0
        which = "a record" if records == 1 else f"{records} records"
        more = f"; {unsaid} more since the last such line" if unsaid else ""
        what = "passing on the raw bytes of" if OnBadRecord.RAW in (self._choice, self._of_log) else "skipping"
        self._log.warning("%s %s of %s at offset %s: %s%s", what, which, place, error.offset, error.message, more)


def _rebuilt(choice: OnBadRecord, skips: bool) -> BadRecords:
    return BadRecords(choice, skips=skips)


def _append(parts: list[Part], part: Part) -> None:
    """Append a part.

    A part without rows only moves the position. It is merged into the part before it, so that no slice drops it.
    """
    if part.num_rows or not parts:
        parts.append(part)
        return
    last = parts[-1]
    batch = last.batch if last.records is None else None
    parts[-1] = Part(last.partition, batch, part.next_offset, part.context, last.records, last.topic_id)


def _raw(place: Partition, error: CorruptBatch) -> Record:
    offset = -1 if error.offset is None else error.offset
    headers: tuple[tuple[str, bytes | None], ...] = ((ERROR_HEADER, error.message.encode()),)
    if error.records > 1:
        headers = ((RECORDS_HEADER, b"%d" % error.records), *headers)
    return Record(
        place.topic, place.id, offset, -1, None, error.raw, headers, TimestampType.NONE, node=place.node or None
    )


def _worded(error: CorruptBatch | ProtocolViolation, place: Partition) -> CorruptBatch | ProtocolViolation:
    """The same error with the place, and a hint how to continue."""
    error.topic, error.partition, error.node = place.topic, place.id, error.node or place.node or None
    following = error.next_offset if isinstance(error, CorruptBatch) else None
    if following is None:
        error.hint = "Where the next record begins is unknown: seek() to a later offset to continue"
    else:
        option = "on_bad_record (in Spark onBadRecord)"
        error.hint = f"seek() to offset {following} to go on behind it, or set {option} to skip or raw"
    return error
