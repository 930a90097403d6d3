"""Kafka's part of configuration: option names of other Kafka clients, its port, its own options, the node's front."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.config.fields import BOOTSTRAP, Options, Spelling, choice, number
from penstock.config.options import ProtocolConfig
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.client import ClientConfig

__all__ = ["ABSENT", "ADDED", "AUTO_CREATE", "ROWS", "SPELLINGS", "VALUES", "KafkaNodeConfig", "MigrationPolicy", "Row"]


# Option names of Kafka's other clients (Java's, librdkafka, kafka-python, aiokafka): ours, and those that we do not
# have.
#
# Names are compared as in `penstock.config.fields`. Sources: Apache Kafka 4.x documentation, "Configuration";
# librdkafka 2.x, CONFIGURATION.md.
class Row(NamedTuple):
    """One option: our name, Java's, librdkafka's; "" if it has none there.

    ``unit`` converts librdkafka's unit to ours (its kbytes are 1,024 of our bytes); ``also`` are aliases.
    """

    ours: str
    java: str = ""
    librdkafka: str = ""
    also: tuple[str, ...] = ()
    unit: int = 1

    def spellings(self) -> Iterator[Spelling]:
        """The spellings for the configuration; a name that Java and librdkafka share has Java's unit."""
        if self.librdkafka or self.also:
            yield Spelling(self.ours, tuple(filter(None, (self.librdkafka, *self.also))), self.unit)
        if self.java:
            yield Spelling(self.ours, (self.java,))


