"""The Kafka front of a node: `KafkaFront` joins its parts, `KafkaSession` serves one client's connection.

`TABLE` has the handler and the versions of each API key. `Call` and `Shared` are a handler's context, and
`FailedSequences` keeps the order of idempotent producers.
"""

from __future__ import annotations

import functools
import importlib
import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.background import ENTRY_BYTES, BackgroundWorker, LoopBudget, RequestPacer
from penstock.concurrency.limits import Portion
from penstock.concurrency.runtime import retry_while_unreachable
from penstock.errors import OutOfOrderSequence, PenstockError, ProtocolViolation, UpstreamLost
from penstock.interfaces.enode import Abilities, Enode, TopicState
from penstock.interfaces.framing import Buffer, Frame, Pieces
from penstock.interfaces.front import OTHER, Asker, Front, Meter, Peer
from penstock.interfaces.node import Offsets, Services
from penstock.interfaces.wire import Reader, TooManyElements
from penstock.model import Endpoint, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server import refusals
from penstock.protocols.kafka.server.consumer_group_service import ConsumerGroupService
from penstock.protocols.kafka.server.fetch_sessions import FetchSessions
from penstock.protocols.kafka.server.group_service import GroupService, log_rebalance
from penstock.protocols.kafka.server.limits import ClientConnection, KafkaFrontOptions, Limits, PartitionQuota
from penstock.protocols.kafka.server.refusals import CODES, coded_in, codes_in, log_refusals
from penstock.protocols.kafka.server.topic_options import Rules
from penstock.protocols.kafka.server.transaction_service import GivesProducerIds, ProducerIds, TransactionService
from penstock.protocols.kafka.wire.codec import decode_prefix
from penstock.protocols.kafka.wire.framing import KafkaFraming, RequestHeader, api_of, read_header, response
from penstock.protocols.kafka.wire.framing import name_of as api_name
from penstock.protocols.kafka.wire.metadata import ApiVersionsResponse, ApiVersionsResponseApiKey
from penstock.records.batch import HEADER_BYTES

__all__ = [
    "FEATURES",
    "MAX_FAILED",
    "TABLE",
    "Call",
    "FailedSequences",
    "Handler",
    "KafkaFront",
    "KafkaSession",
    "Numbers",
    "Row",
    "Shared",
    "Single",
    "features",
    "handler",
    "numbers_of",
    "offered",
    "single",
]

# Failed batches of idempotent producers, remembered if the log behind does not check sequence numbers.
#
# A producer has up to five batches in flight. If one fails and the next is stored, Kafka's producers conclude that the
# failed one is stored as well, because a broker would have refused a gap. So the node must refuse the later batches,
# too, until the failed one has come again. Nothing else is remembered: a batch that is sent twice is stored twice.
#
# | batch that arrives after one with first number ``n`` failed | result |
# | --- | --- |
# | of the same epoch, beginning with ``n`` | accepted; once it is stored, the failure is forgotten |
# | of the same epoch, any other | OUT_OF_ORDER_SEQUENCE_NUMBER |
# | of a later epoch: the producer has noticed the failure and started a new epoch | accepted |
#
# librdkafka 2.x takes an acknowledgement of one batch as an acknowledgement of all earlier ones. Source: KIP-98; Apache
# Kafka 4.x, ``ProducerAppendInfo``.

MAX_FAILED: Final = 100_000
"""The most remembered pairs of partition and producer, about 30 MB; beyond that the oldest is forgotten."""

_NUMBERS: Final = struct.Struct(">qhi")
_NUMBERS_AT: Final = 43


class Numbers(Struct, frozen=True):
    """A producer's id, its epoch, and the number of the batch's first record."""

    producer_id: int
    epoch: int
    first: int


def numbers_of(records: Buffer | None) -> Numbers | None:
    """The numbers in a batch of format 2, which is not checked otherwise; None if it has no producer id."""
    if records is None or len(records) < HEADER_BYTES:
        return None
    found = Numbers(*_NUMBERS.unpack_from(records, _NUMBERS_AT))
    return found if found.producer_id >= 0 else None


