"""The table of served APIs, and the shared parts of all handlers.

`TABLE` has the handler and the versions of each API key. `Call` and `Shared` are a handler's context,
`KafkaFrontOptions` the operator's options, `Limits` and `PartitionQuota` bound the memory that clients can occupy, and
`FailedSequences` keeps the order of idempotent producers.
"""

from __future__ import annotations

import functools
import importlib
import math
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.background import BackgroundWorker, LoopBudget, RequestPacer
from penstock.concurrency.limits import Memory, Portion, Shares
from penstock.concurrency.runtime import WaiterSet, retry_while_unreachable
from penstock.errors import OutOfOrderSequence, PenstockError, UpstreamLost
from penstock.interfaces.enode import Abilities, Enode, TopicState
from penstock.interfaces.framing import Buffer, Pieces
from penstock.interfaces.front import Meter
from penstock.interfaces.node import OWN_TOPICS, Offsets, Services
from penstock.model import Endpoint, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import (
    GroupSettings,
    HeldByMembers,
    KeptGroups,
    held_by_members,
    kept_groups,
)
from penstock.protocols.kafka.groups.consumer_group import ConsumerGroupSettings
from penstock.protocols.kafka.server.refusals import Refused, code_of
from penstock.protocols.kafka.wire.stored_records import OffsetsLog
from penstock.records.batch import HEADER_BYTES

if TYPE_CHECKING:
    from penstock.protocols.kafka.server.apis.produce import Rules
    from penstock.protocols.kafka.server.fetch_sessions import FetchSessions
    from penstock.protocols.kafka.server.group_service import GroupService
    from penstock.protocols.kafka.server.transaction_service import ProducerIds, TransactionService

__all__ = [
    "FEATURES",
    "MAX_FAILED",
    "MORE_ROOM",
    "NO_ROOM",
    "TABLE",
    "Call",
    "ClientConnection",
    "FailedSequences",
    "Handler",
    "KafkaFrontOptions",
    "Limits",
    "Numbers",
    "PartitionQuota",
    "Row",
    "Shared",
    "Single",
    "features",
    "handler",
    "is_internal",
    "no_room",
    "numbers_of",
    "offered",
    "single",
]

# The operator's options of the Kafka front, named as Kafka's broker options.
DAY_MS = 86_400_000
LARGEST_RECORD = 2**31 - 9
"""Bytes; Kafka's limit if none is set."""


class KafkaFrontOptions(Struct, frozen=True, kw_only=True):
    """Defaults are Kafka's where Kafka has them.

    - ``default_partitions`` (``num.partitions``) is 1: a total order within a topic, unless its creator asks for more
      partitions. ``max_partitions``: of a new topic.
    - ``max_message_bytes``: the largest batch, unless the topic has its own limit. ``fetch_max_bytes``: the largest
      answer to one Fetch.
    - ``check_records``: check the records of each batch before it is stored (compressed batches are inflated for it, up
      to ``max_inflated_bytes``). Without it a producer's bug could store a batch that stops every consumer, or that has
      a time by which records are deleted too early. It costs 0.1 to 0.2 µs per record.
    - ``max_request_entries``: of one request, in all its arrays together (Kafka: no limit). An entry of four bytes
      becomes objects of a thousand bytes, and a garbage collection over more of them would stop the node's event loop.
      ``max_answer_entries``: the same for an answer, which may have many entries per entry of its request.
    - ``fetch_sessions``: incremental sessions. ``max_held``: fetches that wait. ``max_transactional_ids``: including
      ids without a transaction, until they expire. ``max_groups``: including groups without members, until their
      offsets expire. ``max_topic_partitions``: of all topics in the embedded log. Kafka has no such totals, apart from
      that of sessions.
    - ``address_share_percent``: the part of each total that one address may have. One connection may have a twentieth
      of those that belong to connections (`concurrency.limits`).
    - ``transaction_partitions``: of the topic that stores transactional ids; fixed when that topic is created.
    """

    auto_create_topics: bool = True
    default_partitions: int = 1
    max_partitions: int = 10_000
    max_message_bytes: int = 1_048_588
    fetch_max_bytes: int = 57_671_680
    check_records: bool = True
    max_inflated_bytes: int = 256 << 20
    max_request_entries: int = 50_000
    max_answer_entries: int = 200_000
    fetch_sessions: int = 1_000
    max_held: int = 50_000
    max_transactional_ids: int = 40_000
    max_groups: int = 16_000
    max_topic_partitions: int = 40_000
    address_share_percent: int = 50
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * DAY_MS
    offsets_check_interval_ms: int = 600_000
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * DAY_MS
    transaction_partitions: int = 50
    groups: GroupSettings = field(default_factory=GroupSettings)
    newer_groups: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)


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
# | of a later epoch: the producer knows of the failure, and has begun again | accepted |
#
# Source: KIP-98; Apache Kafka 4.x, ``ProducerAppendInfo``; librdkafka 2.x takes an acknowledgement for one of all
# earlier batches.
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
_INTERNAL = frozenset({OffsetsLog.topic, "__transaction_state", "__share_group_state"})


