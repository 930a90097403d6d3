"""The operator's options of the Kafka front, and the limits on the memory that clients can occupy in a node."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct, field

from penstock.concurrency.limits import Memory, Shares
from penstock.concurrency.runtime import WaiterSet
from penstock.errors import PenstockError, UpstreamLost
from penstock.interfaces.enode import Enode
from penstock.interfaces.node import OWN_TOPICS
from penstock.model import Endpoint
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

__all__ = [
    "DAY_MS",
    "LARGEST_RECORD",
    "MORE_ROOM",
    "NO_ROOM",
    "ClientConnection",
    "KafkaFrontOptions",
    "Limits",
    "PartitionQuota",
    "is_internal",
    "no_room",
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
      ``max_answer_entries``: the same for a response, which may have many entries per entry of its request.
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


_INTERNAL = frozenset({OffsetsLog.topic, "__transaction_state", "__share_group_state"})


def is_internal(topic: str) -> bool:
    """Whether it is an internal topic of the node, or of the cluster behind it. Clients may only read such a topic."""
    return topic in _INTERNAL or topic.startswith(OWN_TOPICS)


class ClientConnection(WaiterSet):
    """One client's connection as handlers see it: its address, and whether the client still waits for a response.

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


# Limits on the memory that clients occupy in a node: in total, per address and per connection.
#
# A real broker has no such totals. Fetch sessions are limited by `fetch_sessions`, large requests and responses by
# `RequestPacer`.

MORE_ROOM: Final = "raise the option in brackets, or use fewer"
"""The hint for a refusal of `Shares`, whose text names the share and the option."""
_REQUEST_BYTES, _PARTITION_OF_REQUEST_BYTES = 2_000, 400
_TRANSACTION_BYTES, _PARTITION_OF_TRANSACTION_BYTES = 800, 200
_PARTITION_BYTES = 1_600
"""Memory of an empty partition in the embedded log: measured."""
NO_ROOM: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The code for limits that a real broker does not have: clients back off and retry until there is room."""
_LOOK_AGAIN_S = 1.0
"""The pause between two recounts: a request may ask for thousands of topics that are all refused."""
_PART = 8
"""Held requests, and partitions, may each take this fraction of the memory."""


def no_room(why: PenstockError) -> ErrorCode:
    """The code for a refusal that a limit causes. Its text goes to the log."""
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

    def hold(self, connection: ClientConnection, partitions: int = 0) -> str | None:
        """Register a connection's waiting request. Returns the reason if it may not wait; else ends with `let_go`."""
        return self._held.put(connection, connection, _REQUEST_BYTES + partitions * _PARTITION_OF_REQUEST_BYTES)

    def let_go(self, connection: ClientConnection) -> None:
        """The request no longer waits."""
        self._held.drop(connection)

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