class FailedSequences:
    """The failed batches of a front; each front has one."""

    def __init__(self) -> None:
        self._failed: dict[tuple[Partition, int], Numbers] = {}

    def __bool__(self) -> bool:
        return bool(self._failed)

    def check(self, partition: Partition, numbers: Numbers) -> None:
        """Raises OutOfOrderSequence for a batch that does not follow the stored ones."""
        failed = self._failed.get((partition, numbers.producer_id))
        if failed is not None and numbers.epoch <= failed.epoch and numbers != failed:
            raise OutOfOrderSequence(
                f"producer {numbers.producer_id} sent number {numbers.first}, and {failed.first} is not stored yet",
                topic=partition.topic,
                partition=partition.id,
            )

    def note(self, partition: Partition, numbers: Numbers, failure: PenstockError | None) -> None:
        """Note a batch's outcome."""
        key = partition, numbers.producer_id
        known = self._failed.get(key)
        if known is not None and numbers.epoch <= known.epoch and numbers != known:
            return  # refused because of the failed batch, or it passed the check before that one failed
        if failure is None:
            self._failed.pop(key, None)
            return
        self._failed[key] = numbers
        if len(self._failed) > MAX_FAILED:
            del self._failed[next(iter(self._failed))]


# The context of a handler: the client, the version, and the front's shared parts.
class Shared(Struct, frozen=True):
    """The parts that all handlers of a front share.

    ``offered``: the rows of the table that this node serves. ``pace`` makes a pacer for a new request. ``rules``: the
    topics' rules for batches, each with the topic and the defaults from which it was made.
    """

    services: Services
    options: KafkaFrontOptions
    groups: GroupService
    sessions: FetchSessions
    producer_ids: ProducerIds
    transactions: TransactionService
    worker: BackgroundWorker
    turns: LoopBudget
    offered: Mapping[int, Row]
    meter: Meter
    large: Portion
    limits: Limits
    pace: Callable[[], RequestPacer]
    failed_sequences: FailedSequences = field(default_factory=FailedSequences)
    rules: dict[str, tuple[TopicState, Mapping[str, str], Rules]] = field(default_factory=dict)

    @property
    def enode(self) -> Enode:
        return self.services.enode

    @property
    def offsets(self) -> Offsets:
        return self.services.offsets

    @property
    def node_id(self) -> int:
        return self.services.identity.node_id

    @property
    def advertised(self) -> Endpoint:
        """This node's address for Kafka clients."""
        return self.services.identity.advertised["kafka"]

    async def config_of(self, topic: TopicState) -> Mapping[str, str]:
        """A topic's effective options: its own, and the defaults for the others."""
        defaults = await self.enode.defaults()
        return {**defaults, **topic.config} if defaults else topic.config

    async def fault_of(self, partition: Partition, lost: ErrorCode) -> ErrorCode:
        """UNKNOWN_TOPIC_OR_PARTITION if the partition does not exist; ``lost`` if that cannot be determined now."""
        try:
            topic = await self.enode.topic(partition.topic)
        except UpstreamLost:
            return lost
        there = topic is not None and 0 <= partition.id < topic.partitions
        return ErrorCode.NONE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def name_of(self, topic_id: bytes, lost: ErrorCode) -> str | ErrorCode:
        """The topic's name; UNKNOWN_TOPIC_ID for an unknown id; ``lost`` if that cannot be determined now."""
        try:
            found = await self.enode.topic_by_id(topic_id)
        except UpstreamLost:
            return lost
        return ErrorCode.UNKNOWN_TOPIC_ID if found is None else found.name

    async def all_topics(self) -> Sequence[TopicState]:
        """All topics; retried for a while, because responses that list topics have no field for an error."""
        return await retry_while_unreachable(self.services.runtime, self.enode.topics)


class Call(NamedTuple):
    """One request's context. A handler charges ``pace`` for each entry that it processes."""

    shared: Shared
    connection: ClientConnection
    version: int
    client_id: str
    pace: RequestPacer
    large: bool = False
    """Whether it has so many entries that its memory is limited. Other large requests may have to wait for its end."""


Handler = Callable[[Call, Any], Awaitable[object | None]]
"""Returns the response message, or None for no response (Produce with acks=0)."""


