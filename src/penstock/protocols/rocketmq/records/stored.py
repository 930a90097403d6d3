"""One stored message at a time: as brokers keep it, and send it to who pulls, views or decides on a transaction.

Source: Apache RocketMQ 4.9 and 5.x, ``CommitLog``, ``MessageDecoder``. What must not live here: columns (``decoding``).
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from penstock._dataclasses import dataclass
from penstock.columnar.buffers import BytesLike, as_array, as_view
from penstock.errors import CorruptBatch, ProtocolViolation, UsageError
from penstock.protocols.rocketmq.kernels.interface import (
    LEAST_BYTES,
    MAGIC_1,
    MAGIC_2,
    STORED_COLUMNS,
    Stored,
    StoredFault,
)
from penstock.protocols.rocketmq.records.compression import inflated
from penstock.protocols.rocketmq.records.ids import Host, offset_id
from penstock.protocols.rocketmq.records.properties import MAX_PROPERTIES_BYTES, parse_properties

__all__ = ["WORDS", "StoredMessage", "SysFlag", "checksum", "read_stored", "write_stored"]

FIXED: Final = struct.Struct(">iIiiiqqiq")
AFTER_HOSTS: Final = struct.Struct(">iqi")
_HERE: Final = Host(b"\x7f\0\0\1", 0)

WORDS: Final = {
    StoredFault.SIZE: "a message's size is not what follows",
    StoredFault.MAGIC: "a message begins with no magic number of RocketMQ's",
    StoredFault.BODY_LENGTH: "a body goes beyond its message",
    StoredFault.TOPIC_LENGTH: "a topic goes beyond its message",
    StoredFault.PROPERTIES_LENGTH: "properties go beyond their message",
    StoredFault.END: "a message is longer than its parts",
}


class SysFlag(enum.IntFlag):
    """Bits of a message's ``sys_flag``. TRANSACTION has two bits: 0 none, PREPARED, COMMITTED, both: rolled back."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    PREPARED = 0x4
    COMMITTED = 0x8
    TRANSACTION = 0xC
    BORN_HOST_IPV6 = 0x10
    STORE_HOST_IPV6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION = 0x700


_BORN_IPV6: Final = int(SysFlag.BORN_HOST_IPV6)
_STORE_IPV6: Final = int(SysFlag.STORE_HOST_IPV6)
"""Plain numbers: flags take longer than all the rest of writing a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """``body`` and ``properties`` as they are stored: compressed if ``sys_flag`` says so, the string undivided."""

    topic: str
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: Host = _HERE
    store_ms: int = 0
    store_host: Host = _HERE
    reconsume_times: int = 0
    prepared_offset: int = 0
    body: bytes = b""
    properties: bytes = b""

    @property
    def property_map(self) -> dict[str, str]:
        """The properties by their names."""
        return parse_properties(self.properties.decode(errors="replace"))

    @property
    def plain_body(self) -> bytes:
        """The body as it was sent. Raises CorruptBatch."""
        return inflated(self.body, self.sys_flag)

    @property
    def offset_id(self) -> str:
        """The id that says where the message is stored."""
        return offset_id(self.store_host, self.physical_offset)


def checksum(body: bytes | memoryview) -> int:
    """Return a stored body's checksum: CRC-32 (IEEE 802.3) without its highest bit."""
    return zlib.crc32(body) & 0x7FFFFFFF


def read_stored(data: BytesLike, *, check_crcs: bool = True) -> Iterator[StoredMessage]:
    """Yield messages that follow each other. Raises ProtocolViolation by structure, CorruptBatch by checksum."""
    from penstock.protocols.rocketmq.kernels import rocket_kernel

    source, view = as_array(data), as_view(data)
    table = np.empty((1, STORED_COLUMNS), np.int64)
    at = 0
    while at < len(view):
        rows, after, fault = rocket_kernel(len(view) - at).scan_messages(source, at, len(view), table)
        if not rows:
            raise ProtocolViolation(f"{WORDS[StoredFault(fault)]}, at byte {after} of {len(view)}")
        one = table[0].tolist()
        at = after
        message = _message(view, one)
        if check_crcs and checksum(message.body) != one[Stored.CRC]:
            raise CorruptBatch(
                "a message's checksum is not its body's", topic=message.topic, partition=message.queue_id,
                offset=message.queue_offset,
            )  # fmt: skip
        yield message


def _message(view: memoryview, one: list[int]) -> StoredMessage:
    def part(at: Stored) -> bytes:
        return bytes(view[one[at] : one[at] + one[at + 1]])

    sys_flag = one[Stored.SYS_FLAG]
    return StoredMessage(
        topic=part(Stored.TOPIC_AT).decode(errors="replace"),
        queue_id=one[Stored.QUEUE_ID],
        queue_offset=one[Stored.QUEUE_OFFSET],
        physical_offset=one[Stored.PHYSICAL_OFFSET],
        flag=one[Stored.FLAG],
        sys_flag=sys_flag,
        born_ms=one[Stored.BORN_MS],
        born_host=_host(view, one[Stored.BORN_HOST_AT], sys_flag & SysFlag.BORN_HOST_IPV6),
        store_ms=one[Stored.STORE_MS],
        store_host=_host(view, one[Stored.STORE_HOST_AT], sys_flag & SysFlag.STORE_HOST_IPV6),
        reconsume_times=one[Stored.RECONSUME_TIMES],
        prepared_offset=one[Stored.PREPARED_OFFSET],
        body=part(Stored.BODY_AT),
        properties=part(Stored.PROPERTIES_AT),
    )


def _host(view: memoryview, at: int, ipv6: int) -> Host:
    size = 16 if ipv6 else 4
    return Host(bytes(view[at : at + size]), int.from_bytes(view[at + size : at + size + 4], "big", signed=True))


def write_stored(message: StoredMessage) -> bytes:
    """Return a message as brokers store it; long topics in the second version. Raises UsageError.

    The bits that tell the hosts' kinds are set as the hosts are.
    """
    topic = message.topic.encode()
    if len(message.properties) > MAX_PROPERTIES_BYTES or len(topic) > MAX_PROPERTIES_BYTES:
        raise UsageError(
            f"a topic of {len(topic)} bytes and properties of {len(message.properties)}; "
            f"{MAX_PROPERTIES_BYTES} are allowed for each"
        )
    hosts = message.born_host.packed, message.store_host.packed
    sys_flag = message.sys_flag & ~(_BORN_IPV6 | _STORE_IPV6)
    sys_flag |= _BORN_IPV6 if len(hosts[0]) > 8 else 0
    sys_flag |= _STORE_IPV6 if len(hosts[1]) > 8 else 0
    long = len(topic) > 127
    size = LEAST_BYTES + len(hosts[0]) + len(hosts[1]) - 16 + long
    size += len(message.body) + len(topic) + len(message.properties)
    fixed = FIXED.pack(
        size, MAGIC_2 if long else MAGIC_1, checksum(message.body), message.queue_id, message.flag,
        message.queue_offset, message.physical_offset, sys_flag, message.born_ms,
    )  # fmt: skip
    after = AFTER_HOSTS.pack(message.reconsume_times, message.prepared_offset, len(message.body))
    return b"".join((
        fixed, hosts[0], message.store_ms.to_bytes(8, "big", signed=True), hosts[1], after, message.body,
        len(topic).to_bytes(1 + long, "big"), topic, len(message.properties).to_bytes(2, "big"), message.properties,
    ))  # fmt: skip