def is_internal(topic: str) -> bool:
    """Whether it is a topic of the node, or of the cluster behind it: clients may only read it."""
    return topic in _INTERNAL or topic.startswith(OWN_TOPICS)


class Shared(Struct, frozen=True):
    """The parts that all handlers of a front share. ``offered``: the rows of the table that this node serves.

    ``pace`` makes a pacer for a new request. ``rules``: the topics' rules for batches, with the topic and the defaults
    that they were made from.
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


class ClientConnection(WaiterSet):
    """One client's connection as handlers see it: its address, and whether the client still waits for an answer.

    ``host`` is the address as Kafka's tools show it, with a slash before. ``throttled_s``: how long its next request is
    delayed, even if the client ignores the throttle time in its last response (KIP-219).
    """

    __slots__ = ("__weakref__", "address", "throttled_s")

    def __init__(self, address: Endpoint) -> None:
        super().__init__()
        self.address = address
        self.throttled_s = 0.0

    @property
    def host(self) -> str:
        return f"/{self.address.host}"


class Call(NamedTuple):
    """One request's context. ``pace``: every handler spends it for each entry that it processes."""

    shared: Shared
    line: ClientConnection
    version: int
    client_id: str
    pace: RequestPacer
    large: bool = False
    """Whether it has so many entries that its memory is limited: other large requests may wait for its end."""


Handler = Callable[[Call, Any], Awaitable[object | None]]
"""Returns the response message, or None for no response (Produce with acks=0)."""


# The served APIs: versions, handlers, and the abilities that they need from the log behind.
#
# ApiVersions advertises exactly these rows, except those that need an ability which the log lacks: clients then report
# by themselves that the broker cannot do it. Ranges begin as low as possible, because librdkafka before 2.12 turns
# features on only if its old versions overlap. SASL (17, 36) is not served; it is left out so that clients do not try
# it.
class Row(NamedTuple):
    """``handler`` is "module.function" below `apis`; it is imported with its first request.

    ``single``: likewise, a function that is tried first, because most requests of this key are alike: see `Single`.
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
    """The function that is tried before the handler of a key; None if there is none."""
    row = TABLE.get(key)
    found: Single | None = _function(row.single) if row is not None and row.single else None
    return found


def _function(name: str) -> Any:
    module, function = name.split(".")
    return getattr(importlib.import_module(f"penstock.protocols.kafka.server.apis.{module}"), function)


# Limits on what clients make a node keep, in total, per address and per connection.
#
# A real broker has no such totals. Fetch sessions are limited by `fetch_sessions`, large requests and answers by
# `RequestPacer`.
MORE_ROOM: Final = "raise the option in brackets, or use fewer"
"""The hint for a refusal of `Shares`, whose text names the share and the option."""
_REQUEST_BYTES, _PARTITION_OF_REQUEST_BYTES = 2_000, 400
_TRANSACTION_BYTES, _PARTITION_OF_TRANSACTION_BYTES = 800, 200
_PARTITION_BYTES = 1_600
"""Memory of an empty partition in the embedded log: measured."""
NO_ROOM: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The code for limits that a real broker does not have: clients back off and retry, and there may be room by then."""
_LOOK_AGAIN_S = 1.0
"""The pause between two recounts: a request may ask for thousands of topics that are all refused."""
_PART = 8
"""Held requests, and partitions, may each take this fraction of the memory."""


