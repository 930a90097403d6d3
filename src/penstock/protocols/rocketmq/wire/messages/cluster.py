"""Topics, brokers, groups and Snodes: routes, settings and statistics, for clients and administrators."""

from __future__ import annotations

import enum
from typing import Annotated

from msgspec import field

from penstock.protocols.rocketmq.wire.messages.declarations import Int32, Int64, Message, named
from penstock.protocols.rocketmq.wire.messages.members import MessageQueue, SubscriptionData

__all__ = [
    "AddedTopics",
    "BrokerData",
    "ClusterInfo",
    "Connection",
    "ConsumeStats",
    "ConsumeStatsOfAll",
    "ConsumerConnection",
    "ConsumerOffsets",
    "CreateRetryTopic",
    "CreateTopic",
    "DataVersion",
    "DeleteGroup",
    "GetRoute",
    "GroupRetryPolicy",
    "Groups",
    "KvValue",
    "OfBroker",
    "OfCluster",
    "OfGroupName",
    "OfKv",
    "OfNamespace",
    "OfProducers",
    "OfSnodeCluster",
    "OfTopic",
    "OffsetsOfQueue",
    "Perm",
    "ProducerInfo",
    "Producers",
    "PutKv",
    "QueueData",
    "QueueStats",
    "RegisterSnode",
    "ResetOffsetsOfGroup",
    "RetryPolicy",
    "Route",
    "SnodeClusterInfo",
    "SnodeData",
    "StatsOf",
    "StatsOfAll",
    "StatsOfGroup",
    "SubscriptionGroupConfig",
    "SubscriptionGroupList",
    "SubscriptionGroups",
    "Table",
    "TopicConfig",
    "TopicConfigList",
    "TopicConfigs",
    "TopicList",
    "TopicStats",
    "WipedTopics",
]


class RegisterSnode(Message):
    """350: register a Snode. It is repeated every half minute; there is no request that unregisters."""

    snode_name: str
    snode_addr: str
    cluster_name: str


class OfSnodeCluster(Message):
    """354: the Snodes of a cluster, or all."""

    snode_cluster_name: str | None = None


class SnodeData(Message):
    """One Snode: ``address`` is its ``host:port``."""

    snode_name: str
    address: str
    cluster_name: str


class SnodeClusterInfo(Message):
    """The body of the answers to 353 and 354: Snodes by their names, and their names by clusters."""

    snode_table: dict[str, SnodeData] = field(default_factory=dict)
    snode_cluster: dict[str, tuple[str, ...]] = field(default_factory=dict)


class CreateRetryTopic(Message):
    """355: create a group's retry topic at a broker (*enode*). Either field may have the group's name."""

    group_name: str | None = None
    consumer_group: str | None = None
    enode_name: str | None = None


# Topics, brokers and groups: 105, 106, 206, 224, 17, 200, 202, 208, … Source: Apache RocketMQ 4.9 and 5.x,
# ``TopicRouteData``, ``ClusterInfo``, ``TopicList``, ``CreateTopicRequestHeader``, ``TopicStatsTable``,
# ``ConsumeStats``, ``SubscriptionGroupConfig``, ``ConsumerConnection``.
class Perm(enum.IntFlag):
    """The permission of a topic's queues on a broker."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


class GetRoute(Message):
    """105. A name server writes standard JSON for versions from 401 on, or if this asks for it."""

    topic: str
    accept_standard_json_only: bool | None = None


class BrokerData(Message):
    """The servers of one broker name, by id (0 is the master): ``host:port`` each.

    Name servers of 5.x always send ``enable_acting_master``, and some clients cannot read a route without it.
    """

    cluster: str | None = None
    broker_name: str
    broker_addrs: dict[Int64, str] = field(default_factory=dict)
    zone_name: str | None = None
    enable_acting_master: bool | None = None


class QueueData(Message):
    """A topic's queues on the brokers of one name."""

    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = 0


