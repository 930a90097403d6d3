"""What a consumer has beyond a client: its group, its fetches, its commits. Data and its bounds only."""

from __future__ import annotations

import enum
from dataclasses import field, fields
from typing import Final

from penstock._dataclasses import dataclass
from penstock.config.client import ClientConfig
from penstock.config.fields import choice, flag, names, number, optional_text, text
from penstock.errors import ConfigError

__all__ = ["ASSIGNORS", "ConsumerConfig", "GroupProtocol", "IsolationLevel", "OffsetReset", "OnBadRecord"]

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class OffsetReset(enum.Enum):
    """Where to begin when a partition has no committed offset, or one that is no longer there."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class GroupProtocol(enum.Enum):
    """How a group shares out: its members among themselves, or the broker for them (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class IsolationLevel(enum.Enum):
    """Whether records of transactions that are still open, or were aborted, are seen."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OnBadRecord(enum.Enum):
    """What happens to records that cannot be decoded, and to those that a deserializer refuses."""

    AUTO = "auto"
    """As the log's own client does: Kafka's fails, RocketMQ's and TubeMQ's skip. What a deserializer refuses fails."""
    FAIL = "fail"
    """An error that names the offset; reading stays there until the application seeks past it."""
    SKIP = "skip"
    """They are left out and counted, with a warning a partition and minute."""
    RAW = "raw"
    """A record with the raw bytes as its value, and a header ``penstock.error`` that says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Defaults are those of Kafka's Java consumer 4.x but for these, which lose nothing and feed columns:

    ``enable_auto_commit`` off: what was polled is not yet done; ``commit()`` says when it is. With it on, offsets are
    committed every ``auto_commit_interval_ms``, each only after a later ``poll`` showed that its batch was handled.
    ``auto_offset_reset`` earliest: a new group, and a partition added later, are read from their first record;
    "latest" silently skips what is written before the consumer's first look. ``max_poll_records`` 50,000: a poll hands
    over columns, where 500 rows would be nearly all overhead. ``max_partition_fetch_bytes`` 4 MiB: one request's fixed
    cost is then spread over some 40,000 records of 100 bytes. ``fetch_max_bytes`` 8 MiB, for two such partitions:
    larger answers leave the processor's caches, and nothing is decoded while they come. ``fetch_buffer_bytes`` 64 MiB:
    the most that is held undecoded ahead of the user; a fetch is not sent while it could go over that, nor while two
    of a node's full answers wait, and asks for no more than the node's share of it.

    Java's: ``session_timeout_ms`` (without a heartbeat for so long, the group goes on without this member),
    ``heartbeat_interval_ms`` (a third or less of it), ``max_poll_interval_ms`` (without a poll for so long this member
    leaves; also how long a rebalance waits for it), ``fetch_min_bytes`` / ``fetch_max_wait_ms`` (when a server answers
    a fetch), ``isolation_level``, ``on_bad_record`` auto, ``assignors`` in order of preference (if all of them are
    cooperative, members keep what they own while the group shares out anew; beside these names, classes derived from
    `penstock.Assignor`), ``client_rack``, ``group_protocol`` (classic, which every broker has; by the newer one the
    broker decides how long members may be silent, and who gets what: by ``group_remote_assignor``, if it has that).
    """

    group: str | None = optional_text(
        about="the group to share partitions with and to commit for; without one all partitions are read"
    )
    group_instance_id: str | None = optional_text(
        about="makes this a static member: back within the session timeout it gets its partitions again"
    )
    client_rack: str = text("", about="where this client is, as the brokers' racks are named")
    group_protocol: GroupProtocol = field(
        default=GroupProtocol.CLASSIC,
        metadata=choice(
            GroupProtocol,
            about="who shares out a group's partitions: its members, or (consumer, KIP-848) the broker",
        ),
    )
    group_remote_assignor: str | None = optional_text(
        about="with group_protocol=consumer: how the broker is to share out, uniform or range; else it chooses"
    )
    assignors: tuple[str | type[object], ...] = names(
        ("range", "cooperative-sticky"),
        known=ASSIGNORS,
        classes=True,
        about="how the group may share out partitions, the first choice first",
    )
    session_timeout_ms: int = number(
        45_000, low=1, about="without a heartbeat for so long, the group goes on without this member"
    )
    heartbeat_interval_ms: int = number(
        3_000, low=1, about="how often a heartbeat is sent; a third of the session timeout or less"
    )
    max_poll_interval_ms: int = number(
        300_000, low=1, about="without a poll for so long this member leaves; also how long a rebalance waits for it"
    )
    max_poll_records: int = number(50_000, low=1, about="the most records that one poll returns")
    enable_auto_commit: bool = flag(False, about="commit what a later poll showed to be handled, without being told")
    auto_commit_interval_ms: int = number(5_000, low=0, about="how often that happens")
    auto_offset_reset: OffsetReset = field(
        default=OffsetReset.EARLIEST,
        metadata=choice(
            OffsetReset,
            about="where to begin in a partition without a committed offset, or with one that is gone",
        ),
    )
    fetch_min_bytes: int = number(1, low=0, about="a server holds a fetch until it has so much")
    fetch_max_bytes: int = number(
        8 * 1024 * 1024, low=1_024, about="the most one fetch's answer brings; a single larger batch comes all the same"
    )
    fetch_max_wait_ms: int = number(500, low=0, about="the longest a server holds a fetch")
    max_partition_fetch_bytes: int = number(
        4 * 1024 * 1024, low=1_024, about="the most one fetch brings of one partition"
    )
    fetch_buffer_bytes: int = number(
        64 * 1024 * 1024, low=1_024, high=2**40, about="the most that is held undecoded ahead of you"
    )
    isolation_level: IsolationLevel = field(
        default=IsolationLevel.READ_UNCOMMITTED,
        metadata=choice(IsolationLevel, about="whether records of transactions that are open or were aborted are seen"),
    )

    on_bad_record: OnBadRecord = field(
        default=OnBadRecord.AUTO,
        metadata=choice(
            OnBadRecord,
            about="what happens to records that cannot be decoded: an error (fail), left out and counted (skip), or the"
            " raw bytes with a header that says what is wrong (raw); auto does what the log's own client does",
        ),
    )

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        # Not super(): a slotted dataclass is a copy of its class, and the zero-argument form looks at the original.
        ClientConfig.validate(self)
        if self.group is None:
            for name, given in (
                ("enable_auto_commit", self.enable_auto_commit),
                ("group_instance_id", self.group_instance_id),
            ):
                if given:
                    raise ConfigError(
                        f"{name} is set, but there is no group", hint="Add group=NAME, or drop the option"
                    )
        self._check_protocol()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}, but the session ends after"
                f" session_timeout_ms={self.session_timeout_ms}: one late heartbeat would lose the partitions",
                hint="A third of session_timeout_ms or less leaves room for two that get lost",
            )
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigError(
                f"a fetch may wait fetch_max_wait_ms={self.fetch_max_wait_ms} at the server,"
                f" but is given up after request_timeout_ms={self.request_timeout_ms}"
            )
        if self.fetch_min_bytes > self.fetch_max_bytes:
            raise ConfigError(
                f"fetch_min_bytes is {self.fetch_min_bytes},"
                f" more than fetch_max_bytes={self.fetch_max_bytes} lets through"
            )

    def _check_protocol(self) -> None:
        """What the other protocol's members know is refused, as by Java: it would not mean what it says."""
        if self.group_protocol is GroupProtocol.CLASSIC:
            if self.group_remote_assignor is not None:
                raise ConfigError(
                    "group_remote_assignor is set, but group_protocol is classic: its members share out by assignors",
                    hint="Add group_protocol=consumer, or drop the option",
                )
            return
        for option, instead in _CLASSIC_ONLY.items():
            if getattr(self, option) != _DEFAULTS[option]:
                raise ConfigError(f"{option} has no meaning with group_protocol=consumer", hint=instead)


_CLASSIC_ONLY: Final = {
    "assignors": "The broker shares out; group_remote_assignor asks it for one of its ways (uniform, range)",
    "session_timeout_ms": "The broker decides: group.consumer.session.timeout.ms there, or of the group",
    "heartbeat_interval_ms": "The broker decides: group.consumer.heartbeat.interval.ms there, or of the group",
}
_DEFAULTS: Final = {each.name: each.default for each in fields(ConsumerConfig)}
