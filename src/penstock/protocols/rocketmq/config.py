"""RocketMQ's part of the configuration.

`RocketConfig` are a client's options, `RocketNodeConfig` a node's. `property_options` reads Java's property files;
``ROCKET_SPELLINGS`` and its neighbours translate the options of other clients. Rules for names and ``COLUMNS`` are
here, too. The registry imports this module, so it must not import anything slow.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.config import ProtocolConfig
from penstock.config.address import parse_endpoints
from penstock.config.fields import (
    BOOTSTRAP,
    TOPICS,
    Options,
    Spelling,
    choice,
    fields,
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

# Names. Source: Apache RocketMQ 4.9 and 5.4, ``Validators`` and ``TopicValidator``: characters and lengths that clients
# check.
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
"""Topics that only brokers write to."""
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
"""Consumer groups that exist at brokers without being created."""
_OF_SYSTEM: Final = "CID_RMQ_SYS_"


def is_built_in(group: str) -> bool:
    """Whether the consumer group exists at brokers without being created."""
    return group in BUILT_IN or group.startswith(_OF_SYSTEM)


_INTERNAL: Final = UNWRITABLE | {"TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}
_INTERNAL_BEGIN: Final = (RETRY, DEAD_LETTER, "rmq_sys_", "RMQ_SYS_")


def check_topic(name: str) -> str:
    """Return the name. Raises ConfigError if no RocketMQ topic can have it."""
    return _checked(name, "topic", _LONGEST_TOPIC)


def check_group(name: str, what: str = "group") -> str:
    """Return the name. Raises ConfigError if no RocketMQ group can have it."""
    return _checked(name, what, _LONGEST_GROUP)


def is_retry(topic: str) -> bool:
    """Whether it is a retry topic: messages that a group failed on. Such a topic belongs to the group, which reads it
    whole, whatever it selects elsewhere."""
    return topic.startswith(RETRY)


def is_internal(topic: str) -> bool:
    """Whether it is a topic of the servers themselves, a retry topic or a dead letter topic."""
    return topic in _INTERNAL or topic.startswith(_INTERNAL_BEGIN) or topic.endswith("_REPLY_TOPIC")


def _checked(name: str, what: str, longest: int) -> str:
    if len(name) > longest or not _ALLOWED.fullmatch(name):
        raise ConfigError(
            f"{what} is {name!r}, which no {what} of RocketMQ's can be called",
            hint=f"Letters, digits, '_', '-', '%' and '|', at most {longest}",
        )
    return name


# Options of a node whose value is a list of pairs: accounts of clients, limits by request code, ports of brokers.
OVERALL: Final = "overall"
"""All requests together; the name is from the first Snode's file of limits."""
_HIGHEST: Final = 2**31 - 1
_HIGHEST_PORT: Final = (1 << 16) - 1


def accounts_of(name: str, text: str) -> Mapping[str, str]:
    """Access keys and their secrets, ``KEY:SECRET,KEY:SECRET``. Raises ConfigError, whose text has no secret.

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
    """Limits per second, by request code or ``overall``. Raises ConfigError.

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
    """The port of each broker name, ``NAME=PORT,NAME=PORT``. Raises ConfigError.

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


# Options of ``rocketmq://`` addresses that only RocketMQ's clients have. Java's names are in ``ROCKET_SPELLINGS``.
# Source: Apache RocketMQ 4.9 and 5.4, ``ClientConfig``, ``DefaultMQProducer``, ``DefaultMQPushConsumer``.
class MessageModel(enum.Enum):
    """Whether a group's members share its messages, or each member reads all."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class Allocation(enum.Enum):
    """How members of a group share queues; it must be the same in all of them. The values are Java's names."""

    AVERAGELY = "AVG"
    CIRCLE = "AVG_BY_CIRCLE"
    CONSISTENT_HASH = "CONSISTENT_HASH"
    MACHINE_ROOM = "MACHINE_ROOM"
    MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"


class BodyCodec(enum.Enum):
    """The codec of large bodies."""

    ZLIB = "zlib"
    LZ4 = "lz4"
    ZSTD = "zstd"


