"""The table of served APIs, and the shared parts of all handlers.

`TABLE` has the handler and the versions of each API key. `Call` and `Shared` are a handler's context, and
`FailedSequences` keeps the order of idempotent producers.
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.background import BackgroundWorker, LoopBudget, RequestPacer
from penstock.concurrency.limits import Portion
from penstock.concurrency.runtime import retry_while_unreachable
from penstock.errors import OutOfOrderSequence, PenstockError, UpstreamLost
from penstock.interfaces.enode import Abilities, Enode, TopicState
from penstock.interfaces.framing import Buffer, Pieces
from penstock.interfaces.front import Meter
from penstock.interfaces.node import Offsets, Services
from penstock.model import Endpoint, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.fetch_sessions import FetchSessions
from penstock.protocols.kafka.server.group_service import GroupService
from penstock.protocols.kafka.server.limits import ClientConnection, KafkaFrontOptions, Limits
from penstock.protocols.kafka.server.topic_options import Rules
from penstock.protocols.kafka.server.transaction_service import ProducerIds, TransactionService
from penstock.records.batch import HEADER_BYTES

__all__ = [
    "FEATURES",
    "MAX_FAILED",
    "TABLE",
    "Call",
    "FailedSequences",
    "Handler",
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
