"""Options of clients, consumers and producers, with their bounds; and the loggers that name a client in each line."""

from __future__ import annotations

import enum
import logging
from collections.abc import MutableMapping
from typing import Any, Final

from penstock.config.fields import (
    Options,
    choice,
    fields,
    flag,
    names,
    number,
    optional_number,
    optional_text,
    secret,
    text,
)
from penstock.errors import ConfigError
from penstock.model import Codec

__all__ = [
    "ASSIGNORS",
    "Acks",
    "ClientConfig",
    "ClientLog",
    "ConsumerConfig",
    "GroupProtocol",
    "IsolationLevel",
    "OffsetReset",
    "OnBadRecord",
    "Partitioner",
    "ProducerConfig",
    "client_log",
    "whose",
    "whose_config",
]


class ClientConfig(Options):
    """Options shared by consumers, producers, readers and admins.

    Defaults are those of Kafka's Java clients 4.x, except ``client_id``: servers show it in logs, quotas and group
    descriptions, where an empty one helps no one.

    Times: ``request_timeout_ms`` limits one request (30 s: longer than a leader election, shorter than a user's
    patience). ``api_timeout_ms`` limits one call of yours with all its retries. ``first_contact_timeout_ms`` limits all
    calls together from a client's first use until a server has answered once (10 s: by then the address is more likely
    wrong than every server down). Waiting calls then raise FirstContactTimeout, and later calls start a new deadline.
    ``connect_timeout_ms`` limits one attempt to connect, TLS and greeting included. ``reconnect_backoff_ms`` and
    ``retry_backoff_ms`` double, give or take 20 %, up to their ``…_max_ms``, so that a restarted server is not flooded.
    ``metadata_max_age_ms`` is how long a new partition may stay unseen. ``metrics_interval_ms`` is the window in which
    Java samples metrics. ``close_timeout_ms`` limits a normal close, which finishes work; ``close_on_error_timeout_ms``
    (2 s: enough for servers that answer) limits a close after an exception, which should be seen soon.

    ``tls`` encrypts. A server is trusted if its certificate is signed by an authority in ``tls_ca_file`` (PEM; None:
    those the system trusts) and names the host, or ``tls_server_name`` if that is set. ``tls_check_server_name`` false
    ignores the name, as TubeMQ's Java client does. ``tls_certificate_file`` and ``tls_key_file`` are this client's own,
    for servers that ask for a certificate; the key may be in the certificate's file. ``tls_key_password`` is the
    password of an encrypted key.
    """

    client_id: str = text("penstock", about="what servers' logs, quotas and group descriptions call this client")
    request_timeout_ms: int = number(30_000, low=1, about="how long one request may take")
    api_timeout_ms: int = number(60_000, low=1, about="how long one call of yours may take, over all its retries")
    first_contact_timeout_ms: int = number(
        10_000, low=1, about="how long a client waits, from its first use on, until any server has answered once"
    )
    connect_timeout_ms: int = number(
        10_000, low=1, about="how long one attempt to connect may take, TLS and greeting included"
    )
    reconnect_backoff_ms: int = number(
        50, low=0, about="the first pause before connecting to a server again; it doubles"
    )
    reconnect_backoff_max_ms: int = number(1_000, low=0, about="the longest such pause")
    retry_backoff_ms: int = number(100, low=0, about="the first pause before asking again; it doubles")
    retry_backoff_max_ms: int = number(1_000, low=0, about="the longest such pause")
    close_timeout_ms: int | None = optional_number(
        low=0,
        about="how long close() and the end of a with block may take; without it a producer's as long as delivery may,"
        " a consumer's request_timeout_ms",
    )
    close_on_error_timeout_ms: int = number(
        2_000,
        low=0,
        about="the same where an exception ends the with block, or a transaction's, and where the program ends and a"
        " producer was not closed",
    )
    metadata_max_age_ms: int = number(
        300_000, low=1, about="how old what is known of topics may get: how long a new partition may stay unseen"
    )
    metrics_interval_ms: int = number(
        30_000, low=0, about="how often a consumer's or producer's on_metrics is called with a snapshot; 0: never"
    )
    tls: bool = flag(False, about="encrypt connections")
    tls_ca_file: str | None = optional_text(
        about="whose signatures servers' certificates need (PEM); without it those the system trusts"
    )
    tls_certificate_file: str | None = optional_text(
        about="this client's own certificate and its chain (PEM), for servers that ask for one"
    )
    tls_key_file: str | None = optional_text(about="its key (PEM), if it does not stand in the same file")
    tls_key_password: str | None = secret(about="what an encrypted key asks for")
    tls_server_name: str | None = optional_text(
        about="the name that the certificate must have, where it is not the host's"
    )
    tls_check_server_name: bool = flag(True, about="whether a certificate's name matters at all")

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        for first, last in (
            ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
            ("retry_backoff_ms", "retry_backoff_max_ms"),
        ):
            if getattr(self, first) > getattr(self, last):
                raise ConfigError(
                    f"{first} is {getattr(self, first)}, more than {last}, which is {getattr(self, last)}"
                )
        for name in ("tls_ca_file", "tls_certificate_file", "tls_key_file", "tls_key_password", "tls_server_name"):
            if getattr(self, name) is not None and not self.tls:
                raise ConfigError(
                    f"{name} is set, but tls is not", hint="Add tls=true (in Spark security.protocol=SSL), or drop it"
                )
        for name in ("tls_key_file", "tls_key_password"):
            if getattr(self, name) is not None and self.tls_certificate_file is None:
                raise ConfigError(f"there is a {name}, but no tls_certificate_file")