ROWS: Final = (
    Row(BOOTSTRAP, "bootstrap.servers", "bootstrap.servers", ("metadata.broker.list",)),
    # every client
    Row("client_id", "client.id", "client.id"),
    Row("request_timeout_ms", "request.timeout.ms", "socket.timeout.ms"),
    Row("api_timeout_ms", "default.api.timeout.ms"),
    Row("first_contact_timeout_ms"),
    Row("connect_timeout_ms", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.ms"),
    Row("reconnect_backoff_ms", "reconnect.backoff.ms", "reconnect.backoff.ms"),
    Row("reconnect_backoff_max_ms", "reconnect.backoff.max.ms", "reconnect.backoff.max.ms"),
    Row("retry_backoff_ms", "retry.backoff.ms", "retry.backoff.ms"),
    Row("retry_backoff_max_ms", "retry.backoff.max.ms", "retry.backoff.max.ms"),
    Row("metadata_max_age_ms", "metadata.max.age.ms", "topic.metadata.refresh.interval.ms"),
    Row("metrics_interval_ms", "", "statistics.interval.ms"),
    Row("close_timeout_ms"),
    Row("close_on_error_timeout_ms"),
    Row("tls", "security.protocol", "security.protocol"),
    Row("tls_ca_file", "", "ssl.ca.location", ("ssl_cafile",)),
    Row("tls_certificate_file", "", "ssl.certificate.location", ("ssl_certfile",)),
    Row("tls_key_file", "", "ssl.key.location", ("ssl_keyfile",)),
    Row("tls_key_password", "ssl.key.password", "ssl.key.password", ("ssl_password",)),
    Row("tls_server_name"),
    Row("tls_check_server_name", also=("ssl_check_hostname",)),
    # consumers
    Row("group", "group.id", "group.id"),
    Row("group_instance_id", "group.instance.id", "group.instance.id"),
    Row("client_rack", "client.rack", "client.rack"),
    Row("group_protocol", "group.protocol", "group.protocol"),
    Row("group_remote_assignor", "group.remote.assignor", "group.remote.assignor"),
    Row("assignors", "partition.assignment.strategy", "partition.assignment.strategy"),
    Row("session_timeout_ms", "session.timeout.ms", "session.timeout.ms"),
    Row("heartbeat_interval_ms", "heartbeat.interval.ms", "heartbeat.interval.ms"),
    Row("max_poll_interval_ms", "max.poll.interval.ms", "max.poll.interval.ms"),
    Row("max_poll_records", "max.poll.records"),
    Row("enable_auto_commit", "enable.auto.commit", "enable.auto.commit", ("auto.commit.enable",)),
    Row("auto_commit_interval_ms", "auto.commit.interval.ms", "auto.commit.interval.ms"),
    Row("auto_offset_reset", "auto.offset.reset", "auto.offset.reset"),
    Row("fetch_min_bytes", "fetch.min.bytes", "fetch.min.bytes"),
    Row("fetch_max_bytes", "fetch.max.bytes", "fetch.max.bytes"),
    Row("fetch_max_wait_ms", "fetch.max.wait.ms", "fetch.wait.max.ms"),
    Row("max_partition_fetch_bytes", "max.partition.fetch.bytes", "fetch.message.max.bytes"),
    Row("fetch_buffer_bytes", "", "queued.max.messages.kbytes", unit=1_024),
    Row("isolation_level", "isolation.level", "isolation.level"),
    Row("on_bad_record"),
    # producers
    Row("acks", "acks", "request.required.acks"),
    Row("enable_idempotence", "enable.idempotence", "enable.idempotence"),
    Row("compression", "compression.type", "compression.codec"),
    Row("partitioner", "partitioner.class", "partitioner"),
    Row("batch_size_bytes", "batch.size", "batch.size", ("max_batch_size",)),
    Row("linger_ms", "linger.ms", "queue.buffering.max.ms"),
    Row("buffer_memory_bytes", "buffer.memory", "queue.buffering.max.kbytes", unit=1_024),
    Row("max_block_ms", "max.block.ms"),
    Row("unknown_topic_timeout_ms"),
    Row("delivery_timeout_ms", "delivery.timeout.ms", "message.timeout.ms"),
    Row("max_in_flight", "max.in.flight.requests.per.connection", "max.in.flight"),
    Row("max_request_bytes", "max.request.size", "message.max.bytes"),
    Row("transactional_id", "transactional.id", "transactional.id"),
    Row("transaction_timeout_ms", "transaction.timeout.ms", "transaction.timeout.ms"),
)

SPELLINGS: Final = tuple(spelling for row in ROWS for spelling in row.spellings())

_OFFSETS: Final = "commit(batch) stores the offsets of what was handled, where enable_auto_commit is false"
_TLS: Final = "For TLS say tls=true, with PEM files as tls_ca_file, tls_certificate_file and tls_key_file"
_PEM_STORE: Final = "Only a JVM opens such a store: make a PEM file of it (keytool, openssl pkcs12), and name it as "
_SASL: Final = (
    "There is no SASL so far: use a listener without it; with TLS a certificate can say who the client is "
    "(tls_certificate_file, tls_key_file)"
)
_LOG: Final = "Log records go to Python's logging, under penstock"
_METRICS: Final = "metrics() has the figures; on_metrics=… hands them to a function every metrics_interval_ms"
_SOCKETS: Final = "Sockets are set up by the client: there is nothing to choose"
_VERSIONS: Final = "It is not needed: each broker is asked which versions it speaks"
_WAITING: Final = "It is not needed: buffer_memory_bytes bounds what waits, in bytes"
_RETRIES: Final = "Retries go on until delivery_timeout_ms"
_RECORDS: Final = "Every record's outcome is the future that send() returns: add_done_callback()"

ABSENT: Final[Mapping[str, str]] = {
    # (de)serializers, callbacks, objects
    "key_serializer": "Give the class a function: Producer(address, key_serializer=penstock.to_utf8)",
    "value_serializer": "Give the class a function: Producer(address, value_serializer=penstock.to_json)",
    "key_deserializer": "Give the class a function: Consumer(address, key_deserializer=penstock.from_utf8)",
    "value_deserializer": "Give the class a function: Consumer(address, value_deserializer=penstock.from_json)",
    "stats_cb": "Give the class a function: Consumer(address, on_metrics=…)",
    "error_cb": "Calls raise what concerns them; servers that are away are on the log (penstock.connection)",
    "throttle_cb": "metrics() counts how long brokers asked the client to wait",
    "logger": _LOG,
    "log_cb": _LOG,
    "log_level": _LOG,
    "log_queue": _LOG,
    "log_connection_close": _LOG,
    "debug": "Set the level of Python's logger penstock to DEBUG",
    "delivery_report_only_error": _RECORDS,
    "dr_cb": _RECORDS,
    "dr_msg_cb": _RECORDS,
    "on_delivery": _RECORDS,
    "interceptor_classes": "Give the class objects: interceptors=[…], of penstock.ConsumerInterceptor, say",
    "loop": "It is not needed: an asynchronous client belongs to the loop that runs when it is first used",
    "default_topic_config": "Give its options one level higher: there are no options for each topic",
    # reading
    "consumer_timeout_ms": "poll(timeout_s) ends after that time; iterating goes on until wakeup() or close()",
    "enable_partition_eof": "status() says which partitions are read to their end",
    "enable_auto_offset_store": _OFFSETS,
    "offset_store_method": _OFFSETS,
    "default_offset_commit_callback": "Override committed() of penstock.ConsumerInterceptor: interceptors=[…]",
    "check_crcs": "Checksums are always checked",
    "queued_min_messages": "It is not needed: fetch_buffer_bytes bounds what is fetched ahead, in bytes",
    "fetch_queue_backoff_ms": "It is not needed: fetches are sent ahead while fetch_buffer_bytes allows",
    "fetch_error_backoff_ms": "Say retry_backoff_ms and retry_backoff_max_ms",
    "exclude_internal_topics": "Internal topics are read only where they are named",
    "rebalance_timeout_ms": "It is max_poll_interval_ms, as in Java's client",
    "topic_blacklist": "Subscribe to names, or to a pattern that leaves them out",
    # writing
    "retries": _RETRIES,
    "message_send_max_retries": _RETRIES,
    "batch_num_messages": "Say batch_size_bytes: batches are bounded in bytes",
    "queue_buffering_max_messages": _WAITING,
    "queue_buffering_backpressure_threshold": _WAITING,
    "compression_level": "There is one level for each codec: choose the codec by compression",
    "compression_gzip_level": "There is one level for each codec: choose the codec by compression",
    "compression_lz4_level": "There is one level for each codec: choose the codec by compression",
    "compression_zstd_level": "There is one level for each codec: choose the codec by compression",
    "partitioner_ignore_keys": "Say partitioner=random: keys are ignored then",
    "enable_gapless_guarantee": "The producer is idempotent, and keeps the order of a partition's records",
    # TLS and SASL
    "security_protocol=sasl_plaintext": _SASL,
    "security_protocol=sasl_ssl": _SASL,
    "ssl_truststore_*": f"{_PEM_STORE}tls_ca_file",
    "ssl_keystore_*": f"{_PEM_STORE}tls_certificate_file and tls_key_file",
    "ssl_endpoint_identification_algorithm": "Say tls_check_server_name=false where Java's is empty, else leave it out",
    "enable_ssl_certificate_verification": "Certificates are always checked: give the authority's as tls_ca_file",
    "ssl_*": _TLS,
    "sasl_*": _SASL,
    "oauth_cb": _SASL,
    "enable_sasl_*": _SASL,
    # connections, metrics, versions
    "connections_max_idle_ms": "It is not needed: a connection that the broker has closed is made again when needed",
    "receive_buffer_bytes": _SOCKETS,
    "send_buffer_bytes": _SOCKETS,
    "socket_*": _SOCKETS,
    "sock_chunk_*": _SOCKETS,
    "selector": _SOCKETS,
    "client_dns_lookup": "Every address of a name is tried",
    "broker_address_family": "Addresses of both families are tried; write an IP address to choose one",
    "broker_version_fallback": _VERSIONS,
    "api_version": _VERSIONS,
    "api_version_*": _VERSIONS,
    "metric_*": _METRICS,
    "metrics_*": _METRICS,
    "enable_metrics_push": "Metrics are not sent to brokers: metrics() has them",
    "auto_include_jmx_reporter": _METRICS,
    "plugin_library_paths": "There are no plug-ins: give the class objects, as interceptors=[…]",
}
"""Options of other clients that we do not have, by their `normal` names: what to do instead, or why it is absent.

``name=value`` is one value of an option that we have; ``*`` matches any suffix.
"""

_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_JAVA_PRODUCER: Final = "org.apache.kafka.clients.producer."
VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "auto_offset_reset": {  # librdkafka's
        "smallest": "earliest",
        "beginning": "earliest",
        "largest": "latest",
        "end": "latest",
        "error": "none",
    },
    "tls": {"plaintext": "false", "ssl": "true"},  # of security.protocol
    "partitioner": {  # Java's classes
        f"{_JAVA_PRODUCER}RoundRobinPartitioner".lower(): "round_robin",
        f"{_JAVA_PRODUCER}UniformStickyPartitioner".lower(): "random",
        f"{_JAVA_PRODUCER}internals.DefaultPartitioner".lower(): "log",
    },
    "assignors": {  # Java's classes: as they are configured, as they are called, as Java prints its configuration
        f"{before}{java}".lower(): ours
        for before in (_JAVA_PACKAGE, "", f"class {_JAVA_PACKAGE}")
        for java, ours in (
            ("RangeAssignor", "range"),
            ("RoundRobinAssignor", "roundrobin"),
            ("StickyAssignor", "sticky"),
            ("CooperativeStickyAssignor", "cooperative-sticky"),
        )
    },
}
"""Values that users of other clients write, as values of our options."""


