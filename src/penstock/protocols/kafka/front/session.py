"""One Kafka client's connection: header, table, handler, answer. One request at a time, answers in order.

Source: Kafka protocol guide; KIP-511 for what happens to an ApiVersions request that is too new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.framing import KafkaFraming
from penstock.protocols.kafka.front import why
from penstock.protocols.kafka.front.call import Call, Line, Shared
from penstock.protocols.kafka.front.codes import coded_in, codes_in
from penstock.protocols.kafka.front.table import TABLE, handler, single
from penstock.protocols.kafka.front.telling import tell
from penstock.protocols.kafka.messages import RequestHeader, api_of, read_header, response
from penstock.protocols.kafka.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApiKey
from penstock.protocols.kafka.messages.codec import decode_prefix
from penstock.seams.beside import ENTRY_BYTES
from penstock.seams.framing import Frame, Pieces
from penstock.seams.front import Peer
from penstock.seams.meters import OTHER
from penstock.seams.refusals import Asker
from penstock.wire import Reader, TooManyElements

__all__ = ["KafkaSession"]

_API_VERSIONS = 18
_AT_ONCE = 2_000
"""Entries that are decoded, or encoded, in a few milliseconds; more are in a thread."""
_TOLD = 20
"""Codes of one answer that the log hears of."""


class KafkaSession:
    """``penstock.seams.front.Session``."""

    def __init__(self, shared: Shared, peer: Peer, ended: Callable[[KafkaSession], None]) -> None:
        self._shared = shared
        self._ended = ended
        self._now = shared.meter.now
        self._meter = shared.meter
        self.line = Line(peer.address)

    @property
    def ordered(self) -> bool:
        return True

    @property
    def at_once(self) -> bool:
        return self._shared.enode.near

    def framing(self) -> KafkaFraming:
        return KafkaFraming(answers=False)

    async def handle(self, frame: Frame) -> Pieces | None:
        """Serve one request. Raises ProtocolViolation for what cannot be answered, as Kafka hangs up then."""
        if self.line.throttled_s:
            await self._throttle()
        began = self._now()
        ask = single(key := int.from_bytes(frame.body[:2], "big"))
        if ask is not None and (packed := await ask(self._shared, self.line, frame.body)) is not None:
            self._meter.answered(key, self._now() - began)
            return packed
        header, body = read_header(frame.body)
        row = self._shared.offered.get(header.api_key)
        if row is None or not row.lowest <= header.api_version <= row.highest:
            self._meter.refused(OTHER, ErrorCode.UNSUPPORTED_VERSION)
            return self._refuse(header)
        pair = api_of(header.api_key)
        assert pair is not None
        body.limit(_AT_ONCE)
        begins = body.at
        try:
            # What follows the request is not looked at, as in Kafka: librdkafka asks for all topics (Metadata v12) with
            # the count of its array in four bytes, of which only the first is meant.
            request: object = decode_prefix(pair.request, header.api_version, body)
        except TooManyElements:
            body.at = begins
            return await self._handle_large(header, pair.request, body, began)
        return await self._answer(header, request, began)

    async def _throttle(self) -> None:
        """Serve nothing for as long as the client was asked to wait; at once if it goes."""
        runtime, over = self._shared.services.runtime, self._shared.services.runtime.promise()
        timer = runtime.call_later(self.line.throttled_s, lambda: over.set(None))
        self.line.throttled_s = 0.0
        try:
            await self.line.park(over)
        finally:
            timer.cancel()

    async def _handle_large(
        self, header: RequestHeader, kind: type[object], body: Reader, began: float
    ) -> Pieces | None:
        """Serve a request of many entries: decoded in a thread, within the memory that such requests may take."""
        shared = self._shared
        most = shared.options.max_request_entries
        async with shared.large.held(min(most, body.left() // 2) * ENTRY_BYTES) as hold:
            body.limit(most)
            try:
                request = await shared.beside.run(lambda: decode_prefix(kind, header.api_version, body))
            except TooManyElements as error:
                self._meter.refused(header.api_key, ErrorCode.INVALID_REQUEST)
                self._meter.tell(
                    Asker(header.client_id or "", self.line.address),
                    header.api_key,
                    ErrorCode.INVALID_REQUEST,
                    why=f"a request of more than {most} entries, the client is hung up on",
                    advice="have it ask for fewer entries at once",
                )
                raise ProtocolViolation(error.message, hint="Ask for fewer entries at once") from error
            hold.change((2 * most - body.room - body.numbers) * ENTRY_BYTES)
            return await self._answer(header, request, began, large=True)

    async def _answer(
        self, header: RequestHeader, request: object, began: float, *, large: bool = False
    ) -> Pieces | None:
        notes = why.begin()
        shared, key = self._shared, header.api_key
        pace = shared.pace()
        call = Call(shared, self.line, header.api_version, header.client_id or "", pace, large)
        try:
            answer = await handler(key)(call, request)
            self._meter.answered(key, self._now() - began)
            if answer is None:
                return None
            if large or pace.entries > _AT_ONCE:
                pieces, found = await shared.beside.run(partial(_packed, answer, header))
            else:
                pieces, found = _packed(answer, header)
        finally:
            pace.end()
        if found:
            codes = Counter(found)
            for code, times in codes.items():
                self._meter.refused(key, code, times)
            if not all(map(self._meter.is_usual, codes)):
                asker = Asker(header.client_id or "", self.line.address)
                tell(self._meter, asker, key, request, islice(coded_in(answer), _TOLD), notes)
        return pieces

    def lost(self) -> None:
        """Wake what waits for this client's sake. Its group members stay until their sessions expire."""
        self.line.release()
        self._ended(self)

    def _refuse(self, header: RequestHeader) -> Pieces:
        if header.api_key == _API_VERSIONS:
            row = TABLE[_API_VERSIONS]
            keys = [ApiVersionsResponseApiKey(api_key=_API_VERSIONS, min_version=row.lowest, max_version=row.highest)]
            answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
            return response(answer, 0, header.correlation_id)
        self._meter.tell(
            Asker(header.client_id or "", self.line.address),
            OTHER,
            ErrorCode.UNSUPPORTED_VERSION,
            why=f"API key {header.api_key} in version {header.api_version} is not advertised, the client is hung up on",
            advice="have it ask ApiVersions first, which leaves out what the log behind this node cannot do",
        )
        raise ProtocolViolation(
            f"request of API key {header.api_key} in version {header.api_version}, which is not advertised",
            hint="Ask ApiVersions first",
        )


def _packed(answer: object, header: RequestHeader) -> tuple[Pieces, list[int]]:
    """An answer as it is sent, and the codes in it."""
    return response(answer, header.api_version, header.correlation_id), codes_in(answer)
