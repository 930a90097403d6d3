"""The figures of a Kafka client, apart from those of its transport and of the engine above it. Data only."""

from __future__ import annotations

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError, ServerError

__all__ = ["KafkaOptions"]

_UNKNOWN_TOPIC_OR_PARTITION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """Defaults are those of Kafka's Java clients 4.x.

    ``request_timeout_ms`` bounds one request, ``api_timeout_ms`` an operation with its retries. ``retry_backoff_ms``
    doubles up to ``retry_backoff_max_ms``, give or take 20 %. ``metadata_max_age_ms``: after so long what is known of
    topics is asked for again. ``read_committed``: records of aborted and open transactions are not seen.
    ``check_crcs``: off trusts the network and the broker's disk. ``unknown_topic_patience_ms``: a topic nobody knows of
    may have been created this moment; after so long it is an error. ``short_log_patience_ms``: the same for a log that
    ends before a range does, because a new leader may be behind for a moment. ``silent_node_patience_ms``: after so
    long an answer that all nodes give together goes without those that cannot be reached. ``auto_create_topics`` lets
    brokers that allow it create a topic because its metadata was asked for. Off here, because a misspelt name would
    become a topic; producers have it on, as Java's.
    """

    client_id: str = "penstock"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    unknown_topic_patience_ms: int = 3_000
    short_log_patience_ms: int = 5_000
    silent_node_patience_ms: int = 3_000
    auto_create_topics: bool = False
    read_committed: bool = False
    check_crcs: bool = True
    rack: str = ""

    @property
    def request_timeout_s(self) -> float:
        """``request_timeout_ms`` as the channel wants it."""
        return self.request_timeout_ms / 1_000

    def patience_ms(self, error: PenstockError) -> int:
        """A topic that nobody knows is waited for more briefly than a leader: it may be new, but more often its name is
        misspelt."""
        unknown = isinstance(error, ServerError) and error.code == _UNKNOWN_TOPIC_OR_PARTITION
        return min(self.api_timeout_ms, self.unknown_topic_patience_ms) if unknown else self.api_timeout_ms
