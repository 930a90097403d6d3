"""What a node is told of its Kafka front."""

from __future__ import annotations

from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.config.fields import check, choice, number
from penstock.errors import ConfigError
from penstock.protocols.kafka.migration import MigrationPolicy

__all__ = ["KafkaNodeConfig"]

_SHORTEST, _LONGEST = 6_000, 1_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaNodeConfig:
    """Defaults are Kafka's, but for three.

    ``initial_rebalance_delay_ms`` 0: a group's first member does not wait for others (three seconds at Kafka's).
    ``max_request_entries`` 50,000 (Kafka: no limit): what so many become in memory, 50 MB, is looked through for
    garbage in a few tens of milliseconds, in which nobody is served.
    ``group_max_size`` 10,000 members (Kafka: no limit), so that one group's memory is bounded.
    """

    initial_rebalance_delay_ms: int = number(0, low=0, about="how long a new group's first member waits for others")
    group_min_session_timeout_ms: int = number(_SHORTEST, low=1, about="the shortest that a group's member may ask for")
    group_max_session_timeout_ms: int = number(_LONGEST, low=1, about="the longest that a group's member may ask for")
    group_consumer_session_timeout_ms: int = number(
        45_000, low=1, about="when a member of group.protocol=consumer counts as gone"
    )
    group_consumer_heartbeat_interval_ms: int = number(
        5_000, low=1, about="how often members of group.protocol=consumer are to be heard of"
    )
    group_consumer_min_session_timeout_ms: int = number(
        45_000, low=1, about="the shortest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_max_session_timeout_ms: int = number(
        60_000, low=1, about="the longest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_min_heartbeat_interval_ms: int = number(
        5_000, low=1, about="the shortest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_max_heartbeat_interval_ms: int = number(
        15_000, low=1, about="the longest that can be set for a single group of group.protocol=consumer"
    )
    group_consumer_migration_policy: MigrationPolicy = field(
        default=MigrationPolicy.BIDIRECTIONAL,
        metadata=choice(
            MigrationPolicy, about="which way a group with members may go over from one protocol of groups to the other"
        ),
    )
    max_request_entries: int = number(
        50_000, low=2_000, high=1_000_000, about="entries of one Kafka request; who sends more is hung up on"
    )
    group_max_size: int = number(10_000, low=1, about="members of one Kafka group; more are refused")
    max_groups: int = number(
        16_000,
        low=1,
        about="Kafka groups, with members or without, until their offsets are forgotten; more are refused",
    )
    max_transactional_ids: int = number(40_000, low=1, about="transactional ids that are remembered; more are refused")
    max_topic_partitions: int = number(
        40_000, low=1, about="partitions of all topics in the node's own log; Kafka clients can make no more"
    )
    max_held: int = number(50_000, low=1, about="Kafka fetches that wait; more are answered at once")
    offsets_retention_minutes: int = number(
        10_080,
        low=1,
        about="when offsets that no member reads on are forgotten, but for commits that say it themselves",
    )
    offsets_check_ms: int = number(600_000, low=1, about="how often such offsets are looked for")

    def __post_init__(self) -> None:
        check(self)
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group_min_session_timeout_ms is {self.group_min_session_timeout_ms}, more than"
                f" group_max_session_timeout_ms, {self.group_max_session_timeout_ms}"
            )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                f"group_consumer_heartbeat_interval_ms is {self.group_consumer_heartbeat_interval_ms}, not less than"
                f" group_consumer_session_timeout_ms, {self.group_consumer_session_timeout_ms}"
            )
