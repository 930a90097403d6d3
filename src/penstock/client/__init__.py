"""Clients of a log: consumers, producers, range readers and admins, for asyncio and for plain synchronous code."""

from penstock.client._lag import Lag as Lag
from penstock.client.admin import Admin as Admin
from penstock.client.async_admin import AsyncAdmin as AsyncAdmin
from penstock.client.async_consumer import AsyncConsumer as AsyncConsumer
from penstock.client.async_producer import AsyncProducer as AsyncProducer
from penstock.client.consumer import Consumer as Consumer
from penstock.client.delivery import BatchDelivery as BatchDelivery
from penstock.client.delivery import Delivery as Delivery
from penstock.client.delivery import RecordMetadata as RecordMetadata
from penstock.client.errors import BufferFull as BufferFull
from penstock.client.errors import DeliveryTimeout as DeliveryTimeout
from penstock.client.errors import NoOffset as NoOffset
from penstock.client.producer import Producer as Producer
from penstock.client.range_reader import RangeReader as RangeReader
from penstock.client.rebalance import RebalanceListener as RebalanceListener

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "BatchDelivery",
    "BufferFull",
    "Consumer",
    "Delivery",
    "DeliveryTimeout",
    "Lag",
    "NoOffset",
    "Producer",
    "RangeReader",
    "RebalanceListener",
    "RecordMetadata",
]
