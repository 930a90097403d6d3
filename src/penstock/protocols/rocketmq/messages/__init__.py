"""Every header and body of the protocol as declared data, and what reads and writes all of them."""

from penstock.protocols.rocketmq.messages.bodies import read_body as read_body
from penstock.protocols.rocketmq.messages.bodies import write_body as write_body
from penstock.protocols.rocketmq.messages.cluster import AddedTopics as AddedTopics
from penstock.protocols.rocketmq.messages.cluster import BrokerData as BrokerData
from penstock.protocols.rocketmq.messages.cluster import ClusterInfo as ClusterInfo
from penstock.protocols.rocketmq.messages.cluster import Connection as Connection
from penstock.protocols.rocketmq.messages.cluster import ConsumerConnection as ConsumerConnection
from penstock.protocols.rocketmq.messages.cluster import ConsumerOffsets as ConsumerOffsets
from penstock.protocols.rocketmq.messages.cluster import ConsumeStats as ConsumeStats
from penstock.protocols.rocketmq.messages.cluster import ConsumeStatsOfAll as ConsumeStatsOfAll
from penstock.protocols.rocketmq.messages.cluster import CreateTopic as CreateTopic
from penstock.protocols.rocketmq.messages.cluster import DeleteGroup as DeleteGroup
from penstock.protocols.rocketmq.messages.cluster import GetRoute as GetRoute
from penstock.protocols.rocketmq.messages.cluster import GroupRetryPolicy as GroupRetryPolicy
from penstock.protocols.rocketmq.messages.cluster import Groups as Groups
from penstock.protocols.rocketmq.messages.cluster import KvValue as KvValue
from penstock.protocols.rocketmq.messages.cluster import OfBroker as OfBroker
from penstock.protocols.rocketmq.messages.cluster import OfCluster as OfCluster
from penstock.protocols.rocketmq.messages.cluster import OffsetsOfQueue as OffsetsOfQueue
from penstock.protocols.rocketmq.messages.cluster import OfKv as OfKv
from penstock.protocols.rocketmq.messages.cluster import OfNamespace as OfNamespace
from penstock.protocols.rocketmq.messages.cluster import OfTopic as OfTopic
from penstock.protocols.rocketmq.messages.cluster import Perm as Perm
from penstock.protocols.rocketmq.messages.cluster import PutKv as PutKv
from penstock.protocols.rocketmq.messages.cluster import QueueData as QueueData
from penstock.protocols.rocketmq.messages.cluster import QueueStats as QueueStats
from penstock.protocols.rocketmq.messages.cluster import ResetOffsetsOfGroup as ResetOffsetsOfGroup
from penstock.protocols.rocketmq.messages.cluster import RetryPolicy as RetryPolicy
from penstock.protocols.rocketmq.messages.cluster import Route as Route
from penstock.protocols.rocketmq.messages.cluster import StatsOfAll as StatsOfAll
from penstock.protocols.rocketmq.messages.cluster import StatsOfGroup as StatsOfGroup
from penstock.protocols.rocketmq.messages.cluster import SubscriptionGroupConfig as SubscriptionGroupConfig
from penstock.protocols.rocketmq.messages.cluster import SubscriptionGroupList as SubscriptionGroupList
from penstock.protocols.rocketmq.messages.cluster import TopicList as TopicList
from penstock.protocols.rocketmq.messages.cluster import TopicStats as TopicStats
from penstock.protocols.rocketmq.messages.cluster import WipedTopics as WipedTopics
from penstock.protocols.rocketmq.messages.codec import read_fields as read_fields
from penstock.protocols.rocketmq.messages.codec import write_fields as write_fields
from penstock.protocols.rocketmq.messages.declare import NoFields as NoFields
from penstock.protocols.rocketmq.messages.membership import CheckClientConfig as CheckClientConfig
from penstock.protocols.rocketmq.messages.membership import ConsumeDirectly as ConsumeDirectly
from penstock.protocols.rocketmq.messages.membership import ConsumerData as ConsumerData
from penstock.protocols.rocketmq.messages.membership import ConsumerIds as ConsumerIds
from penstock.protocols.rocketmq.messages.membership import HeartbeatData as HeartbeatData
from penstock.protocols.rocketmq.messages.membership import LocalOffsets as LocalOffsets
from penstock.protocols.rocketmq.messages.membership import LockedQueues as LockedQueues
from penstock.protocols.rocketmq.messages.membership import LockQueues as LockQueues
from penstock.protocols.rocketmq.messages.membership import MessageQueue as MessageQueue
from penstock.protocols.rocketmq.messages.membership import OfGroup as OfGroup
from penstock.protocols.rocketmq.messages.membership import OfMember as OfMember
from penstock.protocols.rocketmq.messages.membership import ProducerData as ProducerData
from penstock.protocols.rocketmq.messages.membership import ResetOffset as ResetOffset
from penstock.protocols.rocketmq.messages.membership import Routed as Routed
from penstock.protocols.rocketmq.messages.membership import SubscriptionData as SubscriptionData
from penstock.protocols.rocketmq.messages.membership import UnregisterClient as UnregisterClient
from penstock.protocols.rocketmq.messages.peers import AskPeer as AskPeer
from penstock.protocols.rocketmq.messages.peers import PeerGroup as PeerGroup
from penstock.protocols.rocketmq.messages.peers import PeerMember as PeerMember
from penstock.protocols.rocketmq.messages.peers import PeerWords as PeerWords
from penstock.protocols.rocketmq.messages.peers import TellPeer as TellPeer
from penstock.protocols.rocketmq.messages.reading import FoundOffset as FoundOffset
from penstock.protocols.rocketmq.messages.reading import OfQueue as OfQueue
from penstock.protocols.rocketmq.messages.reading import Pulled as Pulled
from penstock.protocols.rocketmq.messages.reading import PullFlag as PullFlag
from penstock.protocols.rocketmq.messages.reading import PullMessage as PullMessage
from penstock.protocols.rocketmq.messages.reading import QueriedMessages as QueriedMessages
from penstock.protocols.rocketmq.messages.reading import QueryConsumerOffset as QueryConsumerOffset
from penstock.protocols.rocketmq.messages.reading import QueryMessage as QueryMessage
from penstock.protocols.rocketmq.messages.reading import SearchOffset as SearchOffset
from penstock.protocols.rocketmq.messages.reading import StoreTime as StoreTime
from penstock.protocols.rocketmq.messages.reading import UpdateConsumerOffset as UpdateConsumerOffset
from penstock.protocols.rocketmq.messages.reading import ViewMessage as ViewMessage
from penstock.protocols.rocketmq.messages.running import ConsumerRunningInfo as ConsumerRunningInfo
from penstock.protocols.rocketmq.messages.running import ConsumerStatus as ConsumerStatus
from penstock.protocols.rocketmq.messages.running import ConsumeStatus as ConsumeStatus
from penstock.protocols.rocketmq.messages.running import GetConsumerStatus as GetConsumerStatus
from penstock.protocols.rocketmq.messages.running import ProcessQueueInfo as ProcessQueueInfo
from penstock.protocols.rocketmq.messages.sending import CheckTransaction as CheckTransaction
from penstock.protocols.rocketmq.messages.sending import Decision as Decision
from penstock.protocols.rocketmq.messages.sending import EndTransaction as EndTransaction
from penstock.protocols.rocketmq.messages.sending import PushReply as PushReply
from penstock.protocols.rocketmq.messages.sending import SendBack as SendBack
from penstock.protocols.rocketmq.messages.sending import SendMessage as SendMessage
from penstock.protocols.rocketmq.messages.sending import Sent as Sent
from penstock.protocols.rocketmq.messages.settings import DataVersion as DataVersion
from penstock.protocols.rocketmq.messages.settings import OfGroupName as OfGroupName
from penstock.protocols.rocketmq.messages.settings import OfProducers as OfProducers
from penstock.protocols.rocketmq.messages.settings import ProducerInfo as ProducerInfo
from penstock.protocols.rocketmq.messages.settings import Producers as Producers
from penstock.protocols.rocketmq.messages.settings import StatsOf as StatsOf
from penstock.protocols.rocketmq.messages.settings import SubscriptionGroups as SubscriptionGroups
from penstock.protocols.rocketmq.messages.settings import Table as Table
from penstock.protocols.rocketmq.messages.settings import TopicConfig as TopicConfig
from penstock.protocols.rocketmq.messages.settings import TopicConfigList as TopicConfigList
from penstock.protocols.rocketmq.messages.settings import TopicConfigs as TopicConfigs
from penstock.protocols.rocketmq.messages.snodes import CreateRetryTopic as CreateRetryTopic
from penstock.protocols.rocketmq.messages.snodes import OfSnodeCluster as OfSnodeCluster
from penstock.protocols.rocketmq.messages.snodes import RegisterSnode as RegisterSnode
from penstock.protocols.rocketmq.messages.snodes import SnodeClusterInfo as SnodeClusterInfo
from penstock.protocols.rocketmq.messages.snodes import SnodeData as SnodeData

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