# Options of a consumer beyond those of a client: its group, fetches and commits.
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class OffsetReset(enum.Enum):
    """Where to begin in a partition without a committed offset, or with one that no longer exists."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class GroupProtocol(enum.Enum):
    """Who assigns a group's partitions: its members, or the broker (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class IsolationLevel(enum.Enum):
    """Whether records of transactions that are still open, or were aborted, are seen."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OnBadRecord(enum.Enum):
    """What happens to records that cannot be decoded, or that a deserializer rejects."""

    AUTO = "auto"
    """As the log's own client: Kafka's fails, RocketMQ's and TubeMQ's skip. A deserializer's rejection fails."""
    FAIL = "fail"
    """An error that names the offset; reading stays there until the application seeks past it."""
    SKIP = "skip"
    """They are left out and counted, with at most one warning per partition and minute."""
    RAW = "raw"
    """A record with the raw bytes as its value, and a header ``penstock.error`` with the reason."""


class ConsumerConfig(ClientConfig):
    """Options of a consumer. Defaults are those of Kafka's Java consumer 4.x, except for these, which lose no records
    and suit columns:

    ``enable_auto_commit`` off: a record that was polled is not yet processed; ``commit()`` says when it is. With it on,
    offsets are committed every ``auto_commit_interval_ms``, each only after a later ``poll`` showed that its batch was
    processed. ``auto_offset_reset`` earliest: a new group, and a partition added later, are read from the first record;
    "latest" silently skips records written before the consumer's first look. ``max_poll_records`` 50,000: a poll
    returns columns, and with 500 rows it would be nearly all overhead. ``max_partition_fetch_bytes`` 4 MiB spreads a
    request's fixed cost over some 40,000 records of 100 bytes. ``fetch_max_bytes`` 8 MiB has room for two such
    partitions; larger answers do not fit the processor's caches, and nothing is decoded while they arrive.
    ``fetch_buffer_bytes`` 64 MiB: the maximum held undecoded ahead of the user. A fetch is not sent while it could
    exceed that, nor while two full answers of a node wait, and asks for no more than the node's share of it.

    As in Java: ``session_timeout_ms`` (without a heartbeat for so long, the group goes on without this member),
    ``heartbeat_interval_ms`` (at most a third of it), ``max_poll_interval_ms`` (without a poll for so long, this member
    leaves; also how long a rebalance waits for it), ``fetch_min_bytes`` and ``fetch_max_wait_ms`` (when a server
    answers a fetch), ``isolation_level``, ``on_bad_record`` auto, ``client_rack``. ``assignors`` are in order of
    preference: names, or classes derived from `penstock.Assignor`; if all of them are cooperative, members keep what
    they own during a rebalance. ``group_protocol`` is classic, which every broker has. With the newer one, the broker
    decides how long members may be silent and how partitions are assigned: by ``group_remote_assignor``, if it has
    that.
    """

    group: str | None = optional_text(
        about="the group to share partitions with and to commit for; without one all partitions are read"
    )
    group_instance_id: str | None = optional_text(
        about="makes this a static member: back within the session timeout it gets its partitions again"
    )
    client_rack: str = text("", about="where this client is, as the brokers' racks are named")
    group_protocol: GroupProtocol = choice(
        GroupProtocol.CLASSIC,
        GroupProtocol,
        about="who shares out a group's partitions: its members, or (consumer, KIP-848) the broker",
    )
    group_remote_assignor: str | None = optional_text(
        about="with group_protocol=consumer: how the broker is to share out, uniform or range; else it chooses"
    )
    assignors: tuple[str | type[object], ...] = names(
        ("range", "cooperative-sticky"),
        known=ASSIGNORS,
        classes=True,
        about="how the group may share out partitions, the first choice first",
    )
    session_timeout_ms: int = number(
        45_000, low=1, about="without a heartbeat for so long, the group goes on without this member"
    )
    heartbeat_interval_ms: int = number(
        3_000, low=1, about="how often a heartbeat is sent; a third of the session timeout or less"
    )
    max_poll_interval_ms: int = number(
        300_000, low=1, about="without a poll for so long this member leaves; also how long a rebalance waits for it"
    )
    max_poll_records: int = number(50_000, low=1, about="the most records that one poll returns")
    enable_auto_commit: bool = flag(False, about="commit automatically what a later poll shows to be handled")
    auto_commit_interval_ms: int = number(5_000, low=0, about="how often that happens")
    auto_offset_reset: OffsetReset = choice(
        OffsetReset.EARLIEST,
        OffsetReset,
        about="where to begin in a partition without a committed offset, or with one that is gone",
    )
    fetch_min_bytes: int = number(1, low=0, about="a server holds a fetch until it has so much")
    fetch_max_bytes: int = number(
        8 * 1024 * 1024, low=1_024, about="the most one fetch's answer brings; a single larger batch comes all the same"
    )
    fetch_max_wait_ms: int = number(500, low=0, about="the longest a server holds a fetch")
    max_partition_fetch_bytes: int = number(
        4 * 1024 * 1024, low=1_024, about="the most one fetch brings of one partition"
    )
    fetch_buffer_bytes: int = number(
        64 * 1024 * 1024, low=1_024, high=2**40, about="the most that is held undecoded ahead of you"
    )
    isolation_level: IsolationLevel = choice(
        IsolationLevel.READ_UNCOMMITTED,
        IsolationLevel,
        about="whether records of transactions that are open or were aborted are seen",
    )

    on_bad_record: OnBadRecord = choice(
        OnBadRecord.AUTO,
        OnBadRecord,
        about="what happens to records that cannot be decoded: an error (fail), left out and counted (skip), or the"
        " raw bytes with a header that says what is wrong (raw); auto does what the log's own client does",
    )

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        super().validate()
        if self.group is None:
            for name, given in (
                ("enable_auto_commit", self.enable_auto_commit),
                ("group_instance_id", self.group_instance_id),
            ):
                if given:
                    raise ConfigError(
                        f"{name} is set, but there is no group", hint="Add group=NAME, or drop the option"
                    )
        self._check_protocol()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}, but the session ends after"
                f" session_timeout_ms={self.session_timeout_ms}: one late heartbeat would lose the partitions",
                hint="A third of session_timeout_ms or less leaves room for two that get lost",
            )
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigError(
                f"a fetch may wait fetch_max_wait_ms={self.fetch_max_wait_ms} at the server,"
                f" but is given up after request_timeout_ms={self.request_timeout_ms}"
            )
        if self.fetch_min_bytes > self.fetch_max_bytes:
            raise ConfigError(
                f"fetch_min_bytes is {self.fetch_min_bytes},"
                f" more than fetch_max_bytes={self.fetch_max_bytes} lets through"
            )

    def _check_protocol(self) -> None:
        """Refuse options of the other protocol, as Java does, because they would have no effect."""
        if self.group_protocol is GroupProtocol.CLASSIC:
            if self.group_remote_assignor is not None:
                raise ConfigError(
                    "group_remote_assignor is set, but group_protocol is classic: its members share out by assignors",
                    hint="Add group_protocol=consumer, or drop the option",
                )
            return
        for option, instead in _CLASSIC_ONLY.items():
            if getattr(self, option) != _DEFAULTS[option]:
                raise ConfigError(f"{option} has no meaning with group_protocol=consumer", hint=instead)


