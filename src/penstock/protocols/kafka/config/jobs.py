"""Options as jobs for other Kafka connectors give them: those of Kafka's Java clients.

What our clients know is kept. What only a Java client could do something with, or only a member of a group (a job's
readers never are), is left out; what would change what is read or written is an error. Source of the names: Apache
Kafka 4.x documentation, "Consumer Configs" and "Producer Configs". What must not live here: values of our clients.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.config.client import ClientConfig
from penstock.config.producer import ProducerConfig
from penstock.config.spellings import normal
from penstock.protocols.kafka.config.job_tls import without_java_tls

__all__ = ["of_jobs"]

_OF_ANY_CLIENT: Final = (
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "security.providers",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
)
_OF_MEMBERS: Final = (
    "auto.commit.interval.ms",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
_OF_CONSUMERS: Final = (
    *_OF_ANY_CLIENT,
    *_OF_MEMBERS,
    "check.crcs",  # ours are always checked
    "default.list.offsets.timeout.ms",
    "exclude.internal.topics",
)
_OF_PRODUCERS: Final = (
    *_OF_ANY_CLIENT,
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "retries",  # ours go on until delivery.timeout.ms, which is what Java's do unless told otherwise
)
_LEFT_OUT: Final = {
    "consumer": frozenset(map(normal, _OF_CONSUMERS)),
    "producer": frozenset(map(normal, _OF_PRODUCERS)),
}
_PLAIN: Final = {
    "consumer": {"allow_auto_create_topics": "true"},
    "producer": {"partitioner_ignore_keys": "false"},
}
"""Options that ask for what happens anyway: the value that does."""


def of_jobs(
    role: type[ClientConfig], given: Mapping[str, str], own: Collection[str]
) -> tuple[dict[str, str], set[str]]:
    """(what means something here, names of what does not); ``own`` are options that the address's protocol has."""
    which = "producer" if issubclass(role, ProducerConfig) else "consumer"
    secured, of_tls = without_java_tls(given, own)
    kept: dict[str, str] = {}
    dropped = set(of_tls)
    for name, text in secured.items():
        same = normal(name)
        plain = same not in own and _PLAIN[which].get(same) == text.strip().lower()
        if plain or same in _LEFT_OUT[which]:
            dropped.add(name)
        else:
            kept[name] = text
    return kept, dropped
