"""Send message, the request that a node has most of, as nearly all clients write it: its envelope, known by its bytes.

The message within it is read by its declaration, as any other. A request in any other form is read by
`penstock.protocols.tubemq.rpc`, and all are served in the same way. What must not live here: how.
Source: TubeMQ 2.x, ``RPC.proto``; protobuf encoding guide.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.messages.broker import SendMessageRequestP2B
from penstock.protocols.tubemq.messages.codec import decode

__all__ = ["read_send"]

_LENGTH: Final = rb"([\x80-\xff]{0,3}[\x00-\x7f])"
_ENVELOPE: Final = re.compile(
    rb"\x02\x08\x00"  # the connection's header: a request
    rb"\x04\x08\x03\x10([\x00-\x7f])"  # the request's: to the broker's writing service, in this version
    + _LENGTH
    + rb"\x08\x0d\x10[\x80-\xff]{0,4}[\x00-\x7f]"  # the method, and the caller's patience
    rb"\x1a" + _LENGTH
).match
"""Groups: version, how many bytes the body has, and the method's message in it."""


def read_send(body: memoryview) -> tuple[int, SendMessageRequestP2B] | None:
    """(version of the protocol, message) of a send in the usual form; None for what is not, or cannot be read."""
    found = _ENVELOPE(body)
    if found is None:
        return None
    version, size, own_size = found.groups()
    begin = found.end()
    end = begin + _number(own_size)
    if end != found.end(2) + _number(size) or end > len(body):
        return None
    try:
        return version[0], decode(SendMessageRequestP2B, body[begin:end])
    except ProtocolViolation:
        return None


@functools.lru_cache(1_024)
def _number(written: bytes) -> int:
    """A length: one client's messages mostly have few of them."""
    value = 0
    for byte in reversed(written):
        value = value << 7 | byte & 127
    return value
