"""The Kafka front of a node: `KafkaFront` joins its parts, `KafkaSession` serves one client's connection."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from penstock.concurrency.background import ENTRY_BYTES, BackgroundWorker, LoopBudget, RequestPacer
from penstock.concurrency.limits import Portion
from penstock.errors import PenstockError, ProtocolViolation
from penstock.interfaces.framing import Frame, Pieces
from penstock.interfaces.front import OTHER, Asker, Front, Peer
from penstock.interfaces.node import Services
from penstock.interfaces.wire import Reader, TooManyElements
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server import refusals
from penstock.protocols.kafka.server.consumer_group_service import ConsumerGroupService
from penstock.protocols.kafka.server.fetch_sessions import FetchSessions
from penstock.protocols.kafka.server.group_service import GroupService, log_rebalance
from penstock.protocols.kafka.server.handlers import TABLE, Call, Shared, handler, offered, single
from penstock.protocols.kafka.server.limits import ClientConnection, KafkaFrontOptions, Limits, PartitionQuota
from penstock.protocols.kafka.server.refusals import CODES, coded_in, codes_in, log_refusals
from penstock.protocols.kafka.server.transaction_service import GivesProducerIds, ProducerIds, TransactionService
from penstock.protocols.kafka.wire.codec import decode_prefix
from penstock.protocols.kafka.wire.framing import KafkaFraming, RequestHeader, api_of, read_header, response
from penstock.protocols.kafka.wire.framing import name_of as api_name
from penstock.protocols.kafka.wire.metadata import ApiVersionsResponse, ApiVersionsResponseApiKey

__all__ = ["KafkaFront", "KafkaSession"]

# One client's connection: header, table, handler, response. One request at a time, responses in order.
#
# Source: Kafka protocol guide; KIP-511 for an ApiVersions request of an unknown version.
_API_VERSIONS = 18
_AT_ONCE = 2_000
"""Entries that are decoded or encoded within a few milliseconds; more go to a thread."""
_TOLD = 20
"""The most codes of one answer that are logged."""


class KafkaSession:
    """``penstock.interfaces.front.Session``."""

    def __init__(self, shared: Shared, peer: Peer, ended: Callable[[KafkaSession], None]) -> None:
        self._shared = shared
        self._ended = ended
        self._now = shared.meter.now
        self._meter = shared.meter
        self.line = ClientConnection(peer.address)

    @property
    def ordered(self) -> bool:
        return True

    @property
    def at_once(self) -> bool:
        return self._shared.enode.near

    def framing(self) -> KafkaFraming:
        return KafkaFraming(answers=False)

    async def handle(self, frame: Frame) -> Pieces | None:
        """Serve one request. Raises ProtocolViolation, which closes the connection, if it cannot be answered."""
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
            # Bytes after the request are ignored, as in Kafka: librdkafka asks for all topics (Metadata v12) with the
            # array's count in four bytes, of which only the first is meant.
            request: object = decode_prefix(pair.request, header.api_version, body)
        except TooManyElements:
            body.at = begins
            return await self._handle_large(header, pair.request, body, began)
        return await self._answer(header, request, began)

    async def _throttle(self) -> None:
        """Serve nothing for the throttle time; stop waiting if the client disconnects."""
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
        """Serve a request of many entries: decoded in a thread, within the memory limit for such requests."""
        shared = self._shared
        most = shared.options.max_request_entries
        async with shared.large.held(min(most, body.left() // 2) * ENTRY_BYTES) as hold:
            body.limit(most)
            try:
                request = await shared.worker.run(lambda: decode_prefix(kind, header.api_version, body))
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
        notes = refusals.begin()
        shared, key = self._shared, header.api_key
        pace = shared.pace()
        call = Call(shared, self.line, header.api_version, header.client_id or "", pace, large)
        try:
            answer = await handler(key)(call, request)
            self._meter.answered(key, self._now() - began)
            if answer is None:
                return None
            if large or pace.entries > _AT_ONCE:
                pieces, found = await shared.worker.run(partial(_packed, answer, header))
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
                log_refusals(self._meter, asker, key, request, islice(coded_in(answer), _TOLD), notes)
        return pieces

    def lost(self) -> None:
        """Wake this client's waiting requests. Its group members stay until their sessions expire."""
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
    """The encoded answer, and the error codes in it."""
    return response(answer, header.api_version, header.correlation_id), codes_in(answer)


