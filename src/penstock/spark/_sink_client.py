"""Producer options as jobs for Spark's Kafka sink give them: those of Kafka's Java producer, without ``kafka.``.

What our producer knows goes to it. What only a Java client could do something with is left out, and said once; what
would change what is written is an error. Source of the names: Apache Kafka 4.x documentation, "Producer Configs".
What must not live here: values of our producer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.config import OptionValue, ProducerConfig
from penstock.config.options import canonical_options
from penstock.config.spellings import normal

__all__ = ["producer_options"]

_OF_JAVA = (
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "receive.buffer.bytes",
    "retries",  # ours go on until delivery.timeout.ms, which is what Java's do unless told otherwise
    "security.providers",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
)
_LEFT_OUT = {normal(name) for name in _OF_JAVA}
_PLAIN = {"security_protocol": "plaintext", "partitioner_ignore_keys": "false"}
"""Options that ask for what happens anyway: the value that does."""


def producer_options(
    given: Mapping[str, str], known_to_protocol: Collection[str]
) -> tuple[dict[str, OptionValue], tuple[str, ...]]:
    """(options in our producer's spelling, names of those left out). Raises ConfigError for what is unknown."""
    kept: dict[str, str] = {}
    left_out: list[str] = []
    for name, text in given.items():
        same = normal(name)
        if same in _LEFT_OUT or (same not in known_to_protocol and _PLAIN.get(same) == text.strip().lower()):
            left_out.append(name)
        else:
            kept[name] = text
    return canonical_options(ProducerConfig, kept, known_to_protocol), tuple(sorted(left_out))
