"""The two ids of a message: where it is stored, and who made it and when; and Java's hash, by which tags are compared.

Source: Apache RocketMQ 4.9 and 5.x, ``MessageDecoder.createMessageId``, ``MessageClientIDSetter``; Java Language,
``String.hashCode``. No clock and no dice here: both are handed in.
"""

from __future__ import annotations

import ipaddress
import struct
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

from penstock.errors import ProtocolViolation

__all__ = ["Host", "UniqueIds", "java_hash", "offset_id", "parse_offset_id"]

_PLACE: Final = struct.Struct(">iq")
_WHO: Final = struct.Struct(">Hi")
_WHEN: Final = struct.Struct(">iH")
_MOST_PORT: Final = 0xFFFF


class Host(NamedTuple):
    """An address of 4 or 16 bytes, and a port."""

    address: bytes
    port: int

    @classmethod
    def of(cls, text: str, port: int) -> Host:
        """From an address as people write it. Raises ValueError."""
        return cls(ipaddress.ip_address(text).packed, port)

    @classmethod
    def read(cls, text: str) -> Host | None:
        """From what `str` makes of one; None for what is none."""
        host, _, port = text.rpartition(":")
        try:
            return cls.of(host.strip("[]"), int(port)) if 0 <= int(port) <= _MOST_PORT else None
        except ValueError:
            return None

    @property
    def packed(self) -> bytes:
        """As it stands in a stored message."""
        return self.address + self.port.to_bytes(4, "big", signed=True)

    def __str__(self) -> str:
        address = str(ipaddress.ip_address(self.address))
        return f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"


def offset_id(host: Host, physical_offset: int) -> str:
    """Return the id that says at which broker, and where in its commit log, a message is.

    >>> offset_id(Host.of("127.0.0.1", 20911), 0)
    '7F000001000051AF0000000000000000'
    """
    return (host.address + _PLACE.pack(host.port, physical_offset)).hex().upper()


def parse_offset_id(text: str) -> tuple[Host, int]:
    """Return (broker, place in its commit log). Raises ProtocolViolation for what is no such id."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in {16, 28} or len(text) != 2 * len(data):
        raise ProtocolViolation(f"{text[:100]!r} is no id of a stored message: 32 or 56 hexadecimal digits")
    port, physical = _PLACE.unpack(data[-_PLACE.size :])
    return Host(data[: -_PLACE.size], port), physical


class UniqueIds:
    """Makes the ids that producers give their messages: different in all processes of a month.

    ``address`` has 4 or 16 bytes, ``process`` is the process's number, ``salt`` any number of 32 bits that another
    producer of the process will not have. The month is the one in which this was made, in ``zone``.
    """

    def __init__(self, address: bytes, process: int, salt: int, now_ms: int, zone: tzinfo = UTC) -> None:
        self._who = (address + _WHO.pack(process & 0xFFFF, (salt & 0x7FFFFFFF))).hex().upper()
        begun = datetime.fromtimestamp(now_ms / 1000, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        self._begun_ms = int(begun.timestamp() * 1000)
        self._count = -1

    def next(self, now_ms: int) -> str:
        """Return another id."""
        self._count = (self._count + 1) & 0xFFFF
        since = (now_ms - self._begun_ms) & 0x7FFFFFFF
        return self._who + _WHEN.pack(since, self._count).hex().upper()


def java_hash(text: str) -> int:
    """``String.hashCode``, signed: what brokers compare tags by.

    >>> java_hash("TagA"), java_hash("中文")
    (2598919, 646394)
    """
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found
