"""The answer to a send of one message, the most frequent answer of all: as `rpc.answer` writes it, and no more.

What is fixed in it is taken from an answer that was written the long way.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.messages import Sent
from penstock.protocols.rocketmq.records.ids import Host
from penstock.protocols.rocketmq.rpc import answer

__all__ = ["sent"]

_HEAD: Final = struct.Struct(">II")
_SHOWN_ID: Final = "@"
_SHOWN: Final = (0x5A5A5A5A, 0x5A5A5A5B, 0x5A5A5A5C)


def _form() -> bytes:
    """The header of an answer, to be filled with id, queue, offset and number."""
    queue, offset, opaque = _SHOWN
    shown = answer(RemotingCommand(0, opaque), Sent(msg_id=_SHOWN_ID, queue_id=queue, queue_offset=offset))
    header = b"".join(shown)[_HEAD.size :].replace(b"%", b"%%").replace(_SHOWN_ID.encode(), b"%b")
    for number in _SHOWN:
        header = header.replace(b"%d" % number, b"%d")
    return header


_FORM: Final = _form()


@lru_cache(16)
def _place_of(host: Host) -> bytes:
    return b"%b%08X" % (host.address.hex().upper().encode(), host.port)


def sent(asked: RemotingCommand, host: Host, place: int, queue: int, offset: int) -> bytes | None:
    """The framed answer; None where it has another form."""
    if asked.compact:
        return None
    unique = b"%b%016X" % (_place_of(host), place)
    header = _FORM % (unique, queue, offset, asked.opaque)
    return _HEAD.pack(4 + len(header), len(header)) + header
