"""Message logs (TubeMQ, RocketMQ, Kafka) as Arrow columns.

A name is imported when it is first used (PEP 562). ``import penstock`` reads this file only, so a command line, a Spark
worker or a test that needs one name does not pay for the others. Every public name has a row in the table below; code
lives in the modules that the table names.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock._version import __version__ as __version__

if TYPE_CHECKING:
    from penstock.client import Admin as Admin
    from penstock.client import ArrowArray as ArrowArray
    from penstock.client import ArrowStream as ArrowStream
    from penstock.client import AsyncAdmin as AsyncAdmin
    from penstock.client import AsyncConsumer as AsyncConsumer
    from penstock.client import AsyncProducer as AsyncProducer
    from penstock.client import AsyncTransaction as AsyncTransaction
    from penstock.client import BatchDelivery as BatchDelivery
    from penstock.client import Bound as Bound
    from penstock.client import BufferFull as BufferFull
    from penstock.client import CallbackErrorHook as CallbackErrorHook
    from penstock.client import CallbackFailure as CallbackFailure
    from penstock.client import CheckCallback as CheckCallback
    from penstock.client import CommitCallback as CommitCallback
    from penstock.client import CommitFailed as CommitFailed
    from penstock.client import Consumer as Consumer
    from penstock.client import ConsumerInterceptor as ConsumerInterceptor
    from penstock.client import ConsumerMetrics as ConsumerMetrics
    from penstock.client import Delivery as Delivery
    from penstock.client import DeliveryTimeout as DeliveryTimeout
    from penstock.client import EmptyReason as EmptyReason
    from penstock.client import GroupOffset as GroupOffset
    from penstock.client import Lag as Lag
    from penstock.client import MetricsHook as MetricsHook
    from penstock.client import NoOffset as NoOffset
    from penstock.client import OffsetLike as OffsetLike
    from penstock.client import OffsetMove as OffsetMove
    from penstock.client import OffsetsLike as OffsetsLike
    from penstock.client import Outgoing as Outgoing
    from penstock.client import PartitionerFunction as PartitionerFunction
    from penstock.client import PartitionStatus as PartitionStatus
    from penstock.client import PatternLike as PatternLike
    from penstock.client import Peek as Peek
    from penstock.client import Producer as Producer
    from penstock.client import ProducerInterceptor as ProducerInterceptor
    from penstock.client import ProducerMetrics as ProducerMetrics
    from penstock.client import RangeReader as RangeReader
    from penstock.client import ReadState as ReadState
    from penstock.client import RebalanceListener as RebalanceListener
    from penstock.client import RecordMetadata as RecordMetadata
    from penstock.client import ResetPlan as ResetPlan
    from penstock.client import ResetTo as ResetTo
    from penstock.client import RowsLike as RowsLike
    from penstock.client import SubscriptionPattern as SubscriptionPattern
    from penstock.client import Timing as Timing
    from penstock.client import TopicsLike as TopicsLike
    from penstock.client import Transaction as Transaction
    from penstock.client import TransactionAborted as TransactionAborted
    from penstock.client import WakeUp as WakeUp
    from penstock.client import offsets_from_csv as offsets_from_csv
    from penstock.client import offsets_to_csv as offsets_to_csv
    from penstock.client import read as read
    from penstock.client import scan as scan
    from penstock.config import OptionValue as OptionValue
    from penstock.errors import Closed as Closed
    from penstock.errors import ConfigError as ConfigError
    from penstock.errors import ConnectionLost as ConnectionLost
    from penstock.errors import CorruptBatch as CorruptBatch
    from penstock.errors import DeserializationError as DeserializationError
    from penstock.errors import ErrorKind as ErrorKind
    from penstock.errors import FencedError as FencedError
    from penstock.errors import FirstContactTimeout as FirstContactTimeout
    from penstock.errors import LocalError as LocalError
    from penstock.errors import LogTruncated as LogTruncated
    from penstock.errors import MissingExtra as MissingExtra
    from penstock.errors import OffsetOutOfRange as OffsetOutOfRange
    from penstock.errors import PenstockError as PenstockError
    from penstock.errors import ProtocolViolation as ProtocolViolation
    from penstock.errors import RemoteError as RemoteError
    from penstock.errors import RequestTimeout as RequestTimeout
    from penstock.errors import ServerError as ServerError
    from penstock.errors import StoreError as StoreError
    from penstock.errors import TopicRecreated as TopicRecreated
    from penstock.errors import UsageError as UsageError
    from penstock.groups import Assignor as Assignor
    from penstock.groups import Racks as Racks
    from penstock.groups import Shares as Shares
    from penstock.groups import Subscriber as Subscriber
    from penstock.interfaces import FoundOffset as FoundOffset
    from penstock.interfaces import GroupDescription as GroupDescription
    from penstock.interfaces import GroupDescriptions as GroupDescriptions
    from penstock.interfaces import GroupListing as GroupListing
    from penstock.interfaces import GroupListings as GroupListings
    from penstock.interfaces import GroupMember as GroupMember
    from penstock.interfaces import NewTopic as NewTopic
    from penstock.interfaces import Rebalance as Rebalance
    from penstock.interfaces import RebalanceCause as RebalanceCause
    from penstock.interfaces import RebalanceEnding as RebalanceEnding
    from penstock.interfaces import RebalanceMove as RebalanceMove
    from penstock.interfaces import RebalanceReason as RebalanceReason
    from penstock.interfaces import TopicSetting as TopicSetting
    from penstock.model import Assignment as Assignment
    from penstock.model import Codec as Codec
    from penstock.model import Committed as Committed
    from penstock.model import Endpoint as Endpoint
    from penstock.model import GroupMetadata as GroupMetadata
    from penstock.model import LogRange as LogRange
    from penstock.model import Node as Node
    from penstock.model import Offset as Offset
    from penstock.model import OffsetSpec as OffsetSpec
    from penstock.model import Partition as Partition
    from penstock.model import PartitionInfo as PartitionInfo
    from penstock.model import PartitionLike as PartitionLike
    from penstock.model import PreparedTransaction as PreparedTransaction
    from penstock.model import Record as Record
    from penstock.model import TimestampType as TimestampType
    from penstock.model import TopicInfo as TopicInfo
    from penstock.records import Deserializer as Deserializer
    from penstock.records import HeadersLike as HeadersLike
    from penstock.records import Messages as Messages
    from penstock.records import Part as Part
    from penstock.records import Serializer as Serializer
    from penstock.records import from_json as from_json
    from penstock.records import from_utf8 as from_utf8
    from penstock.records import to_json as to_json
    from penstock.records import to_utf8 as to_utf8

_HOME_OF = {
    name: home
    for home, names in {
        "penstock.client": (
            "Admin ArrowArray ArrowStream AsyncAdmin AsyncConsumer AsyncProducer AsyncTransaction BatchDelivery "
            "Bound BufferFull CallbackErrorHook CallbackFailure CheckCallback CommitCallback CommitFailed "
            "Consumer ConsumerInterceptor ConsumerMetrics Delivery DeliveryTimeout EmptyReason GroupOffset Lag "
            "MetricsHook NoOffset OffsetLike OffsetMove OffsetsLike Outgoing PartitionStatus PartitionerFunction "
            "PatternLike Peek Producer ProducerInterceptor ProducerMetrics RangeReader ReadState RebalanceListener "
            "RecordMetadata ResetPlan ResetTo RowsLike SubscriptionPattern Timing TopicsLike Transaction "
            "TransactionAborted WakeUp offsets_from_csv offsets_to_csv read scan"
        ),
        "penstock.records": "Deserializer HeadersLike Messages Part Serializer from_json from_utf8 to_json to_utf8",
        "penstock.config": "OptionValue",
        "penstock.errors": (
            "Closed ConfigError ConnectionLost CorruptBatch DeserializationError ErrorKind FencedError "
            "FirstContactTimeout LocalError LogTruncated MissingExtra OffsetOutOfRange PenstockError "
            "ProtocolViolation RemoteError RequestTimeout ServerError StoreError TopicRecreated UsageError"
        ),
        "penstock.groups": "Assignor Racks Shares Subscriber",
        "penstock.model": (
            "Assignment Codec Committed Endpoint GroupMetadata LogRange Node Offset OffsetSpec Partition PartitionInfo "
            "PartitionLike PreparedTransaction Record TimestampType TopicInfo"
        ),
        "penstock.interfaces": (
            "FoundOffset GroupDescription GroupDescriptions GroupListing GroupListings GroupMember NewTopic Rebalance "
            "RebalanceCause RebalanceEnding RebalanceMove RebalanceReason TopicSetting"
        ),
    }.items()
    for name in names.split()
}

__all__ = [*_HOME_OF, "__version__"]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
