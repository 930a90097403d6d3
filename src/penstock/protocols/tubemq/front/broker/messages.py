"""A message as TubeMQ sends it, and as the log keeps it."""

from __future__ import annotations

import zlib

from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.front.broker.batches import Stored
from penstock.protocols.tubemq.messages.broker import TransferedMessage

__all__ = ["key_code", "key_code_of", "message_of", "record_of"]

_FILTER = "$msgType$"
_TIME = "$msgTime$"
_WITH_ATTRIBUTE = 1
_MASK = 0xFFFFFFFF


def key_code(item: str) -> int:
    """Java's hash code of a filter item, by which brokers compare."""
    hashed = 0
    for at, byte in enumerate(item.encode("utf-16-be", "surrogatepass")):
        hashed = (hashed * 31 + (byte << 8)) & _MASK if at % 2 == 0 else (hashed + byte) & _MASK
    return hashed


def key_code_of(record: Stored) -> int | None:
    for name, value in record.headers:
        if name == _FILTER and value:
            return key_code(value.decode("utf-8", "replace").strip())
    return None


def record_of(data: bytes, flag: int, msg_type: str, msg_time: str, now_ms: int) -> Stored:
    headers: list[tuple[str, bytes | None]] = []
    body = data
    if flag & _WITH_ATTRIBUTE:
        size = int.from_bytes(data[:4], "big", signed=True)
        if len(data) < 4 or not 0 <= size <= len(data) - 4:
            raise ProtocolViolation(f"an attribute of {size} bytes in a message of {len(data)}")
        body = data[4 + size :]
        for part in data[4 : 4 + size].decode("utf-8", "replace").split(","):
            name, equals, value = part.partition("=")
            if equals:
                headers.append((name.strip(), value.strip().encode()))
    return Stored(0, now_ms, None, body, tuple(headers))


def message_of(record: Stored) -> TransferedMessage:
    attribute = ",".join(f"{name}={(value or b'').decode('utf-8', 'replace')}" for name, value in record.headers)
    encoded = attribute.encode()
    data = record.value or b""
    if encoded:
        data = len(encoded).to_bytes(4, "big") + encoded + data
    return TransferedMessage(
        message_id=record.offset,
        check_sum=zlib.crc32(data) & 0x7FFFFFFF,
        pay_load_data=data,
        flag=_WITH_ATTRIBUTE if encoded else 0,
    )