# Source: KIP-848, ``group.consumer.migration.policy``.
class MigrationPolicy(enum.StrEnum):
    """The allowed conversions of a group with members, to the newer protocol (upgrade) or back (downgrade)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group may become a KIP-848 group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether a KIP-848 group may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


# Options of a node's Kafka front.
_SHORTEST, _LONGEST = 6_000, 1_800_000


class KafkaNodeConfig(Options):
    """Defaults are Kafka's, with three exceptions.

    ``initial_rebalance_delay_ms`` is 0: a group's first member does not wait for others (Kafka: three seconds).
    ``max_request_entries`` is 50,000 (Kafka: no limit): that many entries take 50 MB of memory, and a garbage
    collection over them stops the node for a few tens of milliseconds. ``group_max_size`` is 10,000 members (Kafka: no
    limit), so that one group's memory is bounded.
    """

    initial_rebalance_delay_ms: int = number(0, low=0, about="how long a new group's first member waits for others")
    group_min_session_timeout_ms: int = number(_SHORTEST, low=1, about="the shortest that a group's member may ask for")
    group_max_session_timeout_ms: int = number(_LONGEST, low=1, about="the longest that a group's member may ask for")
    group_consumer_session_timeout_ms: int = number(
        45_000, low=1, about="when a member of group.protocol=consumer counts as gone"
    )
    group_consumer_heartbeat_interval_ms: int = number(
        5_000, low=1, about="how often members of group.protocol=consumer are to be heard of"
    )
    group_consumer_min_session_timeout_ms: int = number(
        45_000, low=1, about="the shortest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_max_session_timeout_ms: int = number(
        60_000, low=1, about="the longest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_min_heartbeat_interval_ms: int = number(
        5_000, low=1, about="the shortest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_max_heartbeat_interval_ms: int = number(
        15_000, low=1, about="the longest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_migration_policy: MigrationPolicy = choice(
        MigrationPolicy.BIDIRECTIONAL,
        MigrationPolicy,
        about="which way a group with members may go over from one protocol of groups to the other",
    )
    max_request_entries: int = number(
        50_000, low=2_000, high=1_000_000, about="entries of one Kafka request; who sends more is hung up on"
    )
    group_max_size: int = number(10_000, low=1, about="members of one Kafka group; more are refused")
    max_groups: int = number(
        16_000,
        low=1,
        about="Kafka groups, with members or without, until their offsets are forgotten; more are refused",
    )
    max_transactional_ids: int = number(40_000, low=1, about="transactional ids that are remembered; more are refused")
    max_topic_partitions: int = number(
        40_000, low=1, about="partitions of all topics in the node's own log; Kafka clients can make no more"
    )
    max_held: int = number(50_000, low=1, about="Kafka fetches that wait; more are answered at once")
    offsets_retention_minutes: int = number(
        10_080,
        low=1,
        about="when offsets that no member reads on are forgotten, but for commits that say it themselves",
    )
    offsets_check_ms: int = number(600_000, low=1, about="how often such offsets are looked for")

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group_min_session_timeout_ms is {self.group_min_session_timeout_ms}, more than"
                f" group_max_session_timeout_ms, {self.group_max_session_timeout_ms}"
            )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                f"group_consumer_heartbeat_interval_ms is {self.group_consumer_heartbeat_interval_ms}, not less than"
                f" group_consumer_session_timeout_ms, {self.group_consumer_session_timeout_ms}"
            )


# Kafka's configuration for the registry.
AUTO_CREATE: Final = "allow_auto_create_topics"


def _of_jobs(
    role: type[ClientConfig], options: Mapping[str, str], own: Collection[str]
) -> tuple[dict[str, str], set[str]]:
    """Imported when a job's options are translated: other clients do not need the module."""
    from penstock.protocols.kafka.connector_options import of_jobs

    return of_jobs(role, options, own)


ADDED: Final = ProtocolConfig(
    port=9092,
    options=frozenset({AUTO_CREATE}),
    spellings=SPELLINGS,
    absent=ABSENT,
    values=VALUES,
    jobs=_of_jobs,
    front=KafkaNodeConfig,
)
