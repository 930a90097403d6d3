"""Clients of a log: consumers, producers, range readers and admins, for asyncio and for synchronous code.

A name is imported when it is first used (PEP 562), so a program that only reads ranges loads neither asyncio nor
threads.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin as Admin
    from penstock.client.admin.admin import AsyncAdmin as AsyncAdmin
    from penstock.client.admin.groups import GroupOffset as GroupOffset
    from penstock.client.admin.groups import Lag as Lag
    from penstock.client.admin.groups import OffsetMove as OffsetMove
    from penstock.client.admin.groups import ResetPlan as ResetPlan
    from penstock.client.admin.groups import ResetTo as ResetTo
    from penstock.client.admin.groups import offsets_from_csv as offsets_from_csv
    from penstock.client.admin.groups import offsets_to_csv as offsets_to_csv
    from penstock.client.arguments import CheckCallback as CheckCallback
    from penstock.client.arguments import CommitCallback as CommitCallback
    from penstock.client.arguments import OffsetLike as OffsetLike
    from penstock.client.arguments import OffsetsLike as OffsetsLike
    from penstock.client.consumer.consumer import AsyncConsumer as AsyncConsumer
    from penstock.client.consumer.consumer import Consumer as Consumer
    from penstock.client.consumer.subscription import PatternLike as PatternLike
    from penstock.client.consumer.subscription import SubscriptionPattern as SubscriptionPattern
    from penstock.client.consumer.subscription import TopicsLike as TopicsLike
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
    from penstock.client.metrics import MetricsHook as MetricsHook
    from penstock.client.metrics import ProducerMetrics as ProducerMetrics
    from penstock.client.metrics import Timing as Timing
    from penstock.client.producer.accumulator import ArrowArray as ArrowArray
    from penstock.client.producer.accumulator import ArrowStream as ArrowStream
    from penstock.client.producer.accumulator import RowsLike as RowsLike
    from penstock.client.producer.delivery import BatchDelivery as BatchDelivery
    from penstock.client.producer.delivery import Delivery as Delivery
    from penstock.client.producer.delivery import RecordMetadata as RecordMetadata
    from penstock.client.producer.producer import AsyncProducer as AsyncProducer
    from penstock.client.producer.producer import AsyncTransaction as AsyncTransaction
    from penstock.client.producer.producer import Producer as Producer
    from penstock.client.producer.producer import Transaction as Transaction
    from penstock.client.producer.routing import PartitionerFunction as PartitionerFunction
    from penstock.client.ranges.range_reader import Peek as Peek
    from penstock.client.ranges.range_reader import RangeReader as RangeReader
    from penstock.client.ranges.reading import Bound as Bound
    from penstock.client.ranges.reading import read as read
    from penstock.client.ranges.reading import scan as scan
    from penstock.client.rebalance import RebalanceListener as RebalanceListener
    from penstock.client.runtime.callbacks import CallbackErrorHook as CallbackErrorHook
    from penstock.client.runtime.callbacks import CallbackFailure as CallbackFailure
    from penstock.client.status import EmptyReason as EmptyReason
    from penstock.client.status import PartitionStatus as PartitionStatus
    from penstock.client.status import ReadState as ReadState

_HOME_OF = {
    "Admin": "admin.admin",
    "ArrowArray": "producer.accumulator",
    "ArrowStream": "producer.accumulator",
    "AsyncAdmin": "admin.admin",
    "AsyncConsumer": "consumer.consumer",
    "AsyncProducer": "producer.producer",
    "AsyncTransaction": "producer.producer",
    "BatchDelivery": "producer.delivery",
    "Bound": "ranges.reading",
    "BufferFull": "errors",
    "CallbackErrorHook": "runtime.callbacks",
    "CallbackFailure": "runtime.callbacks",
    "CheckCallback": "arguments",
    "CommitCallback": "arguments",
    "CommitFailed": "errors",
    "Consumer": "consumer.consumer",
    "ConsumerInterceptor": "interceptors",
    "ConsumerMetrics": "metrics",
    "Delivery": "producer.delivery",
    "DeliveryTimeout": "errors",
    "EmptyReason": "status",
    "GroupOffset": "admin.groups",
    "Lag": "admin.groups",
    "MetricsHook": "metrics",
    "NoOffset": "errors",
    "OffsetLike": "arguments",
    "OffsetMove": "admin.groups",
    "OffsetsLike": "arguments",
    "Outgoing": "interceptors",
    "PartitionStatus": "status",
    "PartitionerFunction": "producer.routing",
    "PatternLike": "consumer.subscription",
    "Peek": "ranges.range_reader",
    "Producer": "producer.producer",
    "ProducerInterceptor": "interceptors",
    "ProducerMetrics": "metrics",
    "RangeReader": "ranges.range_reader",
    "ReadState": "status",
    "RebalanceListener": "rebalance",
    "RecordMetadata": "producer.delivery",
    "ResetPlan": "admin.groups",
    "ResetTo": "admin.groups",
    "RowsLike": "producer.accumulator",
    "SubscriptionPattern": "consumer.subscription",
    "Timing": "metrics",
    "TopicsLike": "consumer.subscription",
    "Transaction": "producer.producer",
    "TransactionAborted": "errors",
    "WakeUp": "errors",
    "offsets_from_csv": "admin.groups",
    "offsets_to_csv": "admin.groups",
    "read": "ranges.reading",
    "scan": "ranges.reading",
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
