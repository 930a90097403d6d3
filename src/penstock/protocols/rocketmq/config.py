"""What RocketMQ adds to configuration: options, what its other clients call them, property files, rules for names,
and the columns that readers may ask for. Imported when the protocol is looked up, so it needs nothing heavy.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Final

from penstock._dataclasses import dataclass
from penstock.config import ProtocolConfig
from penstock.config.address import parse_endpoints
from penstock.config.fields import (
    BOOTSTRAP,
    TOPICS,
    Spelling,
    check,
    choice,
    flag,
    kind_of,
    number,
    optional_text,
    secret,
    text,
)
from penstock.config.options import OptionValue
from penstock.errors import ConfigError
from penstock.model import Endpoint

__all__ = [
    "ADDED",
    "BUILT_IN",
    "COLUMNS",
    "COMMIT_LOG_OFFSET",
    "DEAD_LETTER",
    "NAME_SERVER_PORT",
    "NODE",
    "OVERALL",
    "QUEUE",
    "RECONSUME_TIMES",
    "RETRY",
    "ROCKET_MEANINGLESS",
    "ROCKET_OPTIONS",
    "ROCKET_SPELLINGS",
    "ROCKET_VALUES",
    "STORE_TIME",
    "UNWRITABLE",
    "Allocation",
    "BodyCodec",
    "MessageModel",
    "RocketConfig",
    "RocketNodeConfig",
    "accounts_of",
    "check_group",
    "check_topic",
    "is_built_in",
    "is_internal",
    "is_retry",
    "limits_of",
    "ports_of",
    "property_options",
    "rocket_config",
]

# RocketMQ's rules for names.
#
# Source: Apache RocketMQ 4.9 and 5.4, ``Validators`` and ``TopicValidator``: the characters and lengths clients check.
RETRY: Final = "%RETRY%"
DEAD_LETTER: Final = "%DLQ%"
_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_LONGEST_TOPIC: Final = 127
_LONGEST_GROUP: Final = 255
UNWRITABLE: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that brokers write to, and nobody else may."""
BUILT_IN: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    }
)
"""Consumer groups that brokers have although nobody has made them."""
_OF_SYSTEM: Final = "CID_RMQ_SYS_"


def is_built_in(group: str) -> bool:
    """Whether brokers have this consumer group although nobody has made it."""
    return group in BUILT_IN or group.startswith(_OF_SYSTEM)


