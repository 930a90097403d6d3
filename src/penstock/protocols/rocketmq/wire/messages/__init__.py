"""All headers and bodies of the protocol as declared data, and their reader and writer."""

from __future__ import annotations

from penstock.protocols.rocketmq.wire.messages.cluster import AddedTopics as AddedTopics
from penstock.protocols.rocketmq.wire.messages.cluster import BrokerData as BrokerData
from penstock.protocols.rocketmq.wire.messages.cluster import ClusterInfo as ClusterInfo
from penstock.protocols.rocketmq.wire.messages.cluster import Connection as Connection
from penstock.protocols.rocketmq.wire.messages.cluster import ConsumerConnection as ConsumerConnection
from penstock.protocols.rocketmq.wire.messages.cluster import ConsumerOffsets as ConsumerOffsets
from penstock.protocols.rocketmq.wire.messages.cluster import ConsumeStats as ConsumeStats
from penstock.protocols.rocketmq.wire.messages.cluster import ConsumeStatsOfAll as ConsumeStatsOfAll
from penstock.protocols.rocketmq.wire.messages.cluster import CreateRetryTopic as CreateRetryTopic
from penstock.protocols.rocketmq.wire.messages.cluster import CreateTopic as CreateTopic
from penstock.protocols.rocketmq.wire.messages.cluster import DataVersion as DataVersion
from penstock.protocols.rocketmq.wire.messages.cluster import DeleteGroup as DeleteGroup
from penstock.protocols.rocketmq.wire.messages.cluster import GetRoute as GetRoute
from penstock.protocols.rocketmq.wire.messages.cluster import GroupRetryPolicy as GroupRetryPolicy
from penstock.protocols.rocketmq.wire.messages.cluster import Groups as Groups
from penstock.protocols.rocketmq.wire.messages.cluster import KvValue as KvValue
from penstock.protocols.rocketmq.wire.messages.cluster import OfBroker as OfBroker
from penstock.protocols.rocketmq.wire.messages.cluster import OfCluster as OfCluster
from penstock.protocols.rocketmq.wire.messages.cluster import OffsetsOfQueue as OffsetsOfQueue
from penstock.protocols.rocketmq.wire.messages.cluster import OfGroupName as OfGroupName
from penstock.protocols.rocketmq.wire.messages.cluster import OfKv as OfKv
from penstock.protocols.rocketmq.wire.messages.cluster import OfNamespace as OfNamespace
from penstock.protocols.rocketmq.wire.messages.cluster import OfProducers as OfProducers
from penstock.protocols.rocketmq.wire.messages.cluster import OfSnodeCluster as OfSnodeCluster
from penstock.protocols.rocketmq.wire.messages.cluster import OfTopic as OfTopic
from penstock.protocols.rocketmq.wire.messages.cluster import Perm as Perm
from penstock.protocols.rocketmq.wire.messages.cluster import ProducerInfo as ProducerInfo
from penstock.protocols.rocketmq.wire.messages.cluster import Producers as Producers
from penstock.protocols.rocketmq.wire.messages.cluster import PutKv as PutKv
from penstock.protocols.rocketmq.wire.messages.cluster import QueueData as QueueData
from penstock.protocols.rocketmq.wire.messages.cluster import QueueStats as QueueStats
from penstock.protocols.rocketmq.wire.messages.cluster import RegisterSnode as RegisterSnode
from penstock.protocols.rocketmq.wire.messages.cluster import ResetOffsetsOfGroup as ResetOffsetsOfGroup
from penstock.protocols.rocketmq.wire.messages.cluster import RetryPolicy as RetryPolicy
from penstock.protocols.rocketmq.wire.messages.cluster import Route as Route
from penstock.protocols.rocketmq.wire.messages.cluster import SnodeClusterInfo as SnodeClusterInfo
from penstock.protocols.rocketmq.wire.messages.cluster import SnodeData as SnodeData
from penstock.protocols.rocketmq.wire.messages.cluster import StatsOf as StatsOf
from penstock.protocols.rocketmq.wire.messages.cluster import StatsOfAll as StatsOfAll
from penstock.protocols.rocketmq.wire.messages.cluster import StatsOfGroup as StatsOfGroup
from penstock.protocols.rocketmq.wire.messages.cluster import SubscriptionGroupConfig as SubscriptionGroupConfig
from penstock.protocols.rocketmq.wire.messages.cluster import SubscriptionGroupList as SubscriptionGroupList
from penstock.protocols.rocketmq.wire.messages.cluster import SubscriptionGroups as SubscriptionGroups
from penstock.protocols.rocketmq.wire.messages.cluster import Table as Table
from penstock.protocols.rocketmq.wire.messages.cluster import TopicConfig as TopicConfig
from penstock.protocols.rocketmq.wire.messages.cluster import TopicConfigList as TopicConfigList
from penstock.protocols.rocketmq.wire.messages.cluster import TopicConfigs as TopicConfigs
from penstock.protocols.rocketmq.wire.messages.cluster import TopicList as TopicList
from penstock.protocols.rocketmq.wire.messages.cluster import TopicStats as TopicStats
from penstock.protocols.rocketmq.wire.messages.cluster import WipedTopics as WipedTopics
from penstock.protocols.rocketmq.wire.messages.declarations import NoFields as NoFields
from penstock.protocols.rocketmq.wire.messages.declarations import header_reader as header_reader
from penstock.protocols.rocketmq.wire.messages.declarations import header_writer as header_writer
from penstock.protocols.rocketmq.wire.messages.declarations import read_body as read_body
from penstock.protocols.rocketmq.wire.messages.declarations import read_fields as read_fields
from penstock.protocols.rocketmq.wire.messages.declarations import write_body as write_body
from penstock.protocols.rocketmq.wire.messages.declarations import write_fields as write_fields
from penstock.protocols.rocketmq.wire.messages.members import AskPeer as AskPeer
from penstock.protocols.rocketmq.wire.messages.members import CheckClientConfig as CheckClientConfig
from penstock.protocols.rocketmq.wire.messages.members import ConsumeDirectly as ConsumeDirectly
from penstock.protocols.rocketmq.wire.messages.members import ConsumerData as ConsumerData
from penstock.protocols.rocketmq.wire.messages.members import ConsumerIds as ConsumerIds
from penstock.protocols.rocketmq.wire.messages.members import ConsumerRunningInfo as ConsumerRunningInfo
from penstock.protocols.rocketmq.wire.messages.members import ConsumerStatus as ConsumerStatus
from penstock.protocols.rocketmq.wire.messages.members import ConsumeStatus as ConsumeStatus
from penstock.protocols.rocketmq.wire.messages.members import GetConsumerStatus as GetConsumerStatus
from penstock.protocols.rocketmq.wire.messages.members import HeartbeatData as HeartbeatData
from penstock.protocols.rocketmq.wire.messages.members import LocalOffsets as LocalOffsets
from penstock.protocols.rocketmq.wire.messages.members import LockedQueues as LockedQueues
from penstock.protocols.rocketmq.wire.messages.members import LockQueues as LockQueues
from penstock.protocols.rocketmq.wire.messages.members import MessageQueue as MessageQueue
from penstock.protocols.rocketmq.wire.messages.members import OfGroup as OfGroup
from penstock.protocols.rocketmq.wire.messages.members import OfMember as OfMember
from penstock.protocols.rocketmq.wire.messages.members import PeerGroup as PeerGroup
from penstock.protocols.rocketmq.wire.messages.members import PeerMember as PeerMember
from penstock.protocols.rocketmq.wire.messages.members import PeerWords as PeerWords
from penstock.protocols.rocketmq.wire.messages.members import ProcessQueueInfo as ProcessQueueInfo
from penstock.protocols.rocketmq.wire.messages.members import ProducerData as ProducerData
from penstock.protocols.rocketmq.wire.messages.members import ResetOffset as ResetOffset
from penstock.protocols.rocketmq.wire.messages.members import Routed as Routed
from penstock.protocols.rocketmq.wire.messages.members import SubscriptionData as SubscriptionData
from penstock.protocols.rocketmq.wire.messages.members import TellPeer as TellPeer
from penstock.protocols.rocketmq.wire.messages.members import UnregisterClient as UnregisterClient
from penstock.protocols.rocketmq.wire.messages.queues import CheckTransaction as CheckTransaction
from penstock.protocols.rocketmq.wire.messages.queues import Decision as Decision
from penstock.protocols.rocketmq.wire.messages.queues import EndTransaction as EndTransaction
from penstock.protocols.rocketmq.wire.messages.queues import FoundOffset as FoundOffset
from penstock.protocols.rocketmq.wire.messages.queues import OfQueue as OfQueue
from penstock.protocols.rocketmq.wire.messages.queues import Pulled as Pulled
from penstock.protocols.rocketmq.wire.messages.queues import PullFlag as PullFlag
from penstock.protocols.rocketmq.wire.messages.queues import PullMessage as PullMessage
from penstock.protocols.rocketmq.wire.messages.queues import PushReply as PushReply
from penstock.protocols.rocketmq.wire.messages.queues import QueriedMessages as QueriedMessages
from penstock.protocols.rocketmq.wire.messages.queues import QueryConsumerOffset as QueryConsumerOffset
from penstock.protocols.rocketmq.wire.messages.queues import QueryMessage as QueryMessage
from penstock.protocols.rocketmq.wire.messages.queues import SearchOffset as SearchOffset
from penstock.protocols.rocketmq.wire.messages.queues import SendBack as SendBack
from penstock.protocols.rocketmq.wire.messages.queues import SendMessage as SendMessage
from penstock.protocols.rocketmq.wire.messages.queues import Sent as Sent
from penstock.protocols.rocketmq.wire.messages.queues import StoreTime as StoreTime
from penstock.protocols.rocketmq.wire.messages.queues import UpdateConsumerOffset as UpdateConsumerOffset
from penstock.protocols.rocketmq.wire.messages.queues import ViewMessage as ViewMessage

