"""TubeMQ's messages to columns and back; and one by one, where there is only one.

Names are loaded when they are first asked for (PEP 562): who takes messages one by one does without NumPy and pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.protocols.tubemq.records.answer import MessageSet as MessageSet
    from penstock.protocols.tubemq.records.answer import part_of as part_of
    from penstock.protocols.tubemq.records.answer import places as places
    from penstock.protocols.tubemq.records.answer import read_messages as read_messages
    from penstock.protocols.tubemq.records.decoding import Decoded as Decoded
    from penstock.protocols.tubemq.records.decoding import decode as decode
    from penstock.protocols.tubemq.records.encoding import Payloads as Payloads
    from penstock.protocols.tubemq.records.encoding import encode as encode
    from penstock.protocols.tubemq.records.encoding import encode_in_zone as encode_in_zone
    from penstock.protocols.tubemq.records.encoding import write_messages as write_messages
    from penstock.protocols.tubemq.records.handful import FewPayloads as FewPayloads
    from penstock.protocols.tubemq.records.handful import encode_few as encode_few
    from penstock.protocols.tubemq.records.single import Unpacked as Unpacked
    from penstock.protocols.tubemq.records.single import checksum as checksum
    from penstock.protocols.tubemq.records.single import pack as pack
    from penstock.protocols.tubemq.records.single import unpack as unpack

_HOME: Final = "penstock.protocols.tubemq.records"
_MODULE_OF: Final = {
    "Decoded": "decoding",
    "FewPayloads": "handful",
    "MessageSet": "answer",
    "Payloads": "encoding",
    "Unpacked": "single",
    "checksum": "single",
    "decode": "decoding",
    "encode": "encoding",
    "encode_few": "handful",
    "encode_in_zone": "encoding",
    "pack": "single",
    "part_of": "answer",
    "places": "answer",
    "read_messages": "answer",
    "unpack": "single",
    "write_messages": "encoding",
}

__all__ = [
    "Decoded",
    "FewPayloads",
    "MessageSet",
    "Payloads",
    "Unpacked",
    "checksum",
    "decode",
    "encode",
    "encode_few",
    "encode_in_zone",
    "pack",
    "part_of",
    "places",
    "read_messages",
    "unpack",
    "write_messages",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{_HOME}.{module}"), name)
    globals()[name] = value
    return value