_INTERNAL: Final = UNWRITABLE | {"TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}
_INTERNAL_BEGIN: Final = (RETRY, DEAD_LETTER, "rmq_sys_", "RMQ_SYS_")


def check_topic(name: str) -> str:
    """The name. Raises ConfigError for one that no RocketMQ topic can have."""
    return _checked(name, "topic", _LONGEST_TOPIC)


def check_group(name: str, what: str = "group") -> str:
    """The name. Raises ConfigError for one that no RocketMQ group can have."""
    return _checked(name, what, _LONGEST_GROUP)


def is_retry(topic: str) -> bool:
    """Whether it holds what a group could not consume yet: that is the group's, whatever it chooses elsewhere."""
    return topic.startswith(RETRY)


def is_internal(topic: str) -> bool:
    """Whether it is the servers' own, or a group's for what it could not consume."""
    return topic in _INTERNAL or topic.startswith(_INTERNAL_BEGIN) or topic.endswith("_REPLY_TOPIC")


def _checked(name: str, what: str, longest: int) -> str:
    if len(name) > longest or not _ALLOWED.fullmatch(name):
        raise ConfigError(
            f"{what} is {name!r}, which no {what} of RocketMQ's can be called",
            hint=f"Letters, digits, '_', '-', '%' and '|', at most {longest}",
        )
    return name


# Options of a node whose value is a list of pairs: accounts of clients, limits by request code. Pure text.
OVERALL: Final = "overall"
"""All requests together; the first Snode's file of limits calls them so."""
_HIGHEST: Final = 2**31 - 1
_HIGHEST_PORT: Final = (1 << 16) - 1


def accounts_of(name: str, text: str) -> Mapping[str, str]:
    """Access keys and their secrets, ``KEY:SECRET,KEY:SECRET``. Raises ConfigError, which tells no secret.

    >>> accounts_of("rocketmq_accounts", "reader:12345678")
    {'reader': '12345678'}
    """
    found: dict[str, str] = {}
    for count, part in enumerate(_parts(text), 1):
        key, colon, secret = part.partition(":")
        if not (key and colon and secret):
            raise ConfigError(f"account {count} of {name} is incomplete", hint="Write KEY:SECRET,KEY:SECRET")
        if key in found:
            raise ConfigError(f"{name} has two accounts of the access key {key!r}")
        found[key] = secret
    return found


def limits_of(name: str, text: str) -> Mapping[str, int]:
    """What is allowed in a second, by request code or ``overall``. Raises ConfigError.

    >>> limits_of("rocketmq_flow_requests", "overall=10000, 310=500")
    {'overall': 10000, '310': 500}
    """
    found: dict[str, int] = {}
    for part in _parts(text):
        code, _, limit = (each.strip() for each in part.partition("="))
        if not (code == OVERALL or _is_number(code)) or not _is_number(limit) or not 0 < int(limit) <= _HIGHEST:
            raise ConfigError(
                f"{name} has {part!r}, expected a request code and how much of it is allowed in a second",
                hint=f"Write {name}=overall=10000,310=500",
            )
        if code in found:
            raise ConfigError(f"{name} limits {code} twice")
        found[code] = int(limit)
    return found


def ports_of(name: str, text: str) -> Mapping[str, int]:
    """Brokers' names and a port for each, ``NAME=PORT,NAME=PORT``. Raises ConfigError.

    >>> ports_of("rocketmq_broker_ports", "broker-a=10951, broker-b=10952")
    {'broker-a': 10951, 'broker-b': 10952}
    """
    found: dict[str, int] = {}
    for part in _parts(text):
        broker, _, port = (each.strip() for each in part.rpartition("="))
        if not broker or not _is_number(port) or not 0 < int(port) <= _HIGHEST_PORT:
            raise ConfigError(
                f"{name} has {part!r}, expected a broker's name and a port of this node",
                hint=f"Write {name}=broker-a=10951,broker-b=10952",
            )
        if broker in found or int(port) in found.values():
            raise ConfigError(f"{name} has {broker!r} or port {port} twice", hint="Each broker has a port of its own")
        found[broker] = int(port)
    return found


def _parts(text: str) -> Iterator[str]:
    return (part.strip() for part in text.split(",") if part.strip())


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 11


# What a RocketMQ client has beyond any client: options of ``rocketmq://`` addresses, under their own names and Java's.
#
# Data and its bounds only; Java's spellings are rows below. Source: Apache RocketMQ 4.9 and 5.4,
# ``ClientConfig``, ``DefaultMQProducer``, ``DefaultMQPushConsumer``.
class MessageModel(enum.Enum):
    """Whether a group's members share its messages, or each reads them all."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class Allocation(enum.Enum):
    """How members of a group share out queues; all of a group must do it alike. The values are Java's names."""

    AVERAGELY = "AVG"
    CIRCLE = "AVG_BY_CIRCLE"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    MACHINE_ROOM = "MACHINE_ROOM"
    MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"


class BodyCodec(enum.Enum):
    """How large bodies are compressed."""

    ZLIB = "zlib"
    LZ4 = "lz4"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketConfig:
    """Defaults are those of the Java client 5.4 unless said otherwise.

    Both. ``access_key`` and ``secret_key`` sign requests. ``instance_name`` tells clients with one ``client_id`` apart;
    empty: drawn by lot, so that two never meet. ``heartbeat_broker_ms``: brokers forget who was silent for 120 s.

    Consuming. ``message_model`` broadcasting: every member reads everything, and where it got to is nobody's
    business but its own: ``offsets_folder`` is where it writes that down, as Java does in ``~/.rocketmq_offsets``,
    under its ``client_id`` and ``instance_name``. ``tags`` (``TagA || TagB``, ``*`` is all) or ``sql`` (SQL92 over
    properties, for brokers with ``enablePropertyFilter``) let brokers choose. ``allocation`` must be the same in
    all members of a group, whatever language they are written in; for the two by rooms ``machine_rooms`` names
    those whose brokers (``room@broker``) are read, or this member's own. ``rebalance_ms``: members look anew so
    often though nobody told them to, because notices get lost. ``orderly`` locks queues at their brokers, so that
    two members never read one. ``suspend_ms`` is how long a broker holds a read that has nothing;
    ``pull_batch_size`` what one answer brings at most (stock brokers: 32). ``pulls_ahead``: so many pulls of a
    queue are under way at once while a reader is behind; Java has one, and a round trip for 32 messages is what
    limits it. ``max_reconsume_times`` is how often ``send_back`` makes a message come again. ``all_properties``
    shows as headers what a record has no column for, too (`penstock.protocols.rocketmq.config`); Spark
    sets it where such a column is asked for. ``reader_group``: reads without a group are made in this one's name,
    because brokers make a group of every name they hear.

    Producing. ``producer_group`` is whose transactions brokers ask back for. ``compress_over_bytes``: longer bodies are
    compressed, with ``compress_type``, 0: none are. ``batch_messages``: rows that allow it travel
    together. Topics that do not exist are made by their first message where brokers allow it (``auto_create_topics``),
    with ``topic_queues`` queues like ``template_topic``. ``avoid_slow_brokers`` leaves brokers alone that took long
    (Java's table); brokers that failed are left alone for ``avoid_failed_ms`` anyhow.
    """

    access_key: str | None = optional_text(about="in whose name requests are signed")
    secret_key: str | None = secret(about="with what")
    instance_name: str = text("", about="tells clients with one client_id apart; empty: drawn by lot")
    heartbeat_broker_ms: int = number(30_000, low=100, high=120_000, about="how often brokers are told of this client")

    message_model: MessageModel = field(
        default=MessageModel.CLUSTERING,
        metadata=choice(MessageModel, about="whether members share a group's messages, or each reads all"),
    )
    offsets_folder: str = text(
        "",
        about="broadcasting: commits are kept in files below this folder; empty: nowhere, and each start is the first",
    )
    tags: str = text("*", about="which tags are read: TagA || TagB; * is all")
    sql: str = text("", about="which messages are read, by their properties: SQL92, for brokers that allow it")
    allocation: Allocation = field(
        default=Allocation.AVERAGELY,
        metadata=choice(
            Allocation, about="how a group's members share out queues; the same in all of them, Java's included"
        ),
    )
    machine_rooms: str = text("", about="with allocation by rooms: whose brokers are read, separated by commas")
    rebalance_ms: int = number(20_000, low=50, about="members look so often at who is there, though nobody told them")
    orderly: bool = flag(False, about="lock queues at their brokers, so that no two members read one")
    suspend_ms: int = number(15_000, low=100, high=60_000, about="how long a broker holds a read that finds nothing")
    pull_batch_size: int = number(32, low=1, high=1_024, about="the most messages of one answer; stock brokers: 32")
    max_reconsume_times: int = number(
        -1, low=-1, high=2**31 - 1, about="after so many deliveries more what is sent back is a dead letter; "
        "-1: as often as the group is allowed, 16 unless its brokers were told"
    )  # fmt: skip
    all_properties: bool = flag(
        False, about="headers are every property and what brokers know: store time, attempts, queue, node"
    )
    pulls_ahead: int = number(
        16, low=1, high=256, about="so many reads of a queue are under way while there is more to read"
    )
    reader_group: str = text("penstock-reader", about="reads without a group are made in this one's name")

    producer_group: str = text("penstock-producer", about="in whose name messages are sent")
    compress_over_bytes: int = number(4_096, low=0, about="longer bodies are compressed; 0: none")
    compress_type: BodyCodec = field(
        default=BodyCodec.ZLIB, metadata=choice(BodyCodec, about="how, if compression does not say")
    )
    batch_messages: bool = flag(True, about="several messages of a queue travel in one request")
    auto_create_topics: bool = flag(True, about="a topic's first message makes it, where brokers allow that")
    template_topic: str = text("TBW102", about="the topic that such a topic is made like")
    topic_queues: int = number(4, low=1, high=1_024, about="how many queues it gets on each broker")
    avoid_slow_brokers: bool = flag(False, about="brokers that took long to answer are left alone for a while")
    avoid_failed_ms: int = number(3_000, low=0, about="brokers that failed are left alone for so long")

    def __post_init__(self) -> None:
        check(self)
        self.validate()

    @property
    def rooms(self) -> tuple[str, ...]:
        """``machine_rooms``, one by one."""
        return tuple(room.strip() for room in self.machine_rooms.split(",") if room.strip())

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        if (self.access_key is None) != (self.secret_key is None):
            given, lacks = ("access_key", "secret_key") if self.secret_key is None else ("secret_key", "access_key")
            raise ConfigError(f"there is {given}, but no {lacks}", hint="Requests are signed with both")
        if self.sql and self.tags not in ("", "*"):
            raise ConfigError("tags and sql are two ways to choose messages, keep one", hint="SQL92 knows TAGS, too")
        if self.allocation in _BY_ROOMS and not self.rooms:
            raise ConfigError(f"allocation is {self.allocation.name.lower()}, but there are no machine_rooms")
        check_group(self.reader_group, "reader_group")
        check_group(self.producer_group, "producer_group")


_BY_ROOMS = frozenset({Allocation.MACHINE_ROOM, Allocation.MACHINE_ROOM_NEARBY})
ROCKET_OPTIONS = frozenset(option.name for option in fields(RocketConfig))
"""Their names."""


def rocket_config(given: Mapping[str, OptionValue]) -> RocketConfig:
    """The config from options under our names, as addresses, arguments and files give them. Raises ConfigError."""
    kinds = {option.name: kind_of(option) for option in fields(RocketConfig)}
    return RocketConfig(**{name: kinds[name].read(name, value) for name, value in given.items()})  # type: ignore[arg-type]


# What a node is told of its RocketMQ front.
@dataclass(frozen=True, slots=True, kw_only=True)
class RocketNodeConfig:
    """``rocketmq_cluster``: what RocketMQ's own brokers are called unless told. ``snode_name``: two Snodes may have one
    ``node_id``, but never one address. ``register_snode_ms``: the first Snode's own; whoever keeps Snodes forgets one
    after two minutes. ``rocketmq_timeout_ms``: theirs, too; clients beat every 30 seconds. ``transaction_check_ms``:
    how often it is looked for half messages that nobody has decided on; their producers are asked about those older
    than six seconds, and RocketMQ's own minute is what people wait for then. ``enode_timeout_ms``: less than the three
    seconds after which Java's clients give up, so that they hear why; a write is waited for much longer, for what may
    be stored yet must not be sent again. ``snodes``: for those that are not to be found through name servers.
    ``rocketmq_accounts``: who may ask; with ``sign_as_clients`` brokers see each by its own name and give it its own
    rights, without it they see the node's for all. Flow control is off unless told: limits that nobody chose would be
    met on the day that matters. ``delay_scale_percent``: shorter levels are for tests only. ``rocketmq_broker_ports``
    is empty because a node chooses ports by itself for the clients that need one; who has to know them names brokers
    rather than a range of ports, for a port must never come to mean another broker: not in a process that has started
    later, and not after a restart, while clients still know what it meant before.
    """

    rocketmq_cluster: str = text("DefaultCluster", about="the name of the cluster that RocketMQ's clients are told")
    snode_name: str = text("", about="what it is called among RocketMQ's Snodes; empty: by its number and address")
    register_snode_ms: int = number(
        30_000,
        low=0,
        high=60_000,
        about="in front of a RocketMQ cluster: how often name servers are told of it; 0: never",
    )
    rocketmq_timeout_ms: int = number(
        120_000, low=1_000, about="without a heartbeat for so long a RocketMQ client is out"
    )
    rocketmq_housekeeping_ms: int = number(
        10_000, low=100, about="how often it is looked which RocketMQ clients were silent for too long"
    )
    rocketmq_notify_members: bool = flag(True, about="RocketMQ consumers are told who else comes and goes")
    rocketmq_auto_create_groups: bool = flag(
        True, about="any name is a RocketMQ consumer group; else only one that was made (mqadmin updateSubGroup)"
    )
    rocketmq_max_clients: int = number(
        20_000, low=20, about="places of RocketMQ connections in groups, over all groups; more are refused"
    )
    rocketmq_max_locks: int = number(
        100_000, low=20, about="queues that RocketMQ's orderly consumers have locked; more are refused"
    )
    rocketmq_max_held: int = number(50_000, low=20, about="RocketMQ pulls that wait; more are refused")
    enode_look_ms: int = number(
        10_000, low=1_000, about="in front of a RocketMQ cluster: how often name servers are asked where brokers are"
    )
    producer_beat_ms: int = number(
        15_000, low=100, high=100_000, about="the same: how often brokers are told whose transactions to ask about here"
    )
    transaction_check_ms: int = number(
        10_000, low=50, about="how often producers are asked about RocketMQ messages that they did not decide on"
    )
    enode_timeout_ms: int = number(
        2_500,
        low=100,
        about="in front of a RocketMQ cluster: how long a broker may take to answer; what it may store has a minute",
    )
    snodes: str = text(
        "",
        about="other Snodes before the same RocketMQ cluster, which share groups with this one",
        allowed="HOST:PORT[,HOST:PORT]",
    )
    find_snodes: bool = flag(
        True, about="find those through the name servers, and be found there: KV settings in PENSTOCK_SNODES"
    )
    rocketmq_broker_ports: str = text(
        "",
        about="before a RocketMQ cluster: the port of each broker, for clients that name none (Go, C++, Java before "
        "4.9.5, ali-ons); without it the node chooses one before several brokers",
        allowed="NAME=PORT, …",
    )
    rocketmq_accounts: str | None = secret(
        about="accounts of RocketMQ's clients, KEY:SECRET,KEY:SECRET; with some, every request has to be signed"
    )
    sign_as_clients: bool = flag(
        True,
        about="in front of a RocketMQ cluster: clients' requests go on in their own names, which brokers then need",
    )
    rocketmq_flow_requests: str = text(
        "", about="RocketMQ requests let in a second, by code: overall=10000,310=500", allowed="code=number, …"
    )
    rocketmq_flow_kilobytes: str = text(
        "", about="the same for the size of their bodies in KiB: 310=5000", allowed="code=number, …"
    )
    delay_scale_percent: int = number(
        100, low=0, high=100, about="how long RocketMQ's delay levels take, of what they say; less is for tests"
    )

    def __post_init__(self) -> None:
        check(self)
        _ = self.other_snodes(), self.accounts, self.flow_requests, self.flow_kilobytes, self.broker_ports

    def other_snodes(self) -> tuple[Endpoint, ...]:
        """``snodes``, taken apart. Raises ConfigError."""
        return parse_endpoints(self.snodes, lambda: None)

    @property
    def broker_ports(self) -> Mapping[str, int]:
        """``rocketmq_broker_ports``, one by one. Raises ConfigError."""
        return ports_of("rocketmq_broker_ports", self.rocketmq_broker_ports)

    @property
    def side_ports(self) -> Mapping[str, Sequence[int]]:
        """``penstock.config.snode.SidePorts``."""
        return {"rocketmq": tuple(self.broker_ports.values())}

    @property
    def accounts(self) -> Mapping[str, str]:
        """``rocketmq_accounts``, one by one. Raises ConfigError."""
        return accounts_of("rocketmq_accounts", self.rocketmq_accounts or "")

    @property
    def flow_requests(self) -> Mapping[str, int]:
        """``rocketmq_flow_requests``, one by one. Raises ConfigError."""
        return limits_of("rocketmq_flow_requests", self.rocketmq_flow_requests)

    @property
    def flow_kilobytes(self) -> Mapping[str, int]:
        """``rocketmq_flow_kilobytes``, one by one. Raises ConfigError."""
        return limits_of("rocketmq_flow_kilobytes", self.rocketmq_flow_kilobytes)


# Options in a Java properties file, as RocketMQ's tools and examples keep them: ``namesrvAddr=a:9876;b:9876``.
#
# Lines of ``key=value``, ``key: value`` or ``key value``; ``#`` and ``!`` begin comments; a backslash at a line's end
# goes on in the next one. Names as everywhere, also with ``rocketmq.`` or ``rocketmq.client.`` before them. Source:
# Java, ``Properties.load`` (without its ``\uXXXX``: files are UTF-8).
_LINE: Final = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(.*)")
_PREFIX: Final = re.compile(r"(com\.)?rocketmq\.(client\.)?", re.IGNORECASE)


def property_options(text: str, role: str, source: str = "the properties file") -> dict[str, OptionValue]:
    """The options that ``text`` holds, the same for every role. Raises ConfigError.

    >>> property_options("# where\\nrocketmq.namesrv.addr = 127.0.0.1:9876\\n", "consumer")
    {'namesrv.addr': '127.0.0.1:9876'}
    """
    del role
    found: dict[str, OptionValue] = {}
    for row, line in _lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(f"line {row} of {source} is {line!r}", hint="Write key=value")
        name = _PREFIX.sub("", match[1], count=1)
        if name in found:
            raise ConfigError(f"{match[1]} stands twice in {source}, the second time in line {row}")
        found[name] = match[2].strip()
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, by the number of their first one."""
    begun, before = 0, ""
    for row, line in enumerate(text.splitlines(), 1):
        part = line.strip()
        if not before:
            begun = row
            if not part or part[0] in "#!":
                continue
        if part.endswith("\\"):
            before += part[:-1]
            continue
        yield begun, before + part
        before = ""
    if before:
        yield begun, before


# What RocketMQ's own clients call our options, a row each; and what of theirs means nothing here.
#
# Names are compared as in `penstock.config.fields`, so case does not matter. Source: Apache RocketMQ 4.9 and 5.4,
# ``ClientConfig``, ``DefaultMQProducer``, ``DefaultMQPushConsumer``, ``DefaultLitePullConsumer``.
def _row(ours: str, *theirs: str) -> Spelling:
    return Spelling(ours, also=theirs)


ROCKET_SPELLINGS: Final = (
    _row(BOOTSTRAP, "namesrvAddr", "namesrv.addr", "nameServer", "nameSrv", "nameServerAddr"),
    _row(TOPICS, "topic"),
    _row("group", "consumerGroup"),
    _row("producer_group", "producerGroup"),
    _row("access_key", "accessKey"),
    _row("secret_key", "secretKey"),
    _row("instance_name", "instanceName"),
    _row("heartbeat_broker_ms", "heartbeatBrokerInterval"),
    _row("metadata_max_age_ms", "pollNameServerInterval"),
    _row("auto_commit_interval_ms", "persistConsumerOffsetInterval", "autoCommitIntervalMillis"),
    _row("enable_auto_commit", "autoCommit"),
    _row("request_timeout_ms", "sendMsgTimeout", "mqClientApiTimeout"),
    _row("tls", "useTLS", "tls.enable"),
    _row("compress_over_bytes", "compressMsgBodyOverHowmuch"),
    _row("compress_type", "compressType", "message.compressType"),
    _row("max_request_bytes", "maxMessageSize"),
    _row("template_topic", "createTopicKey"),
    _row("topic_queues", "defaultTopicQueueNums"),
    _row("avoid_slow_brokers", "sendLatencyFaultEnable"),
    _row("message_model", "messageModel"),
    _row("offsets_folder", "rocketmq.client.localOffsetStoreDir", "localOffsetStoreDir"),
    _row("tags", "subExpression", "subscription"),
    _row("allocation", "allocateMessageQueueStrategy"),
    _row("auto_offset_reset", "consumeFromWhere"),
    _row("max_reconsume_times", "maxReconsumeTimes"),
    _row("pull_batch_size", "pullBatchSize"),
    _row("suspend_ms", "brokerSuspendMaxTimeMillis"),
    _row("max_poll_records", "consumeMessageBatchMaxSize"),
)

ROCKET_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "auto_offset_reset": {
        "consume_from_last_offset": "latest",
        "consume_from_last_offset_and_from_min_when_boot_first": "latest",
        "consume_from_max_offset": "latest",
        "consume_from_first_offset": "earliest",
        "consume_from_min_offset": "earliest",
    },
    "compress_type": {"1": "lz4", "2": "zstd", "3": "zlib"},
}

_THREADS: Final = "there is one event loop and no pool of threads: poll() in threads of yours"
_FLOW: Final = "fetch_buffer_bytes bounds what is held ahead of you, in bytes and over all queues"
_RETRIES: Final = "delivery_timeout_ms bounds sending with all its attempts, on whichever broker"

ROCKET_MEANINGLESS: Final[Mapping[str, str]] = {
    "consumethreadmin": _THREADS,
    "consumethreadmax": _THREADS,
    "clientcallbackexecutorthreads": _THREADS,
    "pullthreadnums": _THREADS,
    "pullthresholdforqueue": _FLOW,
    "pullthresholdsizeforqueue": _FLOW,
    "pullthresholdfortopic": _FLOW,
    "pullthresholdsizefortopic": _FLOW,
    "pullthresholdforall": _FLOW,
    "consumeconcurrentlymaxspan": _FLOW,
    "pullinterval": "reads follow each other at once; take fewer records a poll, or pause()",
    "retrytimeswhensendfailed": _RETRIES,
    "retrytimeswhensendasyncfailed": _RETRIES,
    "retryanotherbrokerwhennotstoreok": _RETRIES,
    "vipchannelenabled": "brokers' second port brings nothing: requests of one client do not wait for others'",
    "postsubscriptionwhenpull": "every read names its subscription",
    "consumetimestamp": "offsets_for_times() finds where a time begins, seek() goes there",
    "enablemsgtrace": "traces are not written",
    "customizedtracetopic": "traces are not written",
    "unitname": "units are not spoken of",
    "namespace": "write the namespace into the names: namespace%topic",
    "compresslevel": "bodies are compressed as Java does by itself, at level 5",
    "message_compresslevel": "bodies are compressed as Java does by itself, at level 5",
    "decodereadbody": "bodies are always inflated",
}
"""Options of theirs that we know and that would change nothing here: why."""

# What the registry is told of RocketMQ's configuration.
NAME_SERVER_PORT: Final = 9876

ADDED: Final = ProtocolConfig(
    port=NAME_SERVER_PORT,
    options=ROCKET_OPTIONS,
    spellings=ROCKET_SPELLINGS,
    absent=ROCKET_MEANINGLESS,
    values=ROCKET_VALUES,
    files={".properties": property_options},
    defaults={"max_request_bytes": 4 << 20},  # Java's maxMessageSize, and that of brokers
    front=RocketNodeConfig,
)

# The columns that readers may ask for beside those of every record, and the headers that carry them.
#
# It is registered, and so imports nothing: what the headers hold is in `wire/columns`.
STORE_TIME: Final = "rocketmq.store_time"
RECONSUME_TIMES: Final = "rocketmq.reconsume_times"
QUEUE: Final = "rocketmq.queue"
COMMIT_LOG_OFFSET: Final = "rocketmq.commit_log_offset"
NODE: Final = "rocketmq.node"

COLUMNS: Final = {
    "tags": "TAGS",
    "keys": "KEYS",
    "message_id": "UNIQ_KEY",
    "store_time": STORE_TIME,
    "reconsume_times": RECONSUME_TIMES,
    "queue": QUEUE,
    "commit_log_offset": COMMIT_LOG_OFFSET,
}
"""Text in all of them; times in milliseconds. They are there for readers with ``all_properties``.

The broker's name is the column node of every record, and needs no header; `NODE` shows it among the others."""
