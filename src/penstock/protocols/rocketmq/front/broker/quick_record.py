"""The batch of one plain message, without an object between: properties go on as headers, piece by piece.

What is in any way unusual (properties that stand for others, a time of their own, names that are no text) is left to
`messages.record_of`, which writes the same bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from penstock.columnar.checked import Checked
from penstock.columnar.few import varint
from penstock.columnar.one import encode_one, header_name
from penstock.protocols.rocketmq.kernels.interface import KIND_OF, Kind
from penstock.protocols.rocketmq.records.beside import BORN_HOST, CLOSE_MS, FLAG, NOT_KEPT

__all__ = ["quick_batch"]

_KEPT: Final = 4_096
"""Names that are remembered; there are some thirty, unless somebody makes them up."""
_LONGEST: Final = 64
_FLAG: Final = header_name(FLAG)
_BORN_HOST: Final = header_name(BORN_HOST)
_KEY: Final = b"KEYS"
_LEFT_OUT: Final = b""

_names: Final[dict[bytes, bytes | None]] = {}
"""How a header of that name begins; empty for one that is not kept, None for one that is not usual."""


def quick_batch(
    properties: bytes, body: bytes, born_ms: int, flag: int, now_ms: int, born_host: str = ""
) -> Checked | None:
    """The batch that `messages.record_of` and `encode_batch` make of a message; None: they have to."""
    if not -CLOSE_MS <= born_ms - now_ms <= CLOSE_MS:
        return None
    key: bytes | None = None
    headers: list[bytes] = []
    for entry in properties.split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if not name or not value:
            continue
        begin = _names[name] if name in _names else _begin_of(name)
        if begin is None:
            return None
        if begin:
            headers.append(b"%b%b%b" % (begin, varint(len(value)), value))
        elif name == _KEY:
            key = value
    if flag:
        value = b"%d" % flag
        headers.append(b"%b%b%b" % (_FLAG, varint(len(value)), value))
    if born_host:
        headers.append(_host_header(born_host))
    return encode_one(key, body, headers, born_ms)


@lru_cache(4_096)
def _host_header(born_host: str) -> bytes:
    value = born_host.encode()
    return b"%b%b%b" % (_BORN_HOST, varint(len(value)), value)


def _begin_of(name: bytes) -> bytes | None:
    if len(name) > _LONGEST or len(_names) >= _KEPT:
        return None
    begin: bytes | None = None
    if KIND_OF.get(name) != Kind.CODED and name.isascii():
        text = name.decode()
        begin = _LEFT_OUT if text in NOT_KEPT else header_name(text)
    _names[name] = begin
    return begin