# The front: makes sessions, starts and stops the shared parts.
_log = logging.getLogger("penstock.node")
_SCHEME: Final = "kafka"
_LARGE_SHARE: Final = 4
"""Requests of many entries may together take this fraction of the memory."""


class KafkaFront(Front):
    """``penstock.interfaces.front.Front``."""

    def __init__(self, services: Services, options: KafkaFrontOptions | None = None) -> None:
        self._sessions: set[KafkaSession] = set()
        options = options or KafkaFrontOptions()
        runtime = services.runtime
        behind: object = services.enode.relay(_SCHEME)
        asked = behind.producer_id if isinstance(behind, GivesProducerIds) else None
        ids = ProducerIds(services.identity.epoch, asked)
        limits = Limits(
            options, services.memory, PartitionQuota(options, services.memory, services.enode, runtime.monotonic)
        )
        newer = ConsumerGroupService(options.newer_groups, services, log_rebalance, limits.members, limits.groups)
        groups = GroupService(
            options.groups,
            newer,
            services.offsets,
            runtime,
            near=services.enode.near,
            held=limits.members,
            kept=limits.groups,
        )
        turns = LoopBudget(runtime)
        self._shared = Shared(
            services,
            options,
            groups,
            FetchSessions(options.fetch_sessions, runtime.random_bytes, services.memory, options.address_share_percent),
            ids,
            TransactionService(
                services,
                ids,
                partitions=options.transaction_partitions,
                max_timeout_ms=options.transaction_max_timeout_ms,
                kept=limits.ids,
            ),
            BackgroundWorker(runtime, services.memory),
            turns,
            offered(services.enode.abilities),
            services.meters.front("kafka", api_name, CODES),
            Portion(services.memory, services.memory.limit // _LARGE_SHARE, runtime.promise),
            limits,
            partial(RequestPacer, turns, services.memory, options.max_answer_entries),
        )
        self._shared.meter.levels.update(
            held=lambda: sum(each.line.held for each in self._sessions),
            groups=lambda: sum(1 for _ in self._shared.groups.coordinator.groups()),
            members=self._members,
        )

    @property
    def scheme(self) -> str:
        return _SCHEME

    async def start(self) -> None:
        """Load groups and transactions from the log. Raises ProtocolViolation for damaged records."""
        await self._shared.transactions.start()
        await self._shared.groups.start()
        await self._shared.limits.room.look()
        self._shared.services.runtime.spawn(self._expire(), "expire committed offsets and transactional ids")

    def session(self, peer: Peer) -> KafkaSession:
        session = KafkaSession(self._shared, peer, self._sessions.discard)
        self._sessions.add(session)
        return session

    async def stop(self) -> None:
        """Answer waiting requests: fetches with the data there is, joins and syncs with a retriable error."""
        self._shared.groups.stop()
        self._shared.transactions.stop()
        for session in self._sessions:
            session.line.release()

    def _members(self) -> int:
        return sum(len(group.members) for group in self._shared.groups.coordinator.groups())

    async def _expire(self) -> None:
        options = self._shared.options
        while True:
            await self._shared.services.runtime.sleep(options.offsets_check_interval_ms / 1_000)
            try:
                await self._shared.groups.expire_offsets(options.offsets_retention_ms)
                await self._shared.transactions.forget_unused(options.transactional_id_expiration_ms)
                await self._shared.limits.room.look()
            except PenstockError as error:
                _log.warning("cannot forget what is too old, will try again: %s", error)