# The served APIs: versions, handlers, and the abilities that they need from the log behind.
#
# ApiVersions advertises exactly these rows, except those that need an ability which the log lacks. Clients then report
# that the broker does not support the request. Ranges begin as low as possible, because librdkafka before 2.12 turns
# features on only if its old versions overlap. SASL (17, 36) is not served; it is left out so that clients do not try
# it.
class Row(NamedTuple):
    """An API's versions and handler.

    ``handler`` is "module.function" below `apis`; it is imported with its first request.

    ``single``: likewise, a fast path that is tried first, because most requests of this key are alike; see `Single`.
    """

    handler: str
    lowest: int
    highest: int
    needs: frozenset[str] = frozenset()
    """`Abilities` without which the row is not advertised."""
    single: str = ""


Single = Callable[[Shared, ClientConnection, memoryview], Awaitable[Pieces | None]]
"""Answers a request from its bytes, or returns None, without side effects, to leave it to the handler."""


_TOPICS, _OPTIONS, _SIZES, _DELETION, _SEQUENCES, _NUMBERED, _EPOCHS, _TRANSACTIONS = (
    frozenset({each})
    for each in ("topics", "options", "sizes", "deletion", "sequences", "numbered", "epochs", "transactions")
)
TABLE: Final[Mapping[int, Row]] = {
    # Versions 0-2 have message formats that may not be produced any more; they are answered with an error. They must be
    # advertised, because librdkafka turns its producer off otherwise (KAFKA-18659).
    0: Row("produce.produce", 0, 13, single="produce.produce_single"),
    1: Row("fetch.fetch", 4, 18),
    2: Row("fetch.list_offsets", 1, 11),
    3: Row("metadata.metadata", 0, 13),
    8: Row("offsets.commit", 2, 10),
    9: Row("offsets.fetch", 1, 10),
    10: Row("groups.find_coordinator", 0, 6),
    11: Row("groups.join_group", 0, 9),
    12: Row("groups.heartbeat", 0, 4),
    13: Row("groups.leave_group", 0, 5),
    14: Row("groups.sync_group", 0, 5),
    15: Row("groups.describe_groups", 0, 6),
    16: Row("groups.list_groups", 0, 5),
    18: Row("metadata.api_versions", 0, 5),
    19: Row("topics.create_topics", 0, 7, _TOPICS),
    20: Row("topics.delete_topics", 0, 6, _TOPICS),
    21: Row("topics.delete_records", 0, 2, _DELETION),
    22: Row("produce.init_producer_id", 0, 5, _NUMBERED),
    23: Row("cluster.offset_for_leader_epoch", 0, 4, _EPOCHS),
    24: Row("transactions.add_partitions", 0, 3, _TRANSACTIONS),
    25: Row("transactions.add_offsets", 0, 4, _TRANSACTIONS),
    26: Row("transactions.end", 0, 5, _TRANSACTIONS),
    27: Row("transactions.write_markers", 1, 2, _TRANSACTIONS),
    28: Row("transactions.commit_offsets", 0, 6, _TRANSACTIONS),
    29: Row("cluster.describe_acls", 1, 3),
    32: Row("configs.describe_configs", 0, 4),
    33: Row("configs.alter_configs", 0, 2, _OPTIONS),
    34: Row("cluster.alter_replica_log_dirs", 1, 2, _SIZES),
    35: Row("cluster.describe_log_dirs", 1, 5, _SIZES),
    37: Row("topics.create_partitions", 0, 3, _TOPICS),
    42: Row("groups.delete_groups", 0, 3),
    43: Row("cluster.elect_leaders", 0, 2),
    44: Row("configs.incremental_alter_configs", 0, 1, _OPTIONS),
    45: Row("cluster.alter_reassignments", 0, 1),
    46: Row("cluster.list_reassignments", 0, 0),
    47: Row("offsets.delete", 0, 0),
    48: Row("cluster.describe_client_quotas", 0, 1),
    49: Row("cluster.alter_client_quotas", 0, 1),
    50: Row("cluster.describe_scram_credentials", 0, 0),
    55: Row("cluster.describe_quorum", 0, 2),
    60: Row("cluster.describe_cluster", 0, 2),
    61: Row("transactions.describe_producers", 0, 0, _SEQUENCES),
    65: Row("transactions.describe", 0, 0, _TRANSACTIONS),
    66: Row("transactions.list_all", 0, 2, _TRANSACTIONS),
    68: Row("groups.consumer_group_heartbeat", 0, 1),
    69: Row("groups.describe_consumer_groups", 0, 1),
    74: Row("configs.list_config_resources", 0, 1),
    75: Row("cluster.describe_topic_partitions", 0, 0),
    76: Row("groups.share_heartbeat", 1, 1),
}


