"""What others call our options: Java's and librdkafka's names for Kafka's, a row each.

Names are compared with dots and dashes read as underscores, so ``auto.offset.reset``, ``auto-offset-reset`` and
``auto_offset_reset`` are one. Sources: Apache Kafka 4.x documentation, "Configuration"; librdkafka 2.x,
CONFIGURATION.md.
What must not live here: values, bounds, defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["ABSENT", "BOOTSTRAP", "SPELLINGS", "Spelling", "normal"]

BOOTSTRAP: Final = "bootstrap_servers"
"""Not a field of a config: it fills the address."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """One option: our name, Java's, librdkafka's; "" where they have none.

    ``unit`` is what one of librdkafka's units is in ours (its kbytes are 1,024 of our bytes); ``also`` are aliases.
    """

    ours: str
    java: str = ""
    librdkafka: str = ""
    also: tuple[str, ...] = ()
    unit: int = 1


SPELLINGS: Final = (
    Spelling(BOOTSTRAP, "bootstrap.servers", "bootstrap.servers", ("metadata.broker.list",)),
    # every client
    Spelling("client_id", "client.id", "client.id"),
    Spelling("request_timeout_ms", "request.timeout.ms", "socket.timeout.ms"),
    Spelling("api_timeout_ms", "default.api.timeout.ms"),
    Spelling("first_contact_timeout_ms"),
    Spelling("connect_timeout_ms", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.ms"),
    Spelling("reconnect_backoff_ms", "reconnect.backoff.ms", "reconnect.backoff.ms"),
    Spelling("reconnect_backoff_max_ms", "reconnect.backoff.max.ms", "reconnect.backoff.max.ms"),
    Spelling("retry_backoff_ms", "retry.backoff.ms", "retry.backoff.ms"),
    Spelling("retry_backoff_max_ms", "retry.backoff.max.ms", "retry.backoff.max.ms"),
    Spelling("metadata_max_age_ms", "metadata.max.age.ms", "topic.metadata.refresh.interval.ms"),
    Spelling("close_timeout_ms"),
    Spelling("close_on_error_timeout_ms"),
    Spelling("tls"),
    Spelling("tls_ca_file", "", "ssl.ca.location"),
    Spelling("tls_certificate_file", "", "ssl.certificate.location"),
    Spelling("tls_key_file", "", "ssl.key.location"),
    Spelling("tls_key_password", "ssl.key.password", "ssl.key.password"),
    Spelling("tls_server_name"),
    Spelling("tls_check_server_name"),
    # consumers
    Spelling("group", "group.id", "group.id"),
    Spelling("group_instance_id", "group.instance.id", "group.instance.id"),
    Spelling("client_rack", "client.rack", "client.rack"),
    Spelling("assignors", "partition.assignment.strategy", "partition.assignment.strategy"),
    Spelling("session_timeout_ms", "session.timeout.ms", "session.timeout.ms"),
    Spelling("heartbeat_interval_ms", "heartbeat.interval.ms", "heartbeat.interval.ms"),
    Spelling("max_poll_interval_ms", "max.poll.interval.ms", "max.poll.interval.ms"),
    Spelling("max_poll_records", "max.poll.records"),
    Spelling("enable_auto_commit", "enable.auto.commit", "enable.auto.commit", ("auto.commit.enable",)),
    Spelling("auto_commit_interval_ms", "auto.commit.interval.ms", "auto.commit.interval.ms"),
    Spelling("auto_offset_reset", "auto.offset.reset", "auto.offset.reset"),
    Spelling("fetch_min_bytes", "fetch.min.bytes", "fetch.min.bytes"),
    Spelling("fetch_max_bytes", "fetch.max.bytes", "fetch.max.bytes"),
    Spelling("fetch_max_wait_ms", "fetch.max.wait.ms", "fetch.wait.max.ms"),
    Spelling("max_partition_fetch_bytes", "max.partition.fetch.bytes", "fetch.message.max.bytes"),
    Spelling("fetch_buffer_bytes", "", "queued.max.messages.kbytes", unit=1_024),
    Spelling("isolation_level", "isolation.level", "isolation.level"),
    # producers
    Spelling("acks", "acks", "request.required.acks"),
    Spelling("enable_idempotence", "enable.idempotence", "enable.idempotence"),
    Spelling("compression", "compression.type", "compression.codec"),
    Spelling("batch_size_bytes", "batch.size", "batch.size"),
    Spelling("linger_ms", "linger.ms", "queue.buffering.max.ms"),
    Spelling("buffer_memory_bytes", "buffer.memory", "queue.buffering.max.kbytes", unit=1_024),
    Spelling("max_block_ms", "max.block.ms"),
    Spelling("unknown_topic_timeout_ms"),
    Spelling("delivery_timeout_ms", "delivery.timeout.ms", "message.timeout.ms"),
    Spelling("max_in_flight", "max.in.flight.requests.per.connection", "max.in.flight"),
    Spelling("max_request_bytes", "max.request.size", "message.max.bytes"),
    Spelling("transactional_id", "transactional.id", "transactional.id"),
    Spelling("transaction_timeout_ms", "transaction.timeout.ms", "transaction.timeout.ms"),
)

ABSENT: Final[Mapping[str, str]] = {
    "key_serializer": "Keys are bytes",
    "value_serializer": "Values are bytes",
    "key_deserializer": "Keys are bytes; decode the column you need",
    "value_deserializer": "Values are bytes; decode the column you need",
    "retries": "Retries go on until delivery_timeout_ms",
    "message_send_max_retries": "Retries go on until delivery_timeout_ms",
    "check_crcs": "Checksums are always checked",
    "partitioner": "Keys go by murmur2 as in Java; pass partition= to send() for another choice",
    "partitioner_class": "Keys go by murmur2 as in Java; pass partition= to send() for another choice",
    "fetch_queue_backoff_ms": "It is not needed: fetches are sent ahead while fetch_buffer_bytes allows",
    "security_protocol": "Say tls=true for TLS; connections are not authenticated so far",
    "sasl_mechanism": "Connections are not authenticated so far",
    "group_protocol": "Groups use the classic protocol so far",
    "interceptor_classes": "Wrap poll() or send() instead",
}
"""Options of others that we know and do not have: what to do instead."""


def normal(name: str) -> str:
    """The form in which names are compared."""
    return name.strip().lower().replace(".", "_").replace("-", "_")
