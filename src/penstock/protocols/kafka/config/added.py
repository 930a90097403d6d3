"""What the registry is told of Kafka's configuration."""

from __future__ import annotations

from typing import Final

from penstock.config import ProtocolConfig
from penstock.protocols.kafka.config.front import KafkaNodeConfig
from penstock.protocols.kafka.config.jobs import of_jobs
from penstock.protocols.kafka.config.spellings import ABSENT, SPELLINGS, VALUES

__all__ = ["ADDED", "AUTO_CREATE"]

AUTO_CREATE: Final = "allow_auto_create_topics"

ADDED: Final = ProtocolConfig(
    port=9092,
    options=frozenset({AUTO_CREATE}),
    spellings=SPELLINGS,
    absent=ABSENT,
    values=VALUES,
    jobs=of_jobs,
    front=KafkaNodeConfig,
)