class Route(Message):
    """The body of the answer to 105."""

    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: dict[str, tuple[str, ...]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    queue_datas: tuple[QueueData, ...] = ()


class ClusterInfo(Message):
    """The body of the answer to 106. The Snode's branch adds the Snodes."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, tuple[str, ...]] = field(default_factory=dict)
    snode_table: dict[str, SnodeData] | None = None
    snode_cluster: dict[str, tuple[str, ...]] | None = None


class TopicList(Message):
    """The body of the answers to 206, 224, 304 and 305."""

    topic_list: tuple[str, ...] = ()
    broker_addr: str | None = None


class OfCluster(Message):
    """224: topics of a cluster."""

    cluster: str


class OfBroker(Message):
    """205 and 327: have a name server report a broker as not writable, and end that."""

    broker_name: str


class WipedTopics(Message):
    """The answer to 205."""

    wipe_topic_count: Int32


class AddedTopics(Message):
    """The answer to 327."""

    add_topic_count: Int32


class PutKv(Message):
    """100: store a value at a name server."""

    namespace: str
    key: str
    value: str


class OfKv(Message):
    """101 and 102: read a value, or delete it."""

    namespace: str
    key: str


class KvValue(Message):
    """The answer to 101."""

    value: str | None = None


class OfNamespace(Message):
    """219: all values of a namespace."""

    namespace: str


class OfTopic(Message):
    """202 (offsets of its queues), 215 and 216 (delete it), 300 (its consumer groups)."""

    topic: str
    cluster_name: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class CreateTopic(Message):
    """17: create a topic, or change it."""

    topic: str
    default_topic: str = "TBW102"
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32 = int(Perm.READ | Perm.WRITE)
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = 0
    order: bool = False
    attributes: str | None = None
    force: bool | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class DeleteGroup(Message):
    """207, optionally with its offsets, for which 4.9 and 5.x have different fields."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None


class RetryPolicy(Message):
    """Milliseconds: from ``initial`` to ``max`` by ``multiplier``, or the list ``next``."""

    initial: Int64 | None = None
    max: Int64 | None = None
    multiplier: Int64 | None = None
    next: tuple[Int64, ...] | None = None


class GroupRetryPolicy(Message):
    """When a group's messages are redelivered: CUSTOMIZED (by a list, that of the delay levels) or EXPONENTIAL."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: RetryPolicy | None = None
    customized_retry_policy: RetryPolicy | None = None


class SubscriptionGroupConfig(Message):
    """The body of 200: create a group, or change it."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    consume_message_orderly: bool | None = None
    consume_timeout_minute: Int32 | None = None
    group_sys_flag: Int32 | None = None
    group_retry_policy: GroupRetryPolicy | None = None
    attributes: dict[str, str] | None = None


class SubscriptionGroupList(Message):
    """The body of 225: several groups."""

    group_config_list: tuple[SubscriptionGroupConfig, ...] = ()


class OffsetsOfQueue(Message):
    """A queue in the answer to 202."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStats(Message):
    """The body of the answer to 202."""

    offset_table: dict[MessageQueue, OffsetsOfQueue] = field(default_factory=dict)


class StatsOfGroup(Message):
    """208: a group's progress."""

    consumer_group: str
    topic: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


class QueueStats(Message):
    """A queue in the answer to 208."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    pull_offset: Int64 | None = None


class ConsumeStats(Message):
    """The body of the answer to 208."""

    offset_table: dict[MessageQueue, QueueStats] = field(default_factory=dict)


class StatsOfAll(Message):
    """317: the progress of all groups; of orderly ones, or of the others."""

    is_order: bool = False


class ConsumeStatsOfAll(Message):
    """The body of the answer to 317: by group, one entry per topic."""

    broker_addr: str
    consume_stats_list: tuple[dict[str, tuple[ConsumeStats, ...]], ...] = ()
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


class ConsumerOffsets(Message):
    """The body of the answer to 43: ``topic@group`` to its queues' offsets."""

    offset_table: dict[str, dict[Int32, Int64]] = field(default_factory=dict)


class ResetOffsetsOfGroup(Message):
    """222, and 220 from a broker to members. ``timestamp`` -1 means the end."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class Connection(Message):
    """One client in the answers to 203 and 204."""

    client_id: str
    client_addr: str | None = None
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Message):
    """The body of the answer to 203."""

    connection_set: tuple[Connection, ...] = ()
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class Groups(Message):
    """The body of the answer to 300."""

    group_list: tuple[str, ...] = ()


# Settings and statistics for operators: 18, 21, 26, 28, 201, 315, 328, 351, 352. Source: Apache RocketMQ 4.9 and 5.x,
# ``KVTable``, ``TopicConfig``, ``TopicConfigSerializeWrapper``, ``SubscriptionGroupWrapper``.
class Table(Message):
    """Names and values: the body of the answer to 28."""

    table: dict[str, str] = field(default_factory=dict)


class DataVersion(Message):
    """The version of a table."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


class TopicConfig(Message):
    """A topic on a broker; the body of the answer to 351."""

    topic_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


class TopicConfigList(Message):
    """The body of 18: several topics to be created or changed. Their attributes are named ``+name``."""

    topic_config_list: tuple[TopicConfig, ...] = ()


class TopicConfigs(Message):
    """The body of the answer to 21."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion | None = None


class SubscriptionGroups(Message):
    """The body of the answer to 201."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    data_version: DataVersion | None = None


class OfGroupName(Message):
    """352: a group's settings."""

    group: str
    broker_name: Annotated[str | None, named("bname")] = None


class ProducerInfo(Message):
    """A producer in the answer to 328."""

    client_id: str
    remote_ip: Annotated[str, named("remoteIP")]
    language: str
    version: Int32
    last_update_timestamp: Int64


class Producers(Message):
    """The body of the answer to 328: all producers, by group."""

    data: dict[str, tuple[ProducerInfo, ...]] = field(default_factory=dict)


class StatsOf(Message):
    """315: a statistic's name and key, in brokers' words."""

    stats_name: str
    stats_key: str


class OfProducers(Message):
    """204: a producer group's connections."""

    producer_group: str
    broker_name: Annotated[str | None, named("bname")] = None
