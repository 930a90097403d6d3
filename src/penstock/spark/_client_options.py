"""Client options as jobs for Spark's Kafka source give them: those of Kafka's Java consumer, without ``kafka.``.

What our client knows goes to it. What only a Java client could do something with, or only a member of a group (Spark's
readers never are), is left out, and said once. What would change the meaning of the read is an error.
Source of the names: Apache Kafka 4.x documentation, "Consumer Configs". What must not live here: values of our client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.config import ConsumerConfig, OptionValue
from penstock.config.options import canonical_options
from penstock.config.spellings import normal
from penstock.spark._java_options import OF_ANY_CLIENT, without_java_options
from penstock.spark._tls_options import without_java_tls

__all__ = ["client_options"]

_OF_MEMBERS = (
    "auto.commit.interval.ms",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
_OF_JAVA = (
    *OF_ANY_CLIENT,
    "check.crcs",  # ours are always checked
    "default.list.offsets.timeout.ms",
    "exclude.internal.topics",
)
_LEFT_OUT = {normal(name) for name in (*_OF_MEMBERS, *_OF_JAVA)}
_PLAIN = {"allow_auto_create_topics": "true"}
"""Options that ask for what happens anyway: the value that does."""


def client_options(
    given: Mapping[str, str], known_to_protocol: Collection[str]
) -> tuple[dict[str, OptionValue], tuple[str, ...]]:
    """(options in our client's spelling, names of those left out). Raises ConfigError for what cannot be honoured."""
    secured, of_tls = without_java_tls(given, known_to_protocol)
    kept, left_out = without_java_options(secured, _LEFT_OUT, _PLAIN, known_to_protocol)
    return canonical_options(ConsumerConfig, kept, known_to_protocol), tuple(sorted({*left_out, *of_tls}))
