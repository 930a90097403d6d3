"""One Kafka client's connection: header, table, handler, answer. One request at a time, answers in order.

Source: Kafka protocol guide; KIP-511 for what happens to an ApiVersions request that is too new.
"""

from __future__ import annotations

from collections.abc import Callable

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
from penstock.seams.framing import Frame, Pieces
from penstock.seams.front import Peer
from penstock.seams.meters import OTHER
from penstock.seams.refusals import Asker

__all__ = ["KafkaSession"]

_API_VERSIONS = 18


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
        notes = why.begin()
        pair = api_of(header.api_key)
        assert pair is not None
        # What follows the request is not looked at, as in Kafka: librdkafka asks for all topics (Metadata v12) with the
        # count of its array in four bytes, of which only the first is meant.
        request: object = decode_prefix(pair.request, header.api_version, body)
        call = Call(self._shared, self.line, header.api_version, header.client_id or "")
        answer = await handler(header.api_key)(call, request)
        self._meter.answered(header.api_key, self._now() - began)
        if answer is not None and (found := codes_in(answer)):
            for code in found:
                self._meter.refused(header.api_key, code)
            if not all(map(self._meter.is_usual, found)):
                asker = Asker(header.client_id or "", self.line.address)
                tell(self._meter, asker, header.api_key, request, coded_in(answer), notes)
        return None if answer is None else response(answer, header.api_version, header.correlation_id)

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
