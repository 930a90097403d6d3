"""What the registry is told of Kafka's configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from penstock.config.protocol import ProtocolConfig
from penstock.protocols.kafka.config.front import KafkaNodeConfig
from penstock.protocols.kafka.config.spellings import ABSENT, SPELLINGS, VALUES

if TYPE_CHECKING:
    from penstock.config.client import ClientConfig

__all__ = ["ADDED", "AUTO_CREATE"]

AUTO_CREATE: Final = "allow_auto_create_topics"


def _of_jobs(
    role: type[ClientConfig], options: Mapping[str, str], own: Collection[str]
) -> tuple[dict[str, str], set[str]]:
    """Imported when a job is asked for: a client that is none does without."""
    from penstock.protocols.kafka.config.jobs import of_jobs

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
