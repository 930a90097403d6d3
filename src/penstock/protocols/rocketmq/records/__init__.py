"""Stored messages to columns and back; and one by one, where there is only one.

Names are loaded when they are first asked for (PEP 562): who takes messages one by one does without pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.records.batches import IN_BATCH as IN_BATCH
    from penstock.protocols.rocketmq.records.batches import Inner as Inner
    from penstock.protocols.rocketmq.records.batches import is_inner_batch as is_inner_batch
    from penstock.protocols.rocketmq.records.batches import read_batch as read_batch
    from penstock.protocols.rocketmq.records.batches import unwrapped as unwrapped
    from penstock.protocols.rocketmq.records.batches import write_batch as write_batch
    from penstock.protocols.rocketmq.records.columns import COLUMNS as COLUMNS
    from penstock.protocols.rocketmq.records.compression import Compression as Compression
    from penstock.protocols.rocketmq.records.compression import compressed as compressed
    from penstock.protocols.rocketmq.records.compression import inflated as inflated
    from penstock.protocols.rocketmq.records.decoding import Decoded as Decoded
    from penstock.protocols.rocketmq.records.decoding import decode as decode
    from penstock.protocols.rocketmq.records.encoding import Prepared as Prepared
    from penstock.protocols.rocketmq.records.encoding import prepare as prepare
    from penstock.protocols.rocketmq.records.encoding import prepare_all as prepare_all
    from penstock.protocols.rocketmq.records.ids import Host as Host
    from penstock.protocols.rocketmq.records.ids import UniqueIds as UniqueIds
    from penstock.protocols.rocketmq.records.ids import java_hash as java_hash
    from penstock.protocols.rocketmq.records.ids import offset_id as offset_id
    from penstock.protocols.rocketmq.records.ids import parse_offset_id as parse_offset_id
    from penstock.protocols.rocketmq.records.properties import Said as Said
    from penstock.protocols.rocketmq.records.properties import format_properties as format_properties
    from penstock.protocols.rocketmq.records.properties import parse_properties as parse_properties
    from penstock.protocols.rocketmq.records.properties import read_record as read_record
    from penstock.protocols.rocketmq.records.properties import write_record as write_record
    from penstock.protocols.rocketmq.records.stored import StoredMessage as StoredMessage
    from penstock.protocols.rocketmq.records.stored import SysFlag as SysFlag
    from penstock.protocols.rocketmq.records.stored import checksum as checksum
    from penstock.protocols.rocketmq.records.stored import read_stored as read_stored
    from penstock.protocols.rocketmq.records.stored import write_stored as write_stored

_HOME: Final = "penstock.protocols.rocketmq.records"
_MODULE_OF: Final = {
    "COLUMNS": "columns",
    "Compression": "compression",
    "Decoded": "decoding",
    "Host": "ids",
    "IN_BATCH": "batches",
    "Inner": "batches",
    "Prepared": "encoding",
    "Said": "properties",
    "StoredMessage": "stored",
    "SysFlag": "stored",
    "UniqueIds": "ids",
    "checksum": "stored",
    "compressed": "compression",
    "decode": "decoding",
    "format_properties": "properties",
    "inflated": "compression",
    "is_inner_batch": "batches",
    "java_hash": "ids",
    "offset_id": "ids",
    "parse_offset_id": "ids",
    "parse_properties": "properties",
    "prepare": "encoding",
    "prepare_all": "encoding",
    "read_batch": "batches",
    "read_record": "properties",
    "read_stored": "stored",
    "unwrapped": "batches",
    "write_batch": "batches",
    "write_record": "properties",
    "write_stored": "stored",
}

__all__ = [
    "COLUMNS",
    "IN_BATCH",
    "Compression",
    "Decoded",
    "Host",
    "Inner",
    "Prepared",
    "Said",
    "StoredMessage",
    "SysFlag",
    "UniqueIds",
    "checksum",
    "compressed",
    "decode",
    "format_properties",
    "inflated",
    "is_inner_batch",
    "java_hash",
    "offset_id",
    "parse_offset_id",
    "parse_properties",
    "prepare",
    "prepare_all",
    "read_batch",
    "read_record",
    "read_stored",
    "unwrapped",
    "write_batch",
    "write_record",
    "write_stored",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{_HOME}.{module}"), name)
    globals()[name] = value
    return value
