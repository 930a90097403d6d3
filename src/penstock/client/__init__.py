"""Clients of a log: consumers, producers, range readers and admins, for asyncio and for plain synchronous code.

Names are loaded when they are first asked for (PEP 562): who reads ranges pays neither for asyncio nor for threads.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client._arguments import OffsetLike as OffsetLike
    from penstock.client._callbacks import CallbackErrorHook as CallbackErrorHook
    from penstock.client._callbacks import CallbackFailure as CallbackFailure
    from penstock.client._checks import CheckCallback as CheckCallback
    from penstock.client._choosing import PartitionerFunction as PartitionerFunction
    from penstock.client._committable import CommitCallback as CommitCallback
    from penstock.client._committable import OffsetsLike as OffsetsLike
    from penstock.client._group_offsets import GroupOffset as GroupOffset
    from penstock.client._lag import Lag as Lag
    from penstock.client._measuring import MetricsHook as MetricsHook
    from penstock.client._offsets_csv import offsets_from_csv as offsets_from_csv
    from penstock.client._offsets_csv import offsets_to_csv as offsets_to_csv
    from penstock.client._peeking import Peek as Peek
    from penstock.client._resetting import OffsetMove as OffsetMove
    from penstock.client._resetting import ResetPlan as ResetPlan
    from penstock.client._resetting import ResetTo as ResetTo
    from penstock.client._subscribed import PatternLike as PatternLike
    from penstock.client._subscribed import SubscriptionPattern as SubscriptionPattern
    from penstock.client._subscribed import TopicsLike as TopicsLike
    from penstock.client._tables import ArrowArray as ArrowArray
    from penstock.client._tables import ArrowStream as ArrowStream
    from penstock.client._tables import RowsLike as RowsLike
    from penstock.client.admin import Admin as Admin
    from penstock.client.async_admin import AsyncAdmin as AsyncAdmin
    from penstock.client.async_consumer import AsyncConsumer as AsyncConsumer
    from penstock.client.async_producer import AsyncProducer as AsyncProducer
    from penstock.client.consumer import Consumer as Consumer
    from penstock.client.delivery import BatchDelivery as BatchDelivery
    from penstock.client.delivery import Delivery as Delivery
    from penstock.client.delivery import RecordMetadata as RecordMetadata
    from penstock.client.errors import BufferFull as BufferFull
    from penstock.client.errors import CommitFailed as CommitFailed
    from penstock.client.errors import DeliveryTimeout as DeliveryTimeout
    from penstock.client.errors import NoOffset as NoOffset
    from penstock.client.errors import TransactionAborted as TransactionAborted
    from penstock.client.errors import WakeUp as WakeUp
    from penstock.client.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from penstock.client.interceptors import Outgoing as Outgoing
    from penstock.client.interceptors import ProducerInterceptor as ProducerInterceptor
    from penstock.client.metrics import ConsumerMetrics as ConsumerMetrics
    from penstock.client.metrics import ProducerMetrics as ProducerMetrics
    from penstock.client.metrics import Timing as Timing
    from penstock.client.producer import Producer as Producer
    from penstock.client.range_reader import RangeReader as RangeReader
    from penstock.client.reading import Bound as Bound
    from penstock.client.reading import read as read
    from penstock.client.reading import scan as scan
    from penstock.client.rebalance import RebalanceListener as RebalanceListener
    from penstock.client.status import EmptyReason as EmptyReason
    from penstock.client.status import PartitionStatus as PartitionStatus
    from penstock.client.status import ReadState as ReadState
    from penstock.client.transaction import AsyncTransaction as AsyncTransaction
    from penstock.client.transaction import Transaction as Transaction

_HOME_OF = {
    "Admin": "admin",
    "ArrowArray": "_tables",
    "ArrowStream": "_tables",
    "AsyncAdmin": "async_admin",
    "AsyncConsumer": "async_consumer",
    "AsyncProducer": "async_producer",
    "AsyncTransaction": "transaction",
    "BatchDelivery": "delivery",
    "Bound": "reading",
    "BufferFull": "errors",
    "CallbackErrorHook": "_callbacks",
    "CallbackFailure": "_callbacks",
    "CheckCallback": "_checks",
    "CommitCallback": "_committable",
    "CommitFailed": "errors",
    "Consumer": "consumer",
    "ConsumerInterceptor": "interceptors",
    "ConsumerMetrics": "metrics",
    "Delivery": "delivery",
    "DeliveryTimeout": "errors",
    "EmptyReason": "status",
    "GroupOffset": "_group_offsets",
    "Lag": "_lag",
    "MetricsHook": "_measuring",
    "NoOffset": "errors",
    "OffsetLike": "_arguments",
    "OffsetMove": "_resetting",
    "OffsetsLike": "_committable",
    "Outgoing": "interceptors",
    "PartitionStatus": "status",
    "PartitionerFunction": "_choosing",
    "PatternLike": "_subscribed",
    "Peek": "_peeking",
    "Producer": "producer",
    "ProducerInterceptor": "interceptors",
    "ProducerMetrics": "metrics",
    "RangeReader": "range_reader",
    "ReadState": "status",
    "RebalanceListener": "rebalance",
    "RecordMetadata": "delivery",
    "ResetPlan": "_resetting",
    "ResetTo": "_resetting",
    "RowsLike": "_tables",
    "SubscriptionPattern": "_subscribed",
    "Timing": "metrics",
    "TopicsLike": "_subscribed",
    "Transaction": "transaction",
    "TransactionAborted": "errors",
    "WakeUp": "errors",
    "offsets_from_csv": "_offsets_csv",
    "offsets_to_csv": "_offsets_csv",
    "read": "reading",
    "scan": "reading",
}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"penstock.client.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
