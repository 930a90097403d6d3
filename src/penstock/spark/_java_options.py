"""Options of Kafka's Java clients that only a Java client could do something with: left out here, and said once.

Source of the names: Apache Kafka 4.x documentation, "Consumer Configs" and "Producer Configs". What must not live here:
what only readers or only writers have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.config.spellings import normal

__all__ = ["OF_ANY_CLIENT", "without_java_options"]

OF_ANY_CLIENT = (
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


def without_java_options(
    given: Mapping[str, str], left_out: Collection[str], plain: Mapping[str, str], known_to_protocol: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(What stays of ``given``, names of what goes): what is in ``left_out``, and what ``plain`` asks for anyway.

    ``plain`` has the value that changes nothing, by option; both have names in their `normal` form.
    """
    kept: dict[str, str] = {}
    dropped: list[str] = []
    for name, text in given.items():
        same = normal(name)
        if same in left_out or (same not in known_to_protocol and plain.get(same) == text.strip().lower()):
            dropped.append(name)
        else:
            kept[name] = text
    return kept, tuple(sorted(dropped))
