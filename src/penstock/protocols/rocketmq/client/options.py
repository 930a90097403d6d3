"""The figures of a RocketMQ client: the protocol's own options and those that every client has. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from penstock._dataclasses import dataclass
from penstock.errors import ErrorKind, PenstockError, ServerError
from penstock.protocols.rocketmq.client.subscriptions import tags_of
from penstock.protocols.rocketmq.config.names import check_group
from penstock.protocols.rocketmq.config.options import RocketConfig, rocket_config

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue

__all__ = ["RocketOptions", "options_of"]

_TICK_S = 5.0
_HOLD_SLACK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketOptions:
    """``rocket`` are the protocol's own options, the rest is what every client has (see
    `penstock.config.ClientConfig`).

    ``group`` is in whose name reads are made. ``publishing``: this client writes, so the queues it is told about are
    those that may be written to. ``from_latest``: where a group begins that has committed nothing.
    ``silent_patience_ms``: so long a server is waited for that others can do without.
    """

    rocket: RocketConfig = field(default_factory=RocketConfig)
    client_id: str = "penstock"
    group: str | None = None
    publishing: bool = False
    from_latest: bool = False
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    unknown_topic_patience_ms: int = 3_000
    short_log_patience_ms: int = 5_000
    silent_patience_ms: int = 3_000

    @property
    def request_timeout_s(self) -> float:
        """``request_timeout_ms`` as the channel wants it."""
        return self.request_timeout_ms / 1_000

    @property
    def reads_as(self) -> str:
        """The group that reads are made as."""
        return self.group or self.rocket.reader_group

    @property
    def held_s(self) -> float:
        """For how long a broker may keep a read that finds nothing: it looks at those it holds every five seconds."""
        return self.rocket.suspend_ms / 1_000 + _TICK_S

    @property
    def held_timeout_s(self) -> float:
        """When a read that was held is given up."""
        return self.held_s + max(_HOLD_SLACK_S, self.request_timeout_s)

    @property
    def expression(self) -> tuple[str, str]:
        """What brokers choose messages by: the expression and its type."""
        return (self.rocket.sql, "SQL92") if self.rocket.sql else (self.rocket.tags.strip() or "*", "TAG")

    @property
    def chooses(self) -> bool:
        """Whether some messages are not wanted, so that one answer does not end where its last message does."""
        return self.expression != ("*", "TAG")

    @property
    def tags(self) -> tuple[str, ...]:
        """Which tags are wanted; none: all, or it is not tags that messages are chosen by. Brokers compare hashes
        only."""
        expression, kind = self.expression
        return tags_of(expression) if kind == "TAG" else ()

    def patience_ms(self, error: PenstockError) -> int:
        """A topic that nobody knows is waited for more briefly than a broker: it may be new, but more often its name is
        misspelt."""
        unknown = isinstance(error, ServerError) and error.kind is ErrorKind.UNKNOWN_TOPIC
        return min(self.api_timeout_ms, self.unknown_topic_patience_ms) if unknown else self.api_timeout_ms


def options_of(config: ClientConfig, extra: Mapping[str, OptionValue]) -> RocketOptions:
    """From what a client of any protocol was told, and what only this one knows. Raises ConfigError."""
    from penstock.config import ConsumerConfig, OffsetReset, ProducerConfig

    consumer = config if isinstance(config, ConsumerConfig) else None
    group = None if consumer is None else consumer.group
    return RocketOptions(
        rocket=rocket_config(extra),
        client_id=config.client_id,
        group=None if group is None else check_group(group),
        publishing=isinstance(config, ProducerConfig),
        from_latest=consumer is not None and consumer.auto_offset_reset is OffsetReset.LATEST,
        request_timeout_ms=config.request_timeout_ms,
        api_timeout_ms=config.api_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
    )
