"""Kafka's frames: a 4-byte size, then that many bytes. Requests and answers look alike; the role says which is read.

Source: Kafka protocol guide, "Protocol Primitive Types / The size". A size that is negative or above the limit
(``socket.request.max.bytes`` on a broker) ends the connection before anything is allocated for it.
"""

from __future__ import annotations

from penstock.errors import ProtocolViolation
from penstock.seams.framing import Frame
from penstock.wire.foreign import looks_like_tls, spoken

MAX_FRAME_BYTES = 104_857_600
"""Kafka's own default of socket.request.max.bytes."""

_SIZE = 4
_LEAST = {True: 4, False: 8}
"""Fewest bytes of an answer (correlation id) and of a request (key, version, correlation id)."""


class KafkaFraming:
    """Cuts frames; ``answers`` True for a client (reads responses), False for a server (reads requests)."""

    __slots__ = ("_answers", "_body", "_first", "_limit")

    def __init__(self, *, answers: bool, limit: int = MAX_FRAME_BYTES) -> None:
        self._answers = answers
        self._limit = limit
        self._body = 0
        self._first = True

    def need(self) -> int:
        return self._body or _SIZE

    def feed(self, chunk: memoryview) -> Frame | None:
        if not self._body:
            size = int.from_bytes(chunk, "big", signed=True)
            if not _LEAST[self._answers] <= size <= self._limit or (self._first and looks_like_tls(bytes(chunk))):
                raise self._foreign(bytes(chunk), size)
            self._body = size
            self._first = False
            return None
        self._body = 0
        at = 0 if self._answers else 4
        correlation = int.from_bytes(chunk[at : at + 4], "big", signed=True)
        return Frame(correlation, self._answers, chunk)

    def _foreign(self, head: bytes, size: int) -> ProtocolViolation:
        from penstock.protocols import greetings  # not above: the registry imports this folder

        said = spoken(head, greetings()) if self._first else ""
        if not said:
            return ProtocolViolation(
                f"a frame of {size} bytes; {_LEAST[self._answers]} to {self._limit} are allowed",
                hint="Is the other side speaking Kafka, without TLS?",
            )
        hint = "Say tls=true" if said == "TLS" else "Give the port of a Kafka broker"
        message = f"the other side speaks {said}, not Kafka's protocol"
        return ProtocolViolation(message, hint=hint if self._answers else None)