_CLASSIC_ONLY: Final = {
    "assignors": "The broker shares out; group_remote_assignor asks it for one of its ways (uniform, range)",
    "session_timeout_ms": "The broker decides: group.consumer.session.timeout.ms there, or of the group",
    "heartbeat_interval_ms": "The broker decides: group.consumer.heartbeat.interval.ms there, or of the group",
}
_DEFAULTS: Final = {each.name: each.default for each in fields(ConsumerConfig)}


# Options of a producer beyond those of a client: batches, acknowledgements, memory.
class Acks(enum.Enum):
    """Which replicas must have a batch before it counts as sent: none, the leader, or all in-sync replicas."""

    NONE = 0
    LEADER = 1
    ALL = -1


class Partitioner(enum.Enum):
    """How records without a partition are placed; "anywhere" fills a batch of one partition, then of another.

    ``LOG``: as the log's own clients do (Kafka's Java producer: murmur2 of the key; without a key, anywhere).
    ``RANDOM`` ignores keys. ``ROUND_ROBIN`` also ignores keys and takes the partitions in turn, as Java's
    RoundRobinPartitioner.

    The others are librdkafka's, with the same results: CRC-32, murmur2 or FNV-1a of the key. Those in ``…_RANDOM`` send
    records without a key anywhere (CRC-32's also those with an empty key); the others send them all to one partition.
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


class ProducerConfig(ClientConfig):
    """Options of a producer. Defaults are those of Kafka's Java producer 4.x, except for these:

    ``batch_size_bytes`` 256 KiB, not 16: encoding and compressing a batch has a fixed cost in Python, which is small
    for some 2,000 records but not for 150. A smaller batch is sent after ``linger_ms`` all the same.
    ``buffer_memory_bytes`` 64 MiB holds such batches for several partitions. ``unknown_topic_timeout_ms``: how long a
    topic that the servers do not have is waited for, instead of ``max_block_ms`` as in Java. It may be new, but more
    often its name is misspelt.

    As in Java: ``acks`` all and ``enable_idempotence`` (a retried batch is stored once, in order); ``linger_ms`` 5;
    ``delivery_timeout_ms`` (from ``send`` to success or error, retries included); ``max_block_ms`` (how long ``send``
    waits for metadata or for memory); ``max_in_flight`` requests to one node, at most 5 when idempotent because servers
    remember that many batches of a producer; ``max_request_bytes``, which also limits a batch and a single record.
    ``partitioner`` is the log's own, so that equal keys meet whatever client wrote them; for a topic that librdkafka's
    default has filled, use ``consistent_random``.
    ``transactional_id`` is the name under which this producer's transactions continue after a restart, and
    ``transaction_timeout_ms`` the time after which the log aborts a transaction that was not ended.
    """

    acks: Acks = choice(
        Acks.ALL,
        Acks,
        about="which brokers must have a batch before it counts as sent: none, the leader or all in sync",
    )
    enable_idempotence: bool = flag(True, about="number batches, so that one sent again is stored once and in order")
    compression: Codec = choice(Codec.NONE, Codec, about="how batches are compressed")
    partitioner: Partitioner = choice(
        Partitioner.LOG, Partitioner, about="where records go that name no partition, by their keys or without them"
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
        super().validate()
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


# Loggers of clients, which begin each line with the client's id and its group.
#
# Their names are those that users know (see the table under "Log" in `docs/clients/README.md`), not modules.
class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines begin with ``who``, the text from `whose`."""

    def __init__(self, name: str, who: str = "") -> None:
        super().__init__(logging.getLogger(name), {})
        self._who = who.replace("%", "%%")

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"{self._who}{msg}", kwargs


def client_log(name: str, config: ClientConfig) -> ClientLog:
    """The logger ``penstock.NAME`` for one client."""
    return ClientLog(f"penstock.{name}", whose_config(config))


def whose_config(config: ClientConfig) -> str:
    """The beginning of log lines for a client with these options."""
    group = config.group if isinstance(config, ConsumerConfig) else None
    transactional_id = config.transactional_id if isinstance(config, ProducerConfig) else None
    return whose(config.client_id, group, transactional_id)


def whose(client_id: str, group: str | None = None, transactional_id: str | None = None) -> str:
    """The beginning of a client's log lines: ``[client orders, group stats] ``."""
    parts = [f"client {client_id}"]
    if group:
        parts.append(f"group {group}")
    if transactional_id:
        parts.append(f"transactional id {transactional_id}")
    return f"[{', '.join(parts)}] "
