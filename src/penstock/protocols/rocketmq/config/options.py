"""What a RocketMQ client has beyond any client: options of ``rocketmq://`` addresses, under their own names and Java's.

Data and its bounds only; Java's spellings are rows in `spellings`.
Source: Apache RocketMQ 4.9 and 5.4, ``ClientConfig``, ``DefaultMQProducer``, ``DefaultMQPushConsumer``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field, fields

from penstock._dataclasses import dataclass
from penstock.config.fields import check, choice, flag, kind_of, number, optional_text, secret, text
from penstock.config.options import OptionValue
from penstock.errors import ConfigError
from penstock.protocols.rocketmq.config.names import check_group

__all__ = ["ROCKET_OPTIONS", "Allocation", "BodyCodec", "MessageModel", "RocketConfig", "rocket_config"]


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
    shows as headers what a record has no column for, too (`penstock.protocols.rocketmq.records.columns`); Spark
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
