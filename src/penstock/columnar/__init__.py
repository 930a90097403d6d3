"""Records as Arrow columns: batches in and out, compression, schemas, and `Messages`, the view users get.

Names are loaded when they are first asked for (PEP 562): who only looks at batch headers does without pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.columnar.batch import BatchHeader as BatchHeader
    from penstock.columnar.builder import BatchBuilder as BatchBuilder
    from penstock.columnar.builder import HeadersLike as HeadersLike
    from penstock.columnar.decode import Decoded as Decoded
    from penstock.columnar.decode import decode_v2 as decode_v2
    from penstock.columnar.encode import encode_v2 as encode_v2
    from penstock.columnar.messages import Messages as Messages
    from penstock.columnar.messages import Part as Part
    from penstock.columnar.payloads import Deserializer as Deserializer
    from penstock.columnar.payloads import Serializer as Serializer
    from penstock.columnar.payloads import from_json as from_json
    from penstock.columnar.payloads import from_utf8 as from_utf8
    from penstock.columnar.payloads import to_json as to_json
    from penstock.columnar.payloads import to_utf8 as to_utf8
    from penstock.columnar.producing import Producing as Producing

_HOME_OF: Final = {
    "Deserializer": "penstock.columnar.payloads",
    "Serializer": "penstock.columnar.payloads",
    "from_json": "penstock.columnar.payloads",
    "from_utf8": "penstock.columnar.payloads",
    "to_json": "penstock.columnar.payloads",
    "to_utf8": "penstock.columnar.payloads",
    "BatchBuilder": "penstock.columnar.builder",
    "BatchHeader": "penstock.columnar.batch",
    "Decoded": "penstock.columnar.decode",
    "HeadersLike": "penstock.columnar.builder",
    "Messages": "penstock.columnar.messages",
    "Part": "penstock.columnar.messages",
    "Producing": "penstock.columnar.producing",
    "decode_v2": "penstock.columnar.decode",
    "encode_v2": "penstock.columnar.encode",
}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