def no_room(why: PenstockError) -> ErrorCode:
    """The code for a coordinator's refusal; its text goes to the log."""
    return ErrorCode(code_of(Refused(NO_ROOM, why.message, hint=MORE_ROOM)))


class Limits:
    """The limits of a front.

    ``ids``: transactional ids with their transactions; ``members``: data of group members; ``groups``: with or without
    members; ``room``: partitions of topics.
    """

    def __init__(self, options: KafkaFrontOptions, memory: Memory, room: PartitionQuota) -> None:
        percent = options.address_share_percent
        self._held: Shares[ClientConnection] = Shares(
            "held requests", "max_held", options.max_held, memory, percent, _PART
        )
        self.ids: Shares[str] = Shares(
            "transactional ids", "max_transactional_ids", options.max_transactional_ids, memory, percent
        )
        self.members: HeldByMembers = held_by_members(memory, percent)
        self.groups: KeptGroups = kept_groups(options.max_groups, memory, percent)
        self.room = room

    def hold(self, line: ClientConnection, partitions: int = 0) -> str | None:
        """Register a connection's waiting request. Returns the reason if it may not wait; else ends with `let_go`."""
        return self._held.put(line, line, _REQUEST_BYTES + partitions * _PARTITION_OF_REQUEST_BYTES)

    def let_go(self, line: ClientConnection) -> None:
        """The request no longer waits."""
        self._held.drop(line)

    @property
    def held(self) -> int:
        """The number of waiting requests."""
        return len(self._held)

    @staticmethod
    def size_of_transaction(partitions: int) -> int:
        """Memory of a transactional id with the partitions of its transaction, in bytes."""
        return _TRANSACTION_BYTES + partitions * _PARTITION_OF_TRANSACTION_BYTES


class PartitionQuota:
    """The limit on partitions in the embedded log: in total, and per address that created them.

    Topics that existed at the node's start, or that another front created, have no owner. A cluster behind the node has
    its own limits.
    """

    def __init__(self, options: KafkaFrontOptions, memory: Memory, enode: Enode, now: Callable[[], float]) -> None:
        self._enode = enode
        self._now = now
        self._looked_at = -math.inf
        self._shares: Shares[str] = Shares(
            "partitions of topics",
            "max_topic_partitions",
            options.max_topic_partitions,
            memory,
            options.address_share_percent,
            _PART,
        )

    def __len__(self) -> int:
        return len(self._shares)

    async def look(self) -> None:
        """Count the existing topics: other fronts create and delete topics, too."""
        if not self._enode.near:
            return
        self._looked_at = self._now()
        try:
            there = {
                topic.name: topic.partitions for topic in await self._enode.topics() if not is_internal(topic.name)
            }
        except UpstreamLost:
            return  # counted next time
        for name in [each for each in self._shares if each not in there]:
            self._shares.drop(name)
        for name, partitions in there.items():
            if name not in self._shares:
                self._shares.take(name, None, 0, partitions)

    async def take(self, topic: str, partitions: int, host: str) -> None:
        """Reserve the partitions of a new topic for ``host``. Raises Refused (POLICY_VIOLATION)."""
        if not self._enode.near:
            return
        why = self._shares.put(topic, host, partitions * _PARTITION_BYTES, partitions)
        if why is not None and self._now() - self._looked_at >= _LOOK_AGAIN_S:
            await self.look()  # some topics may be gone
            why = self._shares.put(topic, host, partitions * _PARTITION_BYTES, partitions)
        if why is not None:
            raise Refused(ErrorCode.POLICY_VIOLATION, why, hint=MORE_ROOM)

    async def correct(self, topic: str) -> None:
        """Release a topic that was not created, or was deleted, unless it exists."""
        with suppress(UpstreamLost):  # the next count corrects it
            if self._enode.near and await self._enode.topic(topic) is None:
                self._shares.drop(topic)