FEATURES: Final[Mapping[str, int]] = {"group.version": 1, "transaction.version": 2}
"""Features with their finalized level (KIP-584). Transactions of the second version (KIP-890) begin with Produce v12
and TxnOffsetCommit v5; clients that do not know them, or see a lower level, use the first. Group level 1 adds KIP-848
groups to the classic ones. Features that are not served have no level."""


def offered(abilities: Abilities) -> Mapping[int, Row]:
    """The rows whose needs the log behind meets."""
    return {key: row for key, row in TABLE.items() if not abilities.lacks(row.needs)}


def features(abilities: Abilities) -> Mapping[str, int]:
    """The enabled features over such a log."""
    return {name: level for name, level in FEATURES.items() if abilities.transactions or name != "transaction.version"}


@functools.cache
def handler(key: int) -> Handler:
    """The handler of a key in the table."""
    found: Handler = _function(TABLE[key].handler)
    return found


@functools.cache
def single(key: int) -> Single | None:
    """The fast path of a key, which is tried before its handler; None if there is none."""
    row = TABLE.get(key)
    found: Single | None = _function(row.single) if row is not None and row.single else None
    return found


def _function(name: str) -> Any:
    module, function = name.split(".")
    return getattr(importlib.import_module(f"penstock.protocols.kafka.server.apis.{module}"), function)


# One client's connection: header, table, handler, response. One request at a time, responses in order.
#
# Source: Kafka protocol guide; KIP-511 for an ApiVersions request of an unknown version.

_API_VERSIONS = 18
_AT_ONCE = 2_000
"""Entries that are decoded or encoded within a few milliseconds; more go to a thread."""
_MOST_LOGGED = 20
"""The most codes of one answer that are logged."""


class KafkaSession:
    """``penstock.interfaces.front.Session``."""

    def __init__(self, shared: Shared, peer: Peer, ended: Callable[[KafkaSession], None]) -> None:
        self._shared = shared
        self._ended = ended
        self._now = shared.meter.now
        self._meter = shared.meter
        self.connection = ClientConnection(peer.address)

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
        if self.connection.throttled_s:
            await self._throttle()
        began = self._now()
        ask = single(key := int.from_bytes(frame.body[:2], "big"))
        if ask is not None and (packed := await ask(self._shared, self.connection, frame.body)) is not None:
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
        timer = runtime.call_later(self.connection.throttled_s, lambda: over.set(None))
        self.connection.throttled_s = 0.0
        try:
            await self.connection.park(over)
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
                    Asker(header.client_id or "", self.connection.address),
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
        call = Call(shared, self.connection, header.api_version, header.client_id or "", pace, large)
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
                asker = Asker(header.client_id or "", self.connection.address)
                log_refusals(self._meter, asker, key, request, islice(coded_in(answer), _MOST_LOGGED), notes)
        return pieces

    def lost(self) -> None:
        """Wake this client's waiting requests. Its group members stay until their sessions expire."""
        self.connection.release()
        self._ended(self)

    def _refuse(self, header: RequestHeader) -> Pieces:
        if header.api_key == _API_VERSIONS:
            row = TABLE[_API_VERSIONS]
            keys = [ApiVersionsResponseApiKey(api_key=_API_VERSIONS, min_version=row.lowest, max_version=row.highest)]
            answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)
            return response(answer, 0, header.correlation_id)
        self._meter.tell(
            Asker(header.client_id or "", self.connection.address),
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
            held=lambda: sum(each.connection.held for each in self._sessions),
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
            session.connection.release()

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
