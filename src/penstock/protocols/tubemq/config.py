"""What TubeMQ adds to configuration: options, what its other clients call them, their addresses and files."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from msgspec import Struct, structs

from penstock.config.address import Address, parse_endpoints
from penstock.config.client import ClientConfig, ClientLog, ConsumerConfig
from penstock.config.fields import (
    BOOTSTRAP,
    TOPICS,
    Options,
    Spelling,
    choice,
    fields,
    flag,
    kind_of,
    normal,
    number,
    optional_flag,
    optional_text,
    ratio,
    secret,
    text,
)
from penstock.config.options import OptionValue, ProtocolConfig, canonical_options
from penstock.errors import ConfigError
from penstock.extras import Extra

__all__ = [
    "ADDED",
    "EXTRA",
    "GREETING",
    "SECTIONS",
    "TUBE_MEANINGLESS",
    "TUBE_OPTIONS",
    "TUBE_SPELLINGS",
    "ConsumePosition",
    "MsgTimeZone",
    "TubeConfig",
    "TubeNodeConfig",
    "check_consumer_id",
    "check_group",
    "check_topic",
    "go_address",
    "ini_options",
    "is_go_address",
    "msg_time_zone",
    "parse_filters",
    "parse_go_address",
    "parse_start_offsets",
    "tube_config",
]


# Options of a node's TubeMQ front.
class TubeNodeConfig(Options):
    """``balance_period_ms``: how often a group's partitions are looked at for moving; TubeMQ's own minute is what
    people wait for their first message. ``tubemq_timeout_ms``: without a heartbeat for so long a client is out,
    TubeMQ's default; its clients beat every 13 seconds. ``admin_token``: what administrative calls must bring
    (``confModAuthToken``) before it changes anything; without one it asks for none, as nothing else of a node does.
    """

    balance_period_ms: int = number(
        1_000, low=50, about="how often a TubeMQ group's partitions are looked at for moving"
    )
    tubemq_timeout_ms: int = number(30_000, low=1_000, about="without a heartbeat for so long a TubeMQ client is out")
    tubemq_max_clients: int = number(
        10_000, low=20, about="TubeMQ consumers that are registered, and as many producers; more are refused"
    )
    tubemq_max_bookings: int = number(
        100_000, low=20, about="partitions that groups of TubeMQ have booked; more are refused"
    )
    admin_token: str | None = secret(
        about="the token that TubeMQ's administrative calls must bring before they change anything"
    )


# What TubeMQ's own clients call our options: Java's names and Go's, a row each; and what of theirs means nothing here.
#
# Names are compared as in `penstock.config.fields`, so case does not matter. Sources: Apache InLong TubeMQ 2.x,
# ``TubeClientConfig``, ``ConsumerConfig`` (Java) and the address strings of the Go client.
def _row(ours: str, *theirs: str) -> Spelling:
    return Spelling(ours, also=theirs)


TUBE_SPELLINGS: Final = (
    _row(BOOTSTRAP, "masterAddrInfo", "masters"),
    _row(TOPICS, "topic"),
    _row("group", "consumerGroup"),
    _row("rpc_timeout_ms", "rpcTimeoutMs", "readTimeout"),
    _row("heartbeat_period_ms", "heartbeatPeriodMs", "heartbeatInterval"),
    _row("heartbeat_retries", "maxHeartBeatRetryTimes", "heartbeatMaxRetryTimes"),
    _row("heartbeat_after_fail_ms", "heartbeatPeriodAfterFail", "heartbeatAfterFail"),
    _row("register_retries", "maxRegisterRetryTimes"),
    _row("register_backoff_ms", "regFailWaitPeriodMs"),
    _row("user", "usrName", "authUserName"),
    _row("password", "usrPassWord", "authPassword"),
    _row("authenticate", "enableUserAuthentic", "authEnable"),
    _row("consume_position", "consumePosition"),
    _row("bound_consume", "boundConsume"),
    _row("session_key", "sessionKey"),
    _row("source_count", "sourceCount"),
    _row("node_id", "nodeId"),
    _row("consumer_id", "consumerId"),
    _row("select_big", "selectBig"),
    _row("start_offsets", "requiredPartition", "partitionOffset"),
    _row("confirm_locally", "pullConfirmInLocal"),
    _row("confirm_timeout_ms", "pullProtectConfirmTimeoutMs", "maxConfirmWait"),
    _row("rebalance_confirm_wait_ms", "pullRebConfirmWaitPeriodMs", "rebConfirmWait"),
    _row("rollback_if_confirm_timeout", "pullRebConfirmTimeoutRollBack", "rollbackIfConfirmTimeout"),
    _row("not_found_wait_ms", "msgNotFoundWaitPeriodMs", "msgNotFoundWait"),
    _row("report_interval_beats", "maxSubInfoReportIntvlTimes", "maxSubInfoReportInterval"),
    _row("metadata_check_ms", "partMetaInfoCheckPeriodMs"),
    _row("query_priority", "qryPriorityId"),
    _row("link_stats_duration_ms", "linkStatsDurationMs"),
    _row("link_forbidden_duration_ms", "linkStatsForbiddenDurationMs", "ForbiddenDurationMs"),
    _row("link_max_failures", "linkStatsMaxAllowedFailTimes", "MaxAllowedFailTimes"),
    _row("link_max_forbidden_rate", "linkStatsMaxForbiddenRate", "MaxForbiddenRate"),
    _row("unavailable_broker_ms", "unAvailableFbdDurationMs"),
    _row("max_sent_forbidden_rate", "maxSentForbiddenRate"),
    _row("max_forbidden_check_ms", "maxForbiddenCheckDuration"),
    _row("link_max_delayed", "linkMaxAllowedDelayedMsgCount"),
    _row("session_max_delayed", "sessionMaxAllowedDelayedMsgCount"),
    _row("tls", "tlsEnable"),
    _row("tls_ca_file", "CACertFile"),
    _row("tls_certificate_file", "tlsCertFile"),
    _row("tls_key_file", "tlsKeyFile"),
    _row("tls_server_name", "tlsServerName"),
)

TUBE_MEANINGLESS: Final[Mapping[str, str]] = {
    "maxpartcheckperiod": "poll() takes the longest time to wait as its argument",
    "pullconsumereadywaitperiodms": "poll() takes the longest time to wait as its argument",
    "partcheckslice": "poll() wakes up when something is there; nothing is looked at in slices",
    "pullconsumereadychkslicems": "poll() wakes up when something is there; nothing is looked at in slices",
    "shutdownrebalancewaitperiodms": "closing gives all partitions back at once; no rebalance is waited for",
    "shutdownrebwait": "closing gives all partitions back at once; no rebalance is waited for",
    "logpath": "log records go to Python's logging",
    "loglevel": "log records go to Python's logging",
    "log_num": "log records go to Python's logging",
    "log_size": "log records go to Python's logging",
    "log_path": "log records go to Python's logging",
    "log_level": "log records go to Python's logging",
    "dns_xfs_period_ms": "names are looked up whenever a connection is made",
    "timer_threads": "there is one event loop and no pool of threads",
    "network_threads": "there is one event loop and no pool of threads",
    "signal_threads": "there is one event loop and no pool of threads",
    "pushfetchthreadcnt": "there is no push consumer: poll() in threads of yours",
    "truststorepath": "give the authority's certificates as a PEM file: tls_ca_file (keytool -exportcert -rfc)",
    "truststorepassword": "give the authority's certificates as a PEM file: tls_ca_file (keytool -exportcert -rfc)",
}
"""Options of theirs that we know and that would change nothing here: why."""

# TubeMQ's rules for names, and the texts that name filters and start offsets.
#
# Separators are split naively by every client and server, so a name must not contain one. Source: Apache InLong TubeMQ
# 2.x, client and master parameter checks (``TStringUtils``, ``TBaseConstants``).
_TOPIC: Final = re.compile(r"[a-zA-Z]\w+", re.ASCII)
_GROUP: Final = re.compile(r"[a-zA-Z][\w-]+", re.ASCII)
_CONSUMER_ID: Final = re.compile(r"[\w.-]+", re.ASCII)
_SEPARATORS: Final = frozenset("#:,@=;&")
_MOST_ITEMS: Final = 500


def check_topic(name: str) -> str:
    """The name. Raises ConfigError for one that no TubeMQ topic can have."""
    if len(name) > 64 or not _TOPIC.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no topic's name", hint="A letter, then at least one letter, digit or '_'; at most 64 in all"
        )
    return name


def check_group(name: str, what: str = "group") -> str:
    """The name. Raises ConfigError for one that no TubeMQ group can have."""
    if len(name) > 1_024 or not _GROUP.fullmatch(name):
        raise ConfigError(
            f"{what} is {name!r}, which is no group's name",
            hint="A letter, then at least one letter, digit, '_' or '-'; at most 1,024 in all",
        )
    return name


def check_consumer_id(name: str) -> str:
    """The id. Raises ConfigError for one that servers would take apart."""
    if len(name) > 1_024 or not _CONSUMER_ID.fullmatch(name):
        raise ConfigError(
            f"consumer_id is {name!r}, which is no consumer's id",
            hint="Letters, digits, '_', '-' and '.'; at most 1,024 in all",
        )
    return name


def parse_filters(text: str) -> Mapping[str, tuple[str, ...]]:
    """``topic@item,item;topic2@item`` by topic; items without a topic stand under "": for every topic.

    >>> parse_filters("clicks@red,blue;views@red")
    {'clicks': ('red', 'blue'), 'views': ('red',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in text.split(";") if text.strip() else ():
        topic, at, items = part.rpartition("@")
        topic = check_topic(topic.strip()) if at else ""
        if topic in found:
            raise ConfigError(f"filters name {topic or 'no topic'!r} twice", hint="Separate items by commas")
        found[topic] = tuple(_item(item.strip(), text) for item in items.split(","))
        if len(found[topic]) > _MOST_ITEMS:
            raise ConfigError(f"filters have {len(found[topic])} items for {topic!r}, allowed are {_MOST_ITEMS}")
    return found


def parse_start_offsets(text: str) -> Mapping[tuple[str, str, int], int]:
    """``broker:topic:partition=offset,…`` by (broker, topic, partition).

    >>> parse_start_offsets("1:clicks:0=280")
    {('1', 'clicks', 0): 280}
    """
    found: dict[tuple[str, str, int], int] = {}
    for part in text.split(",") if text.strip() else ():
        match = re.fullmatch(r"\s*(\d{1,10}):([^:=]+):(\d{1,10})=(\d{1,18})\s*", part, re.ASCII)
        if match is None:
            raise ConfigError(
                f"start_offsets has {part!r}", hint="Write broker:topic:partition=offset, offset 0 or more"
            )
        key = (match[1], check_topic(match[2]), int(match[3]))
        if key in found:
            raise ConfigError(f"start_offsets name {match[1]}:{match[2]}:{match[3]} twice")
        found[key] = int(match[4])
    return found


def _item(item: str, text: str) -> str:
    if not item or len(item) > 256 or _SEPARATORS & set(item) or any(letter.isspace() for letter in item):
        raise ConfigError(
            f"filters {text!r} have the item {item!r}",
            hint="Write topic@item,item;topic2@item; items have 1 to 256 characters, no blank, none of # : , @ = ; &",
        )
    return item


# Options in an INI file as TubeMQ's C++ client reads it: sections, ``key=value``, comments behind ``;`` or ``//``.
#
# ``[TubeMQ]`` is for every client (its own keys, ``log_level`` and the like, mean nothing here and are let pass), and
# ``[consumer]``, ``[producer]``, ``[reader]`` for one role. Names as everywhere. Other sections are other programs':
# the C++ client looks at none but its own, and here a warning says which ones were passed over, for one may be
# misspelt. Source: Apache InLong TubeMQ 2.x, C++ client, ``conf/client.conf`` and ``flexible INI`` reader.
SECTIONS: Final = ("tubemq", "client", "consumer", "producer", "reader")
_COMMENTS: Final = (";", "#", "//")
_HINT: Final = "TubeMQ's sections are [TubeMQ], [consumer], [producer], [reader]"
_LOG: Final = ClientLog("penstock.client")


def ini_options(text: str, role: str, source: str = "the INI file") -> dict[str, OptionValue]:
    """The options that ``text`` holds for ``role``; what its own section says wins. Raises ConfigError.

    >>> ini_options("[TubeMQ]\\n// unit: M\\nlog_size=100\\nmasterAddrInfo=127.0.0.1:8715\\n", "consumer")
    {'masterAddrInfo': '127.0.0.1:8715'}
    """
    shared: dict[str, OptionValue] = {}
    own: dict[str, OptionValue] = {}
    section: str | None = None
    strange = False
    for line_number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith(_COMMENTS):
            continue
        if line.startswith("["):
            section = _section(line, f"line {line_number} of {source}")
            if strange := section not in SECTIONS:
                _LOG.warning("section %s in line %d of %s is passed over. %s", line, line_number, source, _HINT)
            continue
        if strange:
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise ConfigError(f"line {line_number} of {source} is {line!r}", hint="Write key=value")
        if section is None:
            raise ConfigError(f"line {line_number} of {source} stands before any section", hint="Begin with [TubeMQ]")
        if normal(key) in TUBE_MEANINGLESS or section not in ("tubemq", "client", role):
            continue
        target = own if section == role else shared
        if key in target:
            raise ConfigError(f"{key} stands twice in {source}, the second time in line {line_number}")
        target[key] = value
    return {**shared, **own}


def _section(line: str, where: str) -> str:
    name = line[1:-1].strip().lower()
    if not line.endswith("]"):
        raise ConfigError(f"{where} is {line!r}", hint=_HINT)
    return name


# The zone of ``$msgTime$``: a message's minute is written as ``yyyyMMddHHmm``, without a zone.
#
# Java's producers write what their application gives; InLong's DataProxy and SDKs give the minute in their system's
# zone, and Java's own conversions read it so. What is UTC here, by default, is therefore hours off where they run
# elsewhere. Source: Apache InLong TubeMQ 2.x, ``Message.putSystemHeader`` and ``DateTimeConvertUtils``; InLong,
# ``TubeHandler``.
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET: Final = re.compile(r"([+-])([01]?\d|2[0-3]):?([0-5]\d)", re.ASCII)
_MINUTE: Final = timedelta(minutes=1)


class MsgTimeZone(Struct, frozen=True):
    """A zone other than UTC; ``zone`` None is the one of this process, whatever that is at the time.

    Times are milliseconds: since 1970 in UTC, or, *local* ones, what a clock on the wall has counted since then.
    """

    zone: tzinfo | None

    def utc_ms(self, local_ms: int) -> int:
        """The moment of a whole minute; of two that a clock which is put back shows twice, the first."""
        return _utc_ms(self.zone, local_ms)

    def local_ms(self, utc_ms: int) -> int:
        """What the clock shows at a moment; the moment itself outside of the years 2 to 9998."""
        return utc_ms + _shift_ms(self.zone, utc_ms // 60_000)


def msg_time_zone(text: str) -> MsgTimeZone | None:
    """The zone that an option names; None for UTC. Raises ConfigError.

    >>> msg_time_zone("+08:00").local_ms(0)
    28800000
    """
    name = text.strip()
    if name.upper() in {"UTC", "Z", "GMT"}:
        return None
    if name.lower() == "local":
        return MsgTimeZone(None)
    if match := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return MsgTimeZone(timezone(-offset if match[1] == "-" else offset)) if offset else None
    from zoneinfo import ZoneInfo

    try:
        return MsgTimeZone(ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; a folder's name is an OSError
        raise ConfigError(
            f"msg_time_zone is {text!r}, which is no zone here",
            hint="Write UTC, local, an offset as +08:00, or a name as Asia/Shanghai (pip install tzdata, if it is one)",
        ) from None


@functools.lru_cache(4_096)
def _utc_ms(zone: tzinfo | None, local_ms: int) -> int:
    try:
        shown = (_EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=zone)
        return round(shown.timestamp()) * 1_000
    except (OverflowError, ValueError, OSError):
        return local_ms  # the first or the last days that there are


@functools.lru_cache(4_096)
def _shift_ms(zone: tzinfo | None, utc_minute: int) -> int:
    try:
        shown = (_EPOCH + utc_minute * _MINUTE).astimezone(zone)
        offset = shown.utcoffset()
    except (OverflowError, ValueError, OSError):
        return 0
    return 0 if offset is None else round(offset.total_seconds()) * 1_000


# What a TubeMQ client has beyond any client: options of ``tubemq://`` addresses, under their own names and Java's.
#
# Data and its bounds only; other spellings (Java's, Go's) are rows of their own. Source: Apache InLong TubeMQ 2.x,
# ``TubeClientConfig`` and ``ConsumerConfig`` of the Java client.
class ConsumePosition(enum.Enum):
    """Where a group begins in a partition: at its first record or behind its last one (both only where the group has no
    position yet), or behind the last one whenever the partition is taken for the first time."""

    FIRST = -1
    LATEST = 0
    ALWAYS_LATEST = 1


_POSITIONS = {"always-latest": ConsumePosition.ALWAYS_LATEST, "max": ConsumePosition.ALWAYS_LATEST}


class TubeConfig(Options):
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

    ``user`` and ``password`` sign every registration; ``authenticate`` false leaves that out. ``local_address``: the
    host that this client names to servers and in its messages. No part of the protocol depends on it.

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

    ``msg_time_zone``: the zone of ``$msgTime$``, the minute that other clients' messages carry, as a name,
    an offset or ``local``. UTC and not, as Java's reader has it, the process's own: the same message has the same time
    on every machine that reads it. Give producers and consumers the same one; ours say the exact time, too.

    Producing. A link with ``link_max_failures`` or more failures and a higher share than ``link_max_forbidden_rate``
    within ``link_stats_duration_ms`` is left alone for ``link_forbidden_duration_ms``; a broker that says it is
    unavailable for ``unavailable_broker_ms``; both for at most a share of ``max_sent_forbidden_rate`` of all brokers
    that is judged anew every ``max_forbidden_check_ms``. ``link_max_delayed`` and ``session_max_delayed`` bound how
    many messages are unanswered, by broker and in all. ``allow_duplicates``: a message of which it is unknown whether
    it is stored (its connection broke, no answer came in time, the broker failed or stopped meanwhile) is sent again,
    for nothing in the protocol makes a repeated message one; false: its delivery fails. True, because losing is worse,
    and because a broker that is restarted leaves thousands of such messages.

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
    local_address: str = text("127.0.0.1", about="the host that this client names to servers")

    consume_position: ConsumePosition | None = choice(
        None,
        ConsumePosition,
        _POSITIONS,
        optional=True,
        about="where a group begins in a partition: first, latest, always_latest; else as auto_offset_reset says",
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
                "start_offsets is set, but bound_consume is not, and only bound_consume uses it",
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


# Address strings as TubeMQ's Go client takes them, as addresses of ours.
#
# ``host:port,host:port?topic=a&filters=x&filters=y&topic=b&group=g&msgNotFoundWait=10000``: a filter belongs to the
# topic before it. Also ``topics=a,b`` and ``filters=a@x,y``. Durations are milliseconds. What our client has no use for
# (``logPath`` and the like) is left out; an unknown key, or a value of the wrong form, is an error. Source: Apache
# InLong TubeMQ 2.x, Go client, ``config.ParseAddress``.
MASTER_PORT = 8715
WORDS = ProtocolConfig(port=MASTER_PORT, options=TUBE_OPTIONS, spellings=TUBE_SPELLINGS, absent=TUBE_MEANINGLESS)
"""What any TubeMQ address may say."""

_TOPIC_KEYS = frozenset({"topic", "topics"})
_REPEATED = _TOPIC_KEYS | {"filters"}


def is_go_address(text: str) -> bool:
    """Whether only the Go client would understand it: no scheme but topics among the options, or a key that repeats."""
    scheme, separator, rest = text.rpartition("://")
    keys = [token.partition("=")[0] for token in rest.partition("?")[2].split("&")]
    if separator:
        return scheme.lower() == "tubemq" and any(keys.count(key) > 1 for key in _REPEATED)
    return bool(_TOPIC_KEYS & set(keys))


def go_address(text: str, role: type[ClientConfig]) -> Address | None:
    """The address, if only the Go client would understand the text."""
    return parse_go_address(text, role) if is_go_address(text) else None


def parse_go_address(text: str, role: type[ClientConfig] = ConsumerConfig) -> Address:
    """The same as an address of ours, its options, those of ``role``, under our names. Raises ConfigError.

    >>> str(parse_go_address("127.0.0.1:8715?topic=demo&filters=red&group=g&readTimeout=8000"))
    'tubemq://127.0.0.1:8715/demo?group=g&rpc_timeout_ms=8000&filters=demo%40red'
    """
    masters, question, query = text.rpartition("://")[2].partition("?")
    if not question:
        raise ConfigError(f"{text!r} has no '?'", hint="Write host:port?topic=NAME&group=NAME")
    topics: list[str] = []
    filters: dict[str, list[str]] = {}
    rest: dict[str, str] = {}
    for token in query.split("&"):
        key, equals, value = _decoded(token).partition("=")
        if not equals or not key:
            raise ConfigError(f"{token!r} in {text!r} is not of the form key=value")
        if key in _TOPIC_KEYS:
            topics += [check_topic(topic.strip()) for topic in value.split(",")]
        elif key == "filters":
            _add_filters(filters, topics, value)
        elif key in rest:
            raise ConfigError(f"{key} stands twice in {text!r}")
        else:
            rest[key] = value
    address = Address(
        "tubemq", parse_endpoints(masters, lambda: MASTER_PORT), tuple(dict.fromkeys(topics)), _ours(rest, text, role)
    )
    if not filters:
        return address
    joined = ";".join(f"{topic}@{','.join(items)}" for topic, items in filters.items())
    found = structs.replace(address, options={**address.options, "filters": joined})
    tube_config({"filters": joined})
    return found


def _decoded(token: str) -> str:
    from urllib.parse import unquote_plus

    try:
        return unquote_plus(token, errors="strict")
    except UnicodeDecodeError:
        raise ConfigError(f"{token!r} is not UTF-8 when decoded") from None


def _add_filters(filters: dict[str, list[str]], topics: list[str], value: str) -> None:
    for part in value.split(";"):
        topic, at, items = part.rpartition("@")
        if not at:
            if not topics:
                raise ConfigError(f"filters={value!r} stands before any topic", hint="Put topic=NAME before it")
            topic = topics[-1]
        elif topic not in topics:
            raise ConfigError(f"filters={value!r} is for {topic!r}, which is none of the topics before it")
        filters.setdefault(topic, []).extend(item.strip() for item in items.split(","))


def _ours(given: dict[str, str], text: str, role: type[ClientConfig]) -> dict[str, str]:
    """Options under our names; their values are looked at, so that a wrong one is found here and now."""
    used = {key: value for key, value in given.items() if normal(key) not in TUBE_MEANINGLESS}
    for key in given.keys() - used.keys():
        if key not in {"logPath", "logLevel"} and not given[key].isdigit():
            raise ConfigError(f"{key} in {text!r} is {given[key]!r}, wanted are milliseconds")
    found = {name: str(value) for name, value in canonical_options(role, used, WORDS).items()}
    tube_config({name: value for name, value in found.items() if name in TUBE_OPTIONS})
    return found


# TubeMQ's configuration as the registry needs it.
ADDED: Final = structs.replace(
    WORDS,
    address=go_address,
    files={".ini": ini_options, ".conf": ini_options},
    theirs={"auto_offset_reset": "latest"},
    front=TubeNodeConfig,
)

# What stands before all else of TubeMQ's: the package it needs, and how all its frames begin.
EXTRA: Final = Extra("tubemq", ("google.protobuf",), "TubeMQ's protocol, in clients and nodes")

GREETING: Final = b"\xff\x7f\xf4\xfe"
"""``RpcProtocol.RPC_PROTOCOL_BEGIN_TOKEN``."""