class RocketConfig(Options):
    """A client's RocketMQ options. Defaults are those of the Java client 5.4 unless stated otherwise.

    For both roles: ``access_key`` and ``secret_key`` sign requests. ``instance_name`` distinguishes clients with one
    ``client_id``; if empty, it is random, so that two never coincide. ``heartbeat_broker_ms``: brokers forget a client
    after 120 s of silence.

    Consuming: with ``message_model`` broadcasting, every member reads everything and keeps its own offsets.
    ``offsets_folder`` is where it writes them, under its ``client_id`` and ``instance_name``, as Java does in
    ``~/.rocketmq_offsets``. ``tags`` (``TagA || TagB``, ``*`` for all) or ``sql`` (SQL92 over properties, for brokers
    with ``enablePropertyFilter``) let brokers filter. ``allocation`` must be the same in all members of a group, in
    whatever language they are written. For the two allocations by rooms, ``machine_rooms`` names the rooms whose
    brokers (``room@broker``) are read, or this member's own. ``rebalance_ms``: members look for changes this often even
    without a notice, because notices get lost. ``orderly`` locks queues at their brokers, so that two members never
    read one. ``suspend_ms`` is how long a broker holds a read without messages. ``pull_batch_size`` is the limit of
    messages in one response (stock brokers: 32). ``pulls_ahead``: how many pulls of a queue are under way while a
    reader is behind; Java has one, and is limited by a round trip per 32 messages. ``max_reconsume_times`` is how often
    ``send_back`` lets a message be redelivered. ``all_properties`` adds headers for what a record has no column for
    (``COLUMNS``); Spark sets it when such a column is selected. ``reader_group``: the group of reads without a group;
    it is one name, because brokers create a group for every name that they see.

    Producing: ``producer_group`` is the group that brokers ask about transactions. Bodies above ``compress_over_bytes``
    are compressed with ``compress_type``; 0 compresses none. ``batch_messages``: plain messages share a request. A
    topic that does not exist is created by its first message if brokers allow it (``auto_create_topics``), with
    ``topic_queues`` queues, like ``template_topic``. ``avoid_slow_brokers`` avoids brokers that were slow, by Java's
    table; brokers that failed are avoided for ``avoid_failed_ms`` in any case.
    """

    access_key: str | None = optional_text(about="in whose name requests are signed")
    secret_key: str | None = secret(about="with what")
    instance_name: str = text("", about="tells clients with one client_id apart; empty: drawn by lot")
    heartbeat_broker_ms: int = number(30_000, low=100, high=120_000, about="time between heartbeats to brokers")

    message_model: MessageModel = choice(
        MessageModel.CLUSTERING, MessageModel, about="whether members share a group's messages, or each reads all"
    )
    offsets_folder: str = text(
        "",
        about="broadcasting: commits are kept in files below this folder; empty: nowhere, and each start is the first",
    )
    tags: str = text("*", about="which tags are read: TagA || TagB; * is all")
    sql: str = text("", about="which messages are read, by their properties: SQL92, for brokers that allow it")
    allocation: Allocation = choice(
        Allocation.AVERAGELY,
        Allocation,
        about="how a group's members share out queues; the same in all of them, Java's included",
    )
    machine_rooms: str = text("", about="with allocation by rooms: whose brokers are read, separated by commas")
    rebalance_ms: int = number(
        20_000, low=50, about="time between looks at a group's members without a broker's notice"
    )
    orderly: bool = flag(False, about="lock queues at their brokers, so that no two members read one")
    suspend_ms: int = number(15_000, low=100, high=60_000, about="how long a broker holds a read that finds nothing")
    pull_batch_size: int = number(32, low=1, high=1_024, about="the most messages of one answer; stock brokers: 32")
    max_reconsume_times: int = number(
        -1, low=-1, high=2**31 - 1, about="after so many deliveries more what is sent back is a dead letter; "
        "-1: as often as the group is allowed, 16 unless its settings say"
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
    compress_type: BodyCodec = choice(BodyCodec.ZLIB, BodyCodec, about="how, if compression does not say")
    batch_messages: bool = flag(True, about="several messages of a queue travel in one request")
    auto_create_topics: bool = flag(True, about="a topic's first message makes it, where brokers allow that")
    template_topic: str = text("TBW102", about="the topic that such a topic is made like")
    topic_queues: int = number(4, low=1, high=1_024, about="how many queues it gets on each broker")
    avoid_slow_brokers: bool = flag(False, about="brokers that took long to answer are left alone for a while")
    avoid_failed_ms: int = number(3_000, low=0, about="brokers that failed are left alone for so long")

    @property
    def rooms(self) -> tuple[str, ...]:
        """The entries of ``machine_rooms``."""
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
"""The options' names."""


def rocket_config(given: Mapping[str, OptionValue]) -> RocketConfig:
    """The config from options under penstock's names, of addresses, arguments and files. Raises ConfigError."""
    kinds = {option.name: kind_of(option) for option in fields(RocketConfig)}
    return RocketConfig(**{name: kinds[name].read(name, value) for name, value in given.items()})  # type: ignore[arg-type]


class RocketNodeConfig(Options):
    """A node's RocketMQ options, with the reasons for the defaults.

    ``rocketmq_cluster``: the default name of RocketMQ's own clusters. ``snode_name``: by default it has the address,
    since two Snodes may share a ``node_id`` but never an address. ``register_snode_ms``: the first Snode's default;
    name servers that keep Snodes forget one after two minutes. ``rocketmq_timeout_ms``: brokers' default; clients send
    a heartbeat every 30 seconds. ``transaction_check_ms``: how often open half messages are looked for. Producers are
    asked about those older than six seconds; with RocketMQ's own period of a minute, people wait that long.
    ``enode_timeout_ms``: less than the three seconds after which Java's clients give up, so that they get the reason. A
    write is awaited much longer, because a message that may still be stored must not be sent again.

    ``snodes``: for Snodes that cannot be found through name servers. ``rocketmq_accounts``: the clients that may send
    requests. With ``sign_as_clients`` brokers see each client's own account and apply its permissions; without it they
    see the node's for all. Flow control is off by default: a default limit would be met at the worst moment.
    ``delay_scale_percent``: shorter delay levels are for tests only.

    ``rocketmq_broker_ports`` is empty, because the node chooses ports itself for the clients that need one. An operator
    who must know the ports names brokers, not a range of ports, since a port must never come to mean another broker:
    not in another process of the node, and not after a restart while clients remember the old meaning.
    """

    rocketmq_cluster: str = text("DefaultCluster", about="the cluster's name for RocketMQ's clients")
    snode_name: str = text("", about="what it is called among RocketMQ's Snodes; empty: by its number and address")
    register_snode_ms: int = number(
        30_000,
        low=0,
        high=60_000,
        about="in front of a RocketMQ cluster: how often it registers at name servers; 0: never",
    )
    rocketmq_timeout_ms: int = number(
        120_000, low=1_000, about="without a heartbeat for so long a RocketMQ client is out"
    )
    rocketmq_housekeeping_ms: int = number(
        10_000, low=100, about="how often it is looked which RocketMQ clients were silent for too long"
    )
    rocketmq_notify_members: bool = flag(True, about="RocketMQ consumers are notified when members join or leave")
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
        15_000, low=100, high=100_000, about="the same: how often brokers learn whose transactions to ask about here"
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

    def validate(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        _ = self.other_snodes(), self.accounts, self.flow_requests, self.flow_kilobytes, self.broker_ports

    def other_snodes(self) -> tuple[Endpoint, ...]:
        """The endpoints in ``snodes``. Raises ConfigError."""
        return parse_endpoints(self.snodes, lambda: None)

    @property
    def broker_ports(self) -> Mapping[str, int]:
        """``rocketmq_broker_ports`` as a mapping. Raises ConfigError."""
        return ports_of("rocketmq_broker_ports", self.rocketmq_broker_ports)

    @property
    def side_ports(self) -> Mapping[str, Sequence[int]]:
        """The further ports of this front (``penstock.config.snode.SidePorts``)."""
        return {"rocketmq": tuple(self.broker_ports.values())}

    @property
    def accounts(self) -> Mapping[str, str]:
        """``rocketmq_accounts`` as a mapping. Raises ConfigError."""
        return accounts_of("rocketmq_accounts", self.rocketmq_accounts or "")

    @property
    def flow_requests(self) -> Mapping[str, int]:
        """``rocketmq_flow_requests`` as a mapping. Raises ConfigError."""
        return limits_of("rocketmq_flow_requests", self.rocketmq_flow_requests)

    @property
    def flow_kilobytes(self) -> Mapping[str, int]:
        """``rocketmq_flow_kilobytes`` as a mapping. Raises ConfigError."""
        return limits_of("rocketmq_flow_kilobytes", self.rocketmq_flow_kilobytes)


# Java property files, in which RocketMQ's tools and examples keep options: ``namesrvAddr=a:9876;b:9876``.
#
# A line is ``key=value``, ``key: value`` or ``key value``; ``#`` and ``!`` begin comments; a backslash at a line's end
# continues it. Names are those of addresses, also with ``rocketmq.`` or ``rocketmq.client.`` in front. Source: Java,
# ``Properties.load`` (without its ``\uXXXX``: files are UTF-8).
_LINE: Final = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(.*)")
_PREFIX: Final = re.compile(r"(com\.)?rocketmq\.(client\.)?", re.IGNORECASE)


def property_options(text: str, role: str, source: str = "the properties file") -> dict[str, OptionValue]:
    """The options in ``text``, the same for every role. Raises ConfigError.

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
    """Lines with an option, joined where they continue, by the number of their first line."""
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


# Names of RocketMQ's own clients for penstock's options, a row each; and their options without a meaning here.
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
"""Known options of other clients that have no effect here, with the reason."""

# RocketMQ's entry in the registry of configuration.
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

# Columns that readers may select in addition to those of every record, and the headers that carry them. The registry
# imports this, so it imports nothing; the headers' contents are in `wire/columns`.
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
"""Column to header. All are text; times are in milliseconds. They exist for readers with ``all_properties``.

The broker's name is in every record's column ``node`` and needs no header; `NODE` shows it among the headers."""
