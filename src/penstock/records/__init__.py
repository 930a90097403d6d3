"""Records as Arrow columns: encoding and decoding batches, compression, schemas, and `Messages`, which users get.

Names are imported on first use (PEP 562), so that code that only reads batch headers never loads pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.records.batch import BatchHeader as BatchHeader
    from penstock.records.batch import Producing as Producing
    from penstock.records.decoding import Decoded as Decoded
    from penstock.records.decoding import decode_v2 as decode_v2
    from penstock.records.encoding import BatchBuilder as BatchBuilder
    from penstock.records.encoding import HeadersLike as HeadersLike
    from penstock.records.encoding import encode_v2 as encode_v2
    from penstock.records.messages import Deserializer as Deserializer
    from penstock.records.messages import Messages as Messages
    from penstock.records.messages import Part as Part
    from penstock.records.messages import Serializer as Serializer
    from penstock.records.messages import from_json as from_json
    from penstock.records.messages import from_utf8 as from_utf8
    from penstock.records.messages import to_json as to_json
    from penstock.records.messages import to_utf8 as to_utf8

_HOME_OF: Final = {
    "BatchBuilder": "penstock.records.encoding",
    "BatchHeader": "penstock.records.batch",
    "Decoded": "penstock.records.decoding",
    "Deserializer": "penstock.records.messages",
    "HeadersLike": "penstock.records.encoding",
    "Messages": "penstock.records.messages",
    "Part": "penstock.records.messages",
    "Producing": "penstock.records.batch",
    "Serializer": "penstock.records.messages",
    "decode_v2": "penstock.records.decoding",
    "encode_v2": "penstock.records.encoding",
    "from_json": "penstock.records.messages",
    "from_utf8": "penstock.records.messages",
    "to_json": "penstock.records.messages",
    "to_utf8": "penstock.records.messages",
}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
