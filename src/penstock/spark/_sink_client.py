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
from penstock.spark._java_options import OF_ANY_CLIENT, without_java_options
from penstock.spark._tls_options import without_java_tls

__all__ = ["producer_options"]

_OF_JAVA = (
    *OF_ANY_CLIENT,
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "retries",  # ours go on until delivery.timeout.ms, which is what Java's do unless told otherwise
)
_LEFT_OUT = {normal(name) for name in _OF_JAVA}
_PLAIN = {"partitioner_ignore_keys": "false"}
"""Options that ask for what happens anyway: the value that does."""


def producer_options(
    given: Mapping[str, str], known_to_protocol: Collection[str]
) -> tuple[dict[str, OptionValue], tuple[str, ...]]:
    """(options in our producer's spelling, names of those left out). Raises ConfigError for what is unknown."""
    secured, of_tls = without_java_tls(given, known_to_protocol)
    kept, left_out = without_java_options(secured, _LEFT_OUT, _PLAIN, known_to_protocol)
    return canonical_options(ProducerConfig, kept, known_to_protocol), tuple(sorted({*left_out, *of_tls}))
