"""Several messages in the body of one request (320), and 5.x's in the body of one stored message.

Source: Apache RocketMQ 4.9 and 5.x, ``MessageDecoder.encodeMessage``, ``decodeMessages``; ``MessageExtBrokerInner``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.rocketmq.records.properties import MAX_PROPERTIES_BYTES
from penstock.protocols.rocketmq.records.stored import StoredMessage, SysFlag

__all__ = ["IN_BATCH", "Inner", "count_of", "is_inner_batch", "read_batch", "unwrapped", "write_batch"]

_HEAD: Final = struct.Struct(">iiiii")
_SIZE: Final = struct.Struct(">h")
_LEAST: Final = _HEAD.size + _SIZE.size
_LAST_OFFSET: Final = (1 << 63) - 1

IN_BATCH: Final = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


class Inner(NamedTuple):
    """One message of a batch: the user's flag, its body and its properties, undivided."""

    flag: int
    body: bytes
    properties: bytes


def write_batch(messages: Iterable[Inner]) -> bytes:
    """Return the body of a batch; checksums are the broker's to write. Raises UsageError."""
    written = bytearray()
    for flag, body, properties in messages:
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise UsageError(f"properties of {len(properties)} bytes; {MAX_PROPERTIES_BYTES} are allowed")
        written += _HEAD.pack(_LEAST + len(body) + len(properties), 0, 0, flag, len(body))
        written += body
        written += _SIZE.pack(len(properties))
        written += properties
    return bytes(written)


def read_batch(data: bytes | memoryview) -> Iterator[Inner]:
    """Yield the messages of a batch's body. Raises ProtocolViolation."""
    at = 0
    while at < len(data):
        left = len(data) - at
        size, _, _, flag, body_size = _HEAD.unpack_from(data, at) if left >= _LEAST else (0, 0, 0, 0, 0)
        if not _LEAST <= size <= left or not 0 <= body_size <= size - _LEAST:
            raise ProtocolViolation(f"a message of a batch, at byte {at} of {len(data)}, goes beyond it")
        body = at + _HEAD.size
        (properties_size,) = _SIZE.unpack_from(data, body + body_size)
        if properties_size != size - _LEAST - body_size:
            raise ProtocolViolation(f"a message of a batch, at byte {at} of {len(data)}, is not as long as its parts")
        properties = body + body_size + _SIZE.size
        yield Inner(flag, bytes(data[body : body + body_size]), bytes(data[properties : properties + properties_size]))
        at += size


def count_of(data: bytes | memoryview, most: int) -> int:
    """How many messages a batch's body seems to have, by their sizes; not more than ``most`` are counted."""
    count = at = 0
    while count < most and len(data) - at >= _LEAST:
        at += max(_LEAST, int.from_bytes(data[at : at + 4], "big"))
        count += 1
    return count


def is_inner_batch(sys_flag: int) -> bool:
    """Whether a stored message is a batch in itself."""
    return sys_flag & IN_BATCH == IN_BATCH


def unwrapped(message: StoredMessage) -> Iterator[StoredMessage]:
    """Yield the messages of a stored batch, at the offsets that follow from its own.

    Raises CorruptBatch for a body that cannot be inflated, ProtocolViolation for one that is no batch.
    """
    sys_flag = message.sys_flag & ~(IN_BATCH | SysFlag.COMPRESSED | SysFlag.COMPRESSION)
    for number, inner in enumerate(read_batch(message.plain_body)):
        if message.queue_offset + number > _LAST_OFFSET:
            raise ProtocolViolation(f"a batch of messages goes beyond the last offset, {_LAST_OFFSET}")
        yield replace(
            message, queue_offset=message.queue_offset + number, sys_flag=sys_flag, flag=inner.flag, body=inner.body,
            properties=inner.properties,
        )  # fmt: skip
