"""Heartbeat of a member to whom nothing is new, which is most of what a node with many groups is asked.

Who is told something else is answered by `membership`. Source: Kafka protocol, Heartbeat v0-v4.
"""

from __future__ import annotations

import functools
from typing import Final

from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.front.apis.quick import framed, read_head, text, text_or_none, unchanging
from penstock.protocols.kafka.front.call import Line, Shared
from penstock.protocols.kafka.messages.groups import HeartbeatResponse
from penstock.seams.framing import Pieces
from penstock.wire import Reader

__all__ = ["heartbeat"]

_FLEXIBLE: Final = 4
_LAST: Final = 4
_INSTANCE_SINCE: Final = 3


async def heartbeat(shared: Shared, line: Line, body: memoryview) -> Pieces | None:
    """The answer, or None for one that `membership.heartbeat` has to give; that it is asked twice then does no harm."""
    try:
        reader = Reader(body)
        head = read_head(reader, _FLEXIBLE)
        if head is None or not 0 <= head.version <= _LAST:
            return None
        compact = head.version >= _FLEXIBLE
        group, generation, member = text(reader, compact), reader.i32(), text(reader, compact)
        instance = text_or_none(reader, compact) if head.version >= _INSTANCE_SINCE else None
    except ProtocolViolation:
        return None
    if shared.groups.heartbeat(group, member, instance, generation):
        return None
    return (framed(_calm(head.version), head.correlation),)


@functools.cache
def _calm(version: int) -> bytes:
    return unchanging(HeartbeatResponse(), version)
