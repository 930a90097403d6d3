"""What an operator may choose about the Kafka front, named as Kafka's broker options. Data only."""

from __future__ import annotations

from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.protocols.kafka.consumer_groups import ConsumerGroupSettings
from penstock.protocols.kafka.coordinator import GroupSettings

__all__ = ["KafkaFrontOptions"]

DAY_MS = 86_400_000
LARGEST_RECORD = 2**31 - 9
"""Bytes; what Kafka takes where nothing is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFrontOptions:
    """Defaults are Kafka's where Kafka has them.

    ``default_partitions`` (``num.partitions``) 1: order over a whole topic until somebody asks for more.
    ``max_partitions`` a topic can be made with. ``max_message_bytes``: largest batch, where the topic says nothing
    else. ``fetch_max_bytes``: largest answer to one Fetch. ``check_records``: look at the records of each batch before
    it is stored (compressed ones are inflated for it), so that no producer's bug becomes a batch that stops every
    consumer, or has a time by which records are deleted too early; costs 0.1 to 0.2 µs a record.
    ``max_inflated_bytes`` bounds that inflating.
    ``max_request_entries`` of one request, in all its arrays together (Kafka: no limit): an entry of four bytes becomes
    objects of a thousand, and the objects of more would stop the node's loop when they are looked through for garbage.
    ``max_answer_entries``: the same of an answer, which may have many to a single entry of its request.
    ``fetch_sessions``: incremental sessions kept at once.
    ``max_held``: fetches that wait; ``max_transactional_ids``: with the ids whose
    transactions are over, until they expire; ``max_groups``: with those that have no members, until their offsets
    expire; ``max_topic_partitions``: of all topics in the embedded log. Kafka has no such totals; of each, one address
    may have ``address_share_percent``, and of what goes with its connection, one connection a twentieth (`limits`).
    ``transaction_partitions`` of the topic in which transactional ids are kept; chosen when it is made.
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
