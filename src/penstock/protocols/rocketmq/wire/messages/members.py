"""Producers and consumers: heartbeats, members, queue locks, members' own reports, and reports between Snodes."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from penstock.protocols.rocketmq.wire.messages.declarations import Int32, Int64, Message, Names, NotNull, named

__all__ = [
    "AskPeer",
    "CheckClientConfig",
    "ConsumeDirectly",
    "ConsumeStatus",
    "ConsumerData",
    "ConsumerIds",
    "ConsumerRunningInfo",
    "ConsumerStatus",
    "GetConsumerStatus",
    "HeartbeatData",
    "LocalOffsets",
    "LockQueues",
    "LockedQueues",
    "MessageQueue",
    "OfGroup",
    "OfMember",
    "PeerGroup",
    "PeerMember",
    "PeerWords",
    "ProcessQueueInfo",
    "ProducerData",
    "ResetOffset",
    "Routed",
    "SubscriptionData",
    "TellPeer",
    "UnregisterClient",
]


class MessageQueue(Message, order=True):
    """A queue. It is the key of many maps in bodies, written as an object."""

    topic: str
    broker_name: str
    queue_id: Int32


class Routed(Message):
    """The header of requests with no field but, for a proxy, the broker."""

    broker_name: Annotated[str | None, named("bname")] = None


class SubscriptionData(Message):
    """A group's subscription to a topic. ``code_set`` are the hashes of the tags, ``sub_version`` milliseconds."""

    topic: str
    sub_string: str = "*"
    tags_set: tuple[str, ...] = ()
    code_set: tuple[Int32, ...] = ()
    sub_version: Int64 = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False


# In the order of Java's enumerations.
_CONSUME_TYPES: Final = Names(("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"))
_MESSAGE_MODELS: Final = Names(("BROADCASTING", "CLUSTERING"))
_FROM_WHERE: Final = Names(
    (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    )
)


class ConsumerData(Message):
    """A consumer group in a heartbeat."""

    group_name: str
    consume_type: Annotated[str, _CONSUME_TYPES] = "CONSUME_PASSIVELY"
    message_model: Annotated[str, _MESSAGE_MODELS] = "CLUSTERING"
    consume_from_where: Annotated[str, _FROM_WHERE] = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: Annotated[tuple[SubscriptionData, ...], NotNull()] = ()
    unit_mode: bool = False


class ProducerData(Message):
    """A producer group in a heartbeat."""

    group_name: str


class HeartbeatData(Message):
    """The body of 34. With a fingerprint that is not 0 (5.x), ``without_sub`` may leave the subscriptions out."""

    client_id: Annotated[str, named("clientID")]
    consumer_data_set: Annotated[tuple[ConsumerData, ...], NotNull()] = ()
    producer_data_set: Annotated[tuple[ProducerData, ...], NotNull()] = ()
    heartbeat_fingerprint: Int32 | None = None
    without_sub: bool | None = None


class UnregisterClient(Message):
    """35."""

    client_id: Annotated[str, named("clientID")]
    producer_group: str | None = None
    consumer_group: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class OfGroup(Message):
    """38 (the group's members), 40 (from a broker: a member joined or left), 203 (the group's connections)."""

    consumer_group: str
    broker_name: Annotated[str | None, named("bname")] = None


class ConsumerIds(Message):
    """The body of the answer to 38."""

    consumer_id_list: tuple[str, ...] = ()


class OfMember(Message):
    """307: a member's state; ``jstack_enable``: with its threads."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeDirectly(Message):
    """309: have a member consume a message, by its id, or the one in the body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None


class CheckClientConfig(Message):
    """The body of 46: check a subscription."""

    client_id: str
    group: str
    subscription_data: SubscriptionData
    namespace: str | None = None


class LockQueues(Message):
    """The body of 41 and 42."""

    consumer_group: str
    client_id: str
    mq_set: Annotated[tuple[MessageQueue, ...], NotNull()] = ()
    only_this_broker: bool | None = None


class LockedQueues(Message):
    """The body of the answer to 41: the queues that the client has locked now."""

    lock_ok_mq_set: Annotated[tuple[MessageQueue, ...], named("lockOKMQSet")] = ()


class LocalOffsets(Message):
    """The file of a broadcasting Java member: its offset in each queue."""

    offset_table: dict[MessageQueue, Int64] = field(default_factory=dict)


class ResetOffset(Message):
    """The body of 220, and of the answer to 222: each queue's new offset."""

    offset_table: dict[MessageQueue, Int64] = field(default_factory=dict)


# Members' reports about themselves: the bodies of the answers to 307 and 221. Source: Apache RocketMQ 4.9 and 5.4,
# ``ConsumerRunningInfo``, ``GetConsumerStatusBody``.
class GetConsumerStatus(Message):
    """221, from a broker to members: their offsets in a topic."""

    topic: str
    group: str


class ConsumerStatus(Message):
    """The body of the answer to 221: a member's offsets."""

    message_queue_table: dict[MessageQueue, Int64] = field(default_factory=dict)


class ProcessQueueInfo(Message):
    """One queue of a member: its last commit, and the messages that it has in memory."""

    commit_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    locked: bool = False


class ConsumeStatus(Message):
    """How fast a member reads a topic: milliseconds, and messages per second."""

    pull_rt: Annotated[Int64, named("pullRT")] = 0
    pull_tps: Annotated[Int64, named("pullTPS")] = 0
    consume_rt: Annotated[Int64, named("consumeRT")] = 0
    consume_ok_tps: Annotated[Int64, named("consumeOKTPS")] = 0
    consume_failed_tps: Annotated[Int64, named("consumeFailedTPS")] = 0
    consume_failed_msgs: Int64 = 0


class ConsumerRunningInfo(Message):
    """The body of the answer to 307: a member's state."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: tuple[SubscriptionData, ...] = ()
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)


# Reports between the Snodes of a cluster about their clients: a request of penstock's own, and its response.
#
# A report is about one Snode, and any Snode may pass it on: a Snode has a new id with each start, and its version grows
# with each change, so the higher version is the newer one wherever it came from.
class PeerMember(Message):
    """A client in a group; ``address``: where it connected from."""

    client_id: str
    language: str = ""
    version: Int32 = 0
    address: str = ""


class PeerGroup(Message):
    """One group at one Snode, as of that Snode's ``version``; ``kind`` is consumer or producer.

    ``left``: clients that left there (35) a while ago, so that other Snodes do not take them for members of a lost
    Snode. A group without members is gone from that Snode.
    """

    kind: str
    name: str
    version: Int64
    members: tuple[PeerMember, ...] = ()
    left: tuple[str, ...] = ()
    subscriptions: tuple[SubscriptionData, ...] = ()
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""


class PeerWords(Message):
    """A report about one Snode. ``beat`` grows while it runs; ``silent_ms``: how long ago its last sign of life was.

    ``groups`` are those that changed since the known version, or with ``whole`` all of them.
    """

    id: str
    name: str
    beat: Int64
    version: Int64
    silent_ms: Int64 = 0
    whole: bool = False
    groups: tuple[PeerGroup, ...] = ()


class AskPeer(Message):
    """The asking Snode, the versions that it knows, the Snodes that it hears directly, and how long it would wait."""

    id: str
    name: str = ""
    known: dict[str, Int64] = field(default_factory=dict)
    heard: tuple[str, ...] = ()
    hold_ms: Int64 = 0


class TellPeer(Message):
    """The answering Snode and its reports, that about itself first."""

    id: str
    words: tuple[PeerWords, ...] = ()
