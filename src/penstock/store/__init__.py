"""The embedded store: topics as partition logs of Kafka record batches, on disk or in memory."""

from penstock.store._compaction import Compacted as Compacted
from penstock.store._compaction import Compaction as Compaction
from penstock.store._flush import Flush as Flush
from penstock.store._retention import Trimmed as Trimmed
from penstock.store._state import Recovery as Recovery
from penstock.store.answers import Appended as Appended
from penstock.store.answers import LogPart as LogPart
from penstock.store.answers import LogSlice as LogSlice
from penstock.store.catalog import TopicState as TopicState
from penstock.store.config import FlushPolicy as FlushPolicy
from penstock.store.config import StoreConfig as StoreConfig
from penstock.store.errors import BatchTooLarge as BatchTooLarge
from penstock.store.errors import FencedLeaderEpoch as FencedLeaderEpoch
from penstock.store.errors import InvalidPartitionCount as InvalidPartitionCount
from penstock.store.errors import InvalidTopicConfig as InvalidTopicConfig
from penstock.store.errors import InvalidTopicName as InvalidTopicName
from penstock.store.errors import LogOffsetOutOfRange as LogOffsetOutOfRange
from penstock.store.errors import OutOfOrderSequence as OutOfOrderSequence
from penstock.store.errors import StaleProducerEpoch as StaleProducerEpoch
from penstock.store.errors import StoreDamaged as StoreDamaged
from penstock.store.errors import StoreLocked as StoreLocked
from penstock.store.errors import TopicExists as TopicExists
from penstock.store.errors import UnknownLeaderEpoch as UnknownLeaderEpoch
from penstock.store.errors import UnknownPartition as UnknownPartition
from penstock.store.errors import UnknownTopic as UnknownTopic
from penstock.store.errors import WriteFailed as WriteFailed
from penstock.store.log import PartitionLog as PartitionLog
from penstock.store.opening import open_store as open_store
from penstock.store.store import Store as Store

__all__ = [
    "Appended",
    "BatchTooLarge",
    "Compacted",
    "Compaction",
    "FencedLeaderEpoch",
    "Flush",
    "FlushPolicy",
    "InvalidPartitionCount",
    "InvalidTopicConfig",
    "InvalidTopicName",
    "LogOffsetOutOfRange",
    "LogPart",
    "LogSlice",
    "OutOfOrderSequence",
    "PartitionLog",
    "Recovery",
    "StaleProducerEpoch",
    "Store",
    "StoreConfig",
    "StoreDamaged",
    "StoreLocked",
    "TopicExists",
    "TopicState",
    "Trimmed",
    "UnknownLeaderEpoch",
    "UnknownPartition",
    "UnknownTopic",
    "WriteFailed",
    "open_store",
]
