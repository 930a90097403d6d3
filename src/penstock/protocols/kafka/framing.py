"""Kafka's frames: a 4-byte size, then that many bytes. Requests and answers look alike; the role says which is read.

Source: Kafka protocol guide, "Protocol Primitive Types / The size". A size that is negative or above the limit
(``socket.request.max.bytes`` on a broker) ends the connection before anything is allocated for it.
"""

from __future__ import annotations

import struct
from functools import partial

from penstock.errors import ProtocolViolation
from penstock.seams.framing import Frame
from penstock.wire.foreign import not_ours, spoken
from penstock.wire.sized import SizedBodies

_CORRELATION = struct.Struct(">i")

MAX_FRAME_BYTES = 104_857_600
"""Kafka's own default of socket.request.max.bytes."""

_LEAST = {True: 4, False: 8}
"""Fewest bytes of an answer (correlation id) and of a request (key, version, correlation id)."""


class KafkaFraming:
    """Cuts frames; ``answers`` True for a client (reads responses), False for a server (reads requests)."""

    __slots__ = ("_answers", "_bodies", "_whole", "need")

    def __init__(self, *, answers: bool, limit: int = MAX_FRAME_BYTES) -> None:
        self._answers = answers
        self._bodies = SizedBodies("Kafka", partial(_foreign, answers), least=_LEAST[answers], limit=limit)
        self.need = self._bodies.need
        self._whole = self._bodies.whole

    def feed(self, chunk: memoryview) -> Frame | None:
        body = self._bodies.feed(chunk)
        if body is None:
            return None
        at = 0 if self._answers else 4
        correlation = int.from_bytes(body[at : at + 4], "big", signed=True)
        return Frame(correlation, self._answers, body)

    def whole(self, view: memoryview, most: int) -> Frame | int:
        """``penstock.seams.framing.TakesWhole``."""
        body = self._whole(view, most)
        if isinstance(body, int):
            return body
        return Frame(_CORRELATION.unpack_from(body, 0 if self._answers else 4)[0], self._answers, body)


def _foreign(answers: bool, head: bytes) -> ProtocolViolation | None:
    from penstock.protocols import greetings  # not above: the registry imports this folder

    said = spoken(head, greetings())
    return not_ours(said, "Kafka", "Give the port of a Kafka broker" if answers else "") if said else None
