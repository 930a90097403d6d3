"""Message logs (TubeMQ, RocketMQ, Kafka) as Arrow columns.

Names are loaded when they are first asked for (PEP 562): ``import penstock`` itself reads this file and nothing else,
so that a command line, a Spark worker or a test that needs one of them does not pay for the others.
What must not live here: code. A name that is public is a row of the table.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock._version import __version__ as __version__

if TYPE_CHECKING:
    from penstock.client import Admin as Admin
    from penstock.client import AsyncAdmin as AsyncAdmin
    from penstock.client import AsyncConsumer as AsyncConsumer
    from penstock.client import AsyncProducer as AsyncProducer
    from penstock.client import Consumer as Consumer
    from penstock.client import Producer as Producer
    from penstock.client import RangeReader as RangeReader
    from penstock.client import RebalanceListener as RebalanceListener
    from penstock.columnar import Messages as Messages
    from penstock.errors import Closed as Closed
    from penstock.errors import ConfigError as ConfigError
    from penstock.errors import ConnectionLost as ConnectionLost
    from penstock.errors import CorruptBatch as CorruptBatch
    from penstock.errors import FencedError as FencedError
    from penstock.errors import LocalError as LocalError
    from penstock.errors import OffsetOutOfRange as OffsetOutOfRange
    from penstock.errors import PenstockError as PenstockError
    from penstock.errors import ProtocolViolation as ProtocolViolation
    from penstock.errors import RemoteError as RemoteError
    from penstock.errors import RequestTimeout as RequestTimeout
    from penstock.errors import ServerError as ServerError
    from penstock.errors import StoreError as StoreError
    from penstock.errors import UsageError as UsageError
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
    from penstock.model import PreparedTransaction as PreparedTransaction
    from penstock.model import Record as Record
    from penstock.model import TimestampType as TimestampType
    from penstock.model import TopicInfo as TopicInfo

_HOME_OF = {
    name: home
    for home, names in {
        "penstock.client": (
            "Admin AsyncAdmin AsyncConsumer AsyncProducer Consumer Producer RangeReader RebalanceListener"
        ),
        "penstock.columnar": "Messages",
        "penstock.errors": (
            "Closed ConfigError ConnectionLost CorruptBatch FencedError LocalError OffsetOutOfRange PenstockError "
            "ProtocolViolation RemoteError RequestTimeout ServerError StoreError UsageError"
        ),
        "penstock.model": (
            "Assignment Codec Committed Endpoint GroupMetadata LogRange Node Offset OffsetSpec Partition PartitionInfo "
            "PreparedTransaction Record TimestampType TopicInfo"
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
