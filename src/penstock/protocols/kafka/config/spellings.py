"""What Kafka's Java clients and librdkafka call our options, a row each; and what of theirs there is not.

Names are compared as in `penstock.config.spellings`. Sources: Apache Kafka 4.x documentation, "Configuration";
librdkafka 2.x, CONFIGURATION.md. What must not live here: values, bounds, defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from penstock.config.spellings import BOOTSTRAP, Spelling

__all__ = ["ABSENT", "ROWS", "SPELLINGS", "VALUES", "Row"]


class Row(NamedTuple):
    """One option: our name, Java's, librdkafka's; "" where they have none.

    ``unit`` is what one of librdkafka's units is in ours (its kbytes are 1,024 of our bytes); ``also`` are aliases.
    """

    ours: str
    java: str = ""
    librdkafka: str = ""
    also: tuple[str, ...] = ()
    unit: int = 1

    def spellings(self) -> Iterator[Spelling]:
        """The same as configuration takes it; what Java and librdkafka share has Java's unit."""
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
    Row("tls"),
    Row("tls_ca_file", "", "ssl.ca.location"),
    Row("tls_certificate_file", "", "ssl.certificate.location"),
    Row("tls_key_file", "", "ssl.key.location"),
    Row("tls_key_password", "ssl.key.password", "ssl.key.password"),
    Row("tls_server_name"),
    Row("tls_check_server_name"),
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
    Row("batch_size_bytes", "batch.size", "batch.size"),
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

ABSENT: Final[Mapping[str, str]] = {
    "key_serializer": "Give the class a function: Producer(address, key_serializer=penstock.to_utf8)",
    "value_serializer": "Give the class a function: Producer(address, value_serializer=penstock.to_json)",
    "key_deserializer": "Give the class a function: Consumer(address, key_deserializer=penstock.from_utf8)",
    "value_deserializer": "Give the class a function: Consumer(address, value_deserializer=penstock.from_json)",
    "stats_cb": "Give the class a function: Consumer(address, on_metrics=…)",
    "retries": "Retries go on until delivery_timeout_ms",
    "message_send_max_retries": "Retries go on until delivery_timeout_ms",
    "check_crcs": "Checksums are always checked",
    "partitioner_ignore_keys": "Say partitioner=random: keys are ignored then",
    "fetch_queue_backoff_ms": "It is not needed: fetches are sent ahead while fetch_buffer_bytes allows",
    "security_protocol": "Say tls=true for TLS; connections are not authenticated so far",
    "sasl_mechanism": "Connections are not authenticated so far",
    "interceptor_classes": "Give the class objects: interceptors=[…], of penstock.ConsumerInterceptor, say",
}
"""Options of others that we know and do not have: what to do instead."""

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
"""What their users write as values of our options."""
