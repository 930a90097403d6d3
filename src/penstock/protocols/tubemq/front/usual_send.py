"""Send message, the request that a node has most of, as nearly all clients write it: its envelope, known by its bytes.

The message within it is read by its declaration, as any other. A request in any other form is read by
`penstock.protocols.tubemq.rpc`, and all are served in the same way. What must not live here: how.
Source: TubeMQ 2.x, ``RPC.proto``; protobuf encoding guide.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.messages.broker import SendMessageRequestP2B
from penstock.protocols.tubemq.messages.codec import decode

__all__ = ["Sent", "read_send"]

_LENGTH: Final = rb"([\x80-\xff]{0,3}[\x00-\x7f])"
_ENVELOPE: Final = re.compile(
    rb"\x02\x08\x00"  # the connection's header: a request
    rb"\x04\x08\x03\x10([\x00-\x7f])"  # the request's: to the broker's writing service, in this version
    + _LENGTH
    + rb"\x08\x0d\x10[\x80-\xff]{0,4}[\x00-\x7f]"  # the method, and the caller's patience
    rb"\x1a" + _LENGTH
).match
"""Groups: version, how many bytes the body has, and the method's message in it."""


class Sent(NamedTuple):
    """``version`` of the protocol, as the client says it."""

    version: int
    message: SendMessageRequestP2B


def read_send(body: memoryview) -> Sent | None:
    """A send message in the usual form; None for any other request, and for what cannot be read."""
    found = _ENVELOPE(body)
    if found is None:
        return None
    version, size, own_size = found.groups()
    end = found.end() + _number(own_size)
    if end != found.end(2) + _number(size) or end > len(body):
        return None
    try:
        return Sent(version[0], decode(SendMessageRequestP2B, body[found.end() : end]))
    except ProtocolViolation:
        return None


def _number(written: bytes) -> int:
    if len(written) == 1:
        return written[0]
    value = 0
    for byte in reversed(written):
        value = value << 7 | byte & 127
    return value
