"""The embedded store: topics as partition logs of Kafka record batches, on disk or in memory."""

from penstock.store.batch_heads import HeadCheck as HeadCheck
from penstock.store.catalog import TopicState as TopicState
from penstock.store.compaction import Compacted as Compacted
from penstock.store.compaction import Compaction as Compaction
from penstock.store.config import FlushPolicy as FlushPolicy
from penstock.store.config import StoreConfig as StoreConfig
from penstock.store.errors import Recovery as Recovery
from penstock.store.errors import StoreDamaged as StoreDamaged
from penstock.store.errors import StoreLocked as StoreLocked
from penstock.store.log import Appended as Appended
from penstock.store.log import LogPart as LogPart
from penstock.store.log import LogSlice as LogSlice
from penstock.store.log import PartitionLog as PartitionLog
from penstock.store.log import Trimmed as Trimmed
from penstock.store.partition_folder import Flush as Flush
from penstock.store.store import Store as Store
from penstock.store.store import open_store as open_store

__all__ = [
    "Appended",
    "Compacted",
    "Compaction",
    "Flush",
    "FlushPolicy",
    "HeadCheck",
    "LogPart",
    "LogSlice",
    "PartitionLog",
    "Recovery",
    "Store",
    "StoreConfig",
    "StoreDamaged",
    "StoreLocked",
    "TopicState",
    "Trimmed",
    "open_store",
]
