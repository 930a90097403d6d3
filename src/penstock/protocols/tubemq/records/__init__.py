"""TubeMQ's messages to columns and back; and one by one, where there is only one."""

from penstock.protocols.tubemq.records.answer import MessageSet as MessageSet
from penstock.protocols.tubemq.records.answer import read_messages as read_messages
from penstock.protocols.tubemq.records.decode import Decoded as Decoded
from penstock.protocols.tubemq.records.decode import decode as decode
from penstock.protocols.tubemq.records.encode import Payloads as Payloads
from penstock.protocols.tubemq.records.encode import encode as encode
from penstock.protocols.tubemq.records.encode import write_messages as write_messages
from penstock.protocols.tubemq.records.single import Unpacked as Unpacked
from penstock.protocols.tubemq.records.single import checksum as checksum
from penstock.protocols.tubemq.records.single import pack as pack
from penstock.protocols.tubemq.records.single import unpack as unpack

__all__ = [
    "Decoded",
    "MessageSet",
    "Payloads",
    "Unpacked",
    "checksum",
    "decode",
    "encode",
    "pack",
    "read_messages",
    "unpack",
    "write_messages",
]
