"""What a TubeMQ client has beyond any client: options of ``tubemq://`` addresses, under their own names and Java's.

Data and its bounds only; other spellings (Java's, Go's) are rows in `spellings`.
Source: Apache InLong TubeMQ 2.x, ``TubeClientConfig`` and ``ConsumerConfig`` of the Java client.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field, fields

from penstock._dataclasses import dataclass
from penstock.config.fields import (
    check,
    choice,
    flag,
    kind_of,
    number,
    optional_flag,
    optional_text,
    ratio,
    secret,
    text,
)
from penstock.config.options import OptionValue
from penstock.errors import ConfigError
from penstock.protocols.tubemq.config.names import check_consumer_id, check_group, parse_filters, parse_start_offsets
from penstock.protocols.tubemq.msg_time import msg_time_zone

__all__ = ["TUBE_OPTIONS", "ConsumePosition", "TubeConfig", "tube_config"]


class ConsumePosition(enum.Enum):
    """Where a group begins in a partition: at its first record or behind its last one (both only where the group has no
    position yet), or behind the last one whenever the partition is taken for the first time."""

    FIRST = -1
    LATEST = 0
    ALWAYS_LATEST = 1


_POSITIONS = {"always-latest": ConsumePosition.ALWAYS_LATEST, "max": ConsumePosition.ALWAYS_LATEST}


@dataclass(frozen=True, slots=True, kw_only=True)
class TubeConfig:
    """Defaults are those of the Java client unless said otherwise.

    ``rpc_timeout_ms`` bounds one request; it travels with it, and the server drops what it cannot answer in time.
    ``heartbeat_period_ms``: 0 leaves a group's to ``heartbeat_interval_ms`` and a producer's at Java's 13 s.
    After ``heartbeat_retries`` heartbeats that failed in a row the next one waits ``heartbeat_after_fail_ms``: 10 s, no
    minute as in Java: heartbeats of ours come every 3 s, and a master that comes back should soon know its members.
    Registering is tried ``register_retries`` times, ``register_backoff_ms`` apart.

    ``connections_per_broker``: partitions are spread over so many; Java's clients have one. A broker works a connection
    off in one thread, and that thread is what limits a client: two gave 1.3 to 1.5 times the rate of one where broker
    and client share two cores. Two, because more bring something only where a broker has cores to spare and a client
    reads many partitions, and because each is a socket and buffers on both sides.

    ``user`` and ``password`` sign every registration; ``authenticate`` false leaves that out. ``local_address``: what
    servers are told as this client's host, and messages carry as their sender's: no part of the protocol depends on it.

    Consuming. ``consume_position``: None follows ``auto_offset_reset``. ``filters``: ``topic@item,item;topic2@item``,
    or ``item,item`` for every topic. ``bound_consume`` with ``session_key``, ``source_count``, ``select_big`` and
    ``start_offsets`` (``broker:topic:partition=offset,…``) begins at given offsets; ``client_balance`` leaves the
    choice of partitions to the members, of which there are ``source_count``, this one being number ``node_id``.
    ``consumer_id``: under which master and brokers know a group's member, "" for one made up of group, host, process
    and time, as Java's is. A restarted member with the id that it had takes its place, partitions included, at once;
    two that run must never have the same one, or each loses what the other reads.
    ``confirm_locally``: a confirmation travels with the next read, not by itself. ``confirm_timeout_ms``: a batch not
    confirmed by then is delivered again. A rebalance waits ``rebalance_confirm_wait_ms`` for batches in use, and then
    takes them for not consumed if ``rollback_if_confirm_timeout``. ``not_found_wait_ms``: the pause after an answer
    without messages. Every ``report_interval_beats``-th heartbeat says what is held. ``metadata_check_ms``: how old
    what is known of partitions may get. ``query_priority``: three digits, what is read from memory by whom; 0 leaves it
    to the servers.

    ``msg_time_zone``: the zone of ``$msgTime$``, the minute that other clients' messages carry (`msg_time`), as a name,
    an offset or ``local``. UTC and not, as Java's reader has it, the process's own: the same message has the same time
    on every machine that reads it. Give producers and consumers the same one; ours say the exact time, too.

    Producing. A link with ``link_max_failures`` or more failures and a higher share than ``link_max_forbidden_rate``
    within ``link_stats_duration_ms`` is left alone for ``link_forbidden_duration_ms``; a broker that says it is
    unavailable for ``unavailable_broker_ms``; both for at most a share of ``max_sent_forbidden_rate`` of all brokers
    that is judged anew every ``max_forbidden_check_ms``. ``link_max_delayed`` and ``session_max_delayed`` bound how
    many messages are unanswered, by broker and in all. ``allow_duplicates``: a message of which nobody knows whether it
    is stored (its connection broke, no answer came in time, the broker failed or stopped meanwhile) is sent again, for
    nothing in the protocol makes a repeated message one; false: its delivery fails. True, because losing is worse, and
    because a broker that is restarted leaves thousands of such messages.

    Reading ranges and offsets books partitions under groups named ``reader_group`` with a number behind: a bounded set,
    so that brokers do not have to remember one more group for each read. ``admin_address`` ``host:port[,…]``: the
    master's web port, for what only its HTTP API can do, with ``admin_token`` and in the name of ``admin_user``.
    """

    rpc_timeout_ms: int = number(
        10_000,
        low=3_000,
        high=600_000,
        about="how long one request may take; it travels with it, and servers drop what is too late",
    )
    heartbeat_period_ms: int = number(
        0, low=0, about="how often heartbeats are sent; 0: a group's by heartbeat_interval_ms, a producer's every 13 s"
    )
    heartbeat_retries: int = number(
        5, low=0, about="after so many heartbeats that failed in a row the next one waits longer"
    )
    heartbeat_after_fail_ms: int = number(10_000, low=0, about="that is, so long")
    register_retries: int = number(5, low=1, about="how often registering is tried")
    register_backoff_ms: int = number(1_000, low=0, about="the pause in between")
    connections_per_broker: int = number(
        2, low=1, high=64, about="connections that a client opens to a broker, and spreads partitions over"
    )
    user: str | None = optional_text(about="in whose name registrations are signed")
    password: str | None = secret(about="with what")
    authenticate: bool | None = optional_flag(about="false: do not sign although there is a user")
    local_address: str = text("127.0.0.1", about="what servers are told as this client's host")

    consume_position: ConsumePosition | None = field(
        default=None,
        metadata=choice(
            ConsumePosition,
            _POSITIONS,
            optional=True,
            about="where a group begins in a partition: first, latest, always_latest; else as auto_offset_reset says",
        ),
    )
    filters: str = text(
        "", about="which stream ids are read: item,item for every topic, or topic@item,item;topic2@item"
    )
    bound_consume: bool = flag(False, about="begin at given offsets, the same for all members of a session")
    session_key: str = text("", about="the session's name; all its members give the same")
    select_big: bool = flag(True, about="of two members' offsets for a partition the larger one counts")
    start_offsets: str = text("", about="the offsets: broker:topic:partition=offset,…")
    client_balance: bool = flag(False, about="members choose their partitions by themselves")
    source_count: int = number(-2, low=-2, about="how many members there will be")
    node_id: int = number(-2, low=-2, about="which of the members this one is, from 0")
    consumer_id: str = text("", about="the id that servers know this member by; else one is made up")
    confirm_locally: bool = flag(False, about="a confirmation travels with the next read")
    confirm_timeout_ms: int = number(60_000, low=1, about="a batch that is not confirmed by then is delivered again")
    rebalance_confirm_wait_ms: int = number(3_000, low=0, about="how long a rebalance waits for batches in use")
    rollback_if_confirm_timeout: bool = flag(True, about="what is still in use then counts as not consumed")
    not_found_wait_ms: int = number(400, low=0, about="the pause after an answer without messages")
    report_interval_beats: int = number(6, low=3, about="every so many heartbeats say what is held")
    metadata_check_ms: int = number(10_000, low=5_000, about="how old what is known of partitions may get")
    query_priority: int = number(
        0, low=0, high=999, about="three digits, who may read from disk and who from memory; 0 leaves it to the servers"
    )
    msg_time_zone: str = text(
        "UTC", about="the zone of messages' minutes ($msgTime$): UTC, local, +08:00, Asia/Shanghai"
    )

    link_stats_duration_ms: int = number(60_000, low=1, about="failures of a connection are counted over so long")
    link_forbidden_duration_ms: int = number(
        1_800_000, low=0, about="a connection with too many is left alone for so long"
    )
    link_max_failures: int = number(5, low=1, about="how many are too many")
    link_max_forbidden_rate: float = ratio(0.3, about="and which share of all requests")
    unavailable_broker_ms: int = number(
        50_000, low=0, about="a broker that says it is unavailable is left alone for so long"
    )
    max_sent_forbidden_rate: float = ratio(0.15, about="the largest share of brokers that is left alone")
    max_forbidden_check_ms: int = number(30_000, low=1, about="how often that is judged anew")
    link_max_delayed: int = number(50_000, low=1, about="the most messages of one broker that are not answered yet")
    session_max_delayed: int = number(500_000, low=1, about="the same over all brokers")

    allow_duplicates: bool = flag(True, about="a message that may be stored or not is sent again")

    reader_group: str = text("penstock-reader", about="groups of exact reads are named so, with a number behind")
    admin_address: str = text("", about="the masters' web port, for what only their HTTP API can do: host:port[,…]")
    admin_token: str | None = secret(about="what changing something there asks for")
    admin_user: str = text("penstock", about="in whose name")

    def __post_init__(self) -> None:
        check(self)
        self.validate()

    @property
    def signs(self) -> bool:
        """Whether registrations are signed."""
        return self.user is not None and self.authenticate is not False

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        if (self.user is None) != (self.password is None):
            given, lacks = ("user", "password") if self.user is not None else ("password", "user")
            raise ConfigError(f"there is a {given}, but no {lacks}")
        if self.authenticate and self.user is None:
            raise ConfigError("authenticate is set, but there is no user", hint="Add user=NAME and password=…")
        parse_filters(self.filters)
        parse_start_offsets(self.start_offsets)
        msg_time_zone(self.msg_time_zone)
        check_group(self.reader_group + "-0", "reader_group")
        if self.consumer_id:
            check_consumer_id(self.consumer_id)
        if len(self.session_key) > 1_024:
            raise ConfigError(f"session_key has {len(self.session_key)} characters, allowed are 1,024")
        if self.bound_consume and self.client_balance:
            raise ConfigError("bound_consume and client_balance are two ways to choose, keep one")
        if self.bound_consume and not (self.session_key and self.source_count > 0):
            raise ConfigError(
                "bound_consume needs a session_key and a source_count",
                hint="Give all members of the group the same key, and say how many members there will be",
            )
        if self.start_offsets.strip() and not self.bound_consume:
            raise ConfigError(
                "start_offsets is set, but bound_consume is not, without which nobody looks at it",
                hint="Add bound_consume=true; without a session, assign({partition: offset}) begins at an offset",
            )
        if self.source_count > 0 and self.client_balance and not 0 <= self.node_id < self.source_count:
            raise ConfigError(
                f"node_id is {self.node_id}, but source_count is {self.source_count}: allowed is 0 to that less one"
            )


TUBE_OPTIONS = frozenset(option.name for option in fields(TubeConfig))
"""Their names."""


def tube_config(given: Mapping[str, OptionValue]) -> TubeConfig:
    """The config from options under our names, as addresses, arguments and files give them. Raises ConfigError."""
    kinds = {option.name: kind_of(option) for option in fields(TubeConfig)}
    return TubeConfig(**{name: kinds[name].read(name, value) for name, value in given.items()})  # type: ignore[arg-type]
