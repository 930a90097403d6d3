"""What a producer has beyond a client: batches, acknowledgements, memory. Data and its bounds only."""

from __future__ import annotations

import enum
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.config.client import ClientConfig
from penstock.config.fields import choice, flag, number, optional_text
from penstock.errors import ConfigError
from penstock.model import Codec

__all__ = ["Acks", "Partitioner", "ProducerConfig"]


class Acks(enum.Enum):
    """Who must have a batch before it counts as sent: nobody asked, the leader, or all in-sync replicas."""

    NONE = 0
    LEADER = 1
    ALL = -1


class Partitioner(enum.Enum):
    """Where records go that name no partition; "anywhere" fills one partition's batch after the other's.

    ``LOG``: as the log's own clients do (Kafka's Java producer: murmur2 of the key, without one anywhere). The others
    but two are librdkafka's, with its results: CRC-32, murmur2 or FNV-1a of the key; those in ``…_RANDOM`` send records
    without a key anywhere (CRC-32's also those with an empty one), the others all to one partition. ``RANDOM``
    ignores keys; ``ROUND_ROBIN`` does, too, and takes one partition after the other, as Java's RoundRobinPartitioner.
    """

    LOG = "log"
    RANDOM = "random"
    ROUND_ROBIN = "round_robin"
    CONSISTENT = "consistent"
    CONSISTENT_RANDOM = "consistent_random"
    MURMUR2 = "murmur2"
    MURMUR2_RANDOM = "murmur2_random"
    FNV1A = "fnv1a"
    FNV1A_RANDOM = "fnv1a_random"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Defaults are those of Kafka's Java producer 4.x but for these:

    ``batch_size_bytes`` 256 KiB, not 16: encoding and compressing a batch has a fixed cost in Python that some 2,000
    records share well and 150 do not; a batch smaller than that goes out after ``linger_ms`` all the same.
    ``buffer_memory_bytes`` 64 MiB, so that several partitions' worth of such batches fit.

    Java's: ``acks`` all and ``enable_idempotence`` (a retried batch is stored once, in order); ``linger_ms`` 5;
    ``delivery_timeout_ms`` (from ``send`` to success or error, retries included); ``max_block_ms`` (how long ``send``
    waits for metadata or for memory); ``max_in_flight`` requests to one node, at most 5 when idempotent because servers
    remember that many batches of a producer; ``max_request_bytes``, which bounds a batch and a single record too;
    ``unknown_topic_timeout_ms``: a topic that the servers say they do not have is waited for that long, not for
    ``max_block_ms`` as in Java: it may be new, but more often its name is misspelt.
    ``partitioner`` is the log's own, so that equal keys meet whoever wrote them; a topic that librdkafka's default has
    filled goes on with ``consistent_random``.
    ``transactional_id``, the name under which this producer's transactions go on after a restart, and
    ``transaction_timeout_ms``, after which the log aborts one that was not ended.
    """

    acks: Acks = field(
        default=Acks.ALL,
        metadata=choice(
            Acks, about="who must have a batch before it counts as sent: nobody, the leader, or all in-sync replicas"
        ),
    )
    enable_idempotence: bool = flag(True, about="number batches, so that one sent again is stored once and in order")
    compression: Codec = field(default=Codec.NONE, metadata=choice(Codec, about="how batches are compressed"))
    partitioner: Partitioner = field(
        default=Partitioner.LOG,
        metadata=choice(Partitioner, about="where records go that name no partition, by their keys or without them"),
    )
    batch_size_bytes: int = number(256 * 1024, low=1, high=2**30, about="a batch is sent when it has so much")
    linger_ms: int = number(5, low=0, about="or when its first record has waited so long")
    buffer_memory_bytes: int = number(
        64 * 1024 * 1024,
        low=1_024,
        high=2**40,
        about="the most that waits to be sent or acknowledged; then send() waits",
    )
    max_block_ms: int = number(60_000, low=0, about="how long send() waits for that memory")
    unknown_topic_timeout_ms: int = number(
        2_000, low=0, about="how long a topic that the servers do not have is waited for"
    )
    delivery_timeout_ms: int = number(120_000, low=1, about="from send() to success or error, retries included")
    max_in_flight: int = number(
        5, low=1, high=1_000, about="requests under way to one server; at most 5 with idempotence"
    )
    max_request_bytes: int = number(1024 * 1024, low=1_024, about="the largest batch, and so the largest record")
    transactional_id: str | None = optional_text(
        about="the name under which transactions go on after a restart; needed for transactions"
    )
    transaction_timeout_ms: int = number(60_000, low=1, about="the log aborts a transaction that was not ended by then")

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        # Not super(): a slotted dataclass is a copy of its class, and the zero-argument form looks at the original.
        ClientConfig.validate(self)
        if self.enable_idempotence and self.acks is not Acks.ALL:
            raise ConfigError(
                f"acks is {self.acks.name.lower()}, but enable_idempotence needs acks=all:"
                " without the answer of all replicas a retry cannot know what is stored",
                hint="Set enable_idempotence=false as well, or leave acks alone",
            )
        if self.enable_idempotence and self.max_in_flight > 5:
            raise ConfigError(
                f"max_in_flight is {self.max_in_flight}, but enable_idempotence allows at most 5 requests under way",
                hint="Servers remember only the last 5 batches of a producer",
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError(
                "transactional_id is set, but enable_idempotence is off:"
                " a transaction whose batches may be stored twice is none",
                hint="Leave enable_idempotence alone",
            )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery_timeout_ms is {self.delivery_timeout_ms}, less than one attempt may take:"
                f" linger_ms={self.linger_ms} + request_timeout_ms={self.request_timeout_ms}"
            )