__all__ = [
    "AddedTopics",
    "AskPeer",
    "BrokerData",
    "CheckClientConfig",
    "CheckTransaction",
    "ClusterInfo",
    "Connection",
    "ConsumeStats",
    "ConsumeStatsOfAll",
    "ConsumeStatus",
    "ConsumerConnection",
    "ConsumerData",
    "ConsumerIds",
    "ConsumerOffsets",
    "ConsumerRunningInfo",
    "ConsumerStatus",
    "CreateRetryTopic",
    "CreateTopic",
    "DataVersion",
    "Decision",
    "DeleteGroup",
    "EndTransaction",
    "FoundOffset",
    "GetConsumerStatus",
    "GetRoute",
    "GroupRetryPolicy",
    "Groups",
    "HeartbeatData",
    "LocalOffsets",
    "LockQueues",
    "LockedQueues",
    "MessageQueue",
    "NoFields",
    "OfBroker",
    "OfCluster",
    "OfGroup",
    "OfGroupName",
    "OfProducers",
    "OfQueue",
    "OfSnodeCluster",
    "OfTopic",
    "OffsetsOfQueue",
    "PeerGroup",
    "PeerMember",
    "PeerWords",
    "Perm",
    "ProcessQueueInfo",
    "ProducerData",
    "ProducerInfo",
    "Producers",
    "PullFlag",
    "PullMessage",
    "Pulled",
    "PushReply",
    "QueriedMessages",
    "QueryConsumerOffset",
    "QueryMessage",
    "QueueData",
    "QueueStats",
    "RegisterSnode",
    "ResetOffset",
    "ResetOffsetsOfGroup",
    "RetryPolicy",
    "Route",
    "Routed",
    "SearchOffset",
    "SendBack",
    "SendMessage",
    "Sent",
    "SnodeClusterInfo",
    "SnodeData",
    "StatsOf",
    "StatsOfAll",
    "StatsOfGroup",
    "StoreTime",
    "SubscriptionData",
    "SubscriptionGroupConfig",
    "SubscriptionGroupList",
    "SubscriptionGroups",
    "Table",
    "TellPeer",
    "TopicConfig",
    "TopicConfigList",
    "TopicConfigs",
    "TopicList",
    "TopicStats",
    "UnregisterClient",
    "UpdateConsumerOffset",
    "ViewMessage",
    "WipedTopics",
    "read_body",
    "read_fields",
    "write_body",
    "write_fields",
]
