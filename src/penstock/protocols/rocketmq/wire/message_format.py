"""The bytes of messages: as brokers store them, as a send carries them, and several in one body.

`StoredMessage` is a stored message, `Inner` one of a batch, `Prepared` one to be sent. `offset_id`, `parse_offset_id`
and `UniqueIds` are message ids; `compressed` and `inflated` are compression.
"""

from __future__ import annotations

import enum
import ipaddress
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import CorruptBatch, ProtocolViolation, UsageError
from penstock.model import Codec
from penstock.protocols.rocketmq.kernels.interface import (
    LEAST_BYTES,
    MAGIC_1,
    MAGIC_2,
    STORED_COLUMNS,
    Stored,
    StoredFault,
)
from penstock.protocols.rocketmq.wire.properties import (
    MAX_PROPERTIES_BYTES,
    Headers,
    format_properties,
    parse_properties,
    write_record,
)
from penstock.records.batch import BytesLike, as_array, as_view
from penstock.records.compression import compress, inflate

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.records.arrow import Binary

__all__ = [
    "COMPRESSED",
    "COMPRESS_FROM_BYTES",
    "IN_BATCH",
    "MAX_BODY_BYTES",
    "WORDS",
    "Compression",
    "Frame",
    "Host",
    "Inner",
    "Prepared",
    "StoredMessage",
    "SysFlag",
    "UniqueIds",
    "checksum",
    "compressed",
    "count_of",
    "frames_of",
    "inflated",
    "is_inner_batch",
    "java_hash",
    "offset_id",
    "parse_offset_id",
    "prepare",
    "prepare_all",
    "raw_body",
    "read_batch",
    "read_stored",
    "unwrapped",
    "write_batch",
    "write_stored",
]

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
        """From an address in text form. Raises ValueError."""
        return cls(ipaddress.ip_address(text).packed, port)

    @classmethod
    def read(cls, text: str) -> Host | None:
        """From the text that `str` makes of a host; None for anything else."""
        host, _, port = text.rpartition(":")
        try:
            return cls.of(host.strip("[]"), int(port)) if 0 <= int(port) <= _MOST_PORT else None
        except ValueError:
            return None

    @property
    def packed(self) -> bytes:
        """The bytes in a stored message."""
        return self.address + self.port.to_bytes(4, "big", signed=True)

    def __str__(self) -> str:
        address = str(ipaddress.ip_address(self.address))
        return f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"


def offset_id(host: Host, physical_offset: int) -> str:
    """Return the id of a stored message: its broker and its place in the broker's commit log.

    >>> offset_id(Host.of("127.0.0.1", 20911), 0)
    '7F000001000051AF0000000000000000'
    """
    return (host.address + _PLACE.pack(host.port, physical_offset)).hex().upper()


def parse_offset_id(text: str) -> tuple[Host, int]:
    """Return (broker, place in its commit log). Raises ProtocolViolation for any other text."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in {16, 28} or len(text) != 2 * len(data):
        raise ProtocolViolation(f"{text[:100]!r} is no id of a stored message: 32 or 56 hexadecimal digits")
    port, physical = _PLACE.unpack(data[-_PLACE.size :])
    return Host(data[: -_PLACE.size], port), physical


class UniqueIds:
    """Makes the unique ids that producers give to messages; they differ between all processes within a month.

    ``address`` has 4 or 16 bytes, ``process`` is the process id, ``salt`` a number of 32 bits that no other producer in
    the process has. The month is the one, in ``zone``, in which this object was made.
    """

    def __init__(self, address: bytes, process: int, salt: int, now_ms: int, zone: tzinfo = UTC) -> None:
        self._who = (address + _WHO.pack(process & 0xFFFF, (salt & 0x7FFFFFFF))).hex().upper()
        begun = datetime.fromtimestamp(now_ms / 1000, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        self._begun_ms = int(begun.timestamp() * 1000)
        self._count = -1

    def next(self, now_ms: int) -> str:
        """Return a new id."""
        self._count = (self._count + 1) & 0xFFFF
        since = (now_ms - self._begun_ms) & 0x7FFFFFFF
        return self._who + _WHEN.pack(since, self._count).hex().upper()


def java_hash(text: str) -> int:
    """``String.hashCode``, signed; brokers compare tags by it.

    >>> java_hash("TagA"), java_hash("中文")
    (2598919, 646394)
    """
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


# Compressed bodies: zlib streams, LZ4 frames or Zstandard frames, as bits of ``sys_flag`` say. The inflated size is
# limited. Source: Apache RocketMQ 5.x, ``CompressionType``, ``MessageSysFlag``; 4.x up to 4.9.3 knows zlib only.
COMPRESSED: Final = 0x1
MAX_BODY_BYTES: Final = 64 << 20
"""The limit of an inflated body: brokers accept 4 MiB compressed, and zlib's best ratio on real text is below 16."""

_KIND: Final = 0x700
_LEVEL: Final = 5


class Compression(enum.IntEnum):
    """Bits 8 to 10 of ``sys_flag``; older producers set none of them and mean zlib."""

    UNSAID = 0
    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


_CODECS: Final = {Compression.LZ4: Codec.LZ4, Compression.ZSTD: Codec.ZSTD}


def compressed(body: bytes | memoryview, kind: Compression = Compression.ZLIB) -> tuple[bytes | memoryview, int]:
    """Return (the compressed body, its bits of ``sys_flag``)."""
    if kind in _CODECS:
        return compress(_CODECS[kind], body), COMPRESSED | kind
    return zlib.compress(body, _LEVEL), COMPRESSED | kind


def inflated(body: bytes | memoryview, sys_flag: int, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the body that was sent; an uncompressed one unchanged. Raises CorruptBatch."""
    if not sys_flag & COMPRESSED:
        return bytes(body)
    kind = sys_flag & _KIND
    if kind in {Compression.UNSAID, Compression.ZLIB}:
        return _unzipped(body, max_bytes)
    if kind in _CODECS:
        return bytes(inflate(_CODECS[Compression(kind)], body, max_bytes))
    raise CorruptBatch(f"a body is compressed in a way ({kind:#x}) that does not exist")


def _unzipped(body: bytes | memoryview, max_bytes: int) -> bytes:
    if max_bytes < 1:
        raise CorruptBatch("bodies inflate to more bytes than are allowed")
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, max_bytes)
        if stream.unconsumed_tail or stream.decompress(b"", 1):
            raise CorruptBatch(f"a body inflates to more than {max_bytes} bytes")
    except zlib.error as error:
        raise CorruptBatch(f"a body is no zlib stream: {error}") from None
    if not stream.eof:
        raise CorruptBatch(f"a zlib stream of {len(body)} bytes is cut off")
    return plain


# A single stored message: the form in which brokers store it and send it to clients. Source: Apache RocketMQ 4.9 and
# 5.x, ``CommitLog``, ``MessageDecoder``.
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
"""Plain ints: enumeration members take longer than all the rest of writing a message."""


class StoredMessage(Struct, frozen=True, kw_only=True):
    """``body`` and ``properties`` in their stored form: compressed if ``sys_flag`` says so, and not parsed."""

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
        """The properties by name."""
        return parse_properties(self.properties.decode(errors="replace"))

    @property
    def plain_body(self) -> bytes:
        """The body that was sent. Raises CorruptBatch."""
        return inflated(self.body, self.sys_flag)

    @property
    def offset_id(self) -> str:
        """The id by broker and place."""
        return offset_id(self.store_host, self.physical_offset)


def checksum(body: bytes | memoryview) -> int:
    """Return a stored body's checksum: CRC-32 (IEEE 802.3) without its highest bit."""
    return zlib.crc32(body) & 0x7FFFFFFF


def read_stored(data: BytesLike, *, check_crcs: bool = True) -> Iterator[StoredMessage]:
    """Yield concatenated messages. Raises ProtocolViolation for bad structure, CorruptBatch for a bad checksum."""
    from penstock.protocols.rocketmq.kernels.interface import rocket_kernel

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
    """Return a message in its stored form; a long topic uses the second version. Raises UsageError.

    The bits for the kinds of hosts are set by the hosts.
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


# Positions of single messages in response bodies, for decoding around a damaged one.
_FRAME_HEAD: Final = struct.Struct(">iI12xq")
"""Size, magic, offset in the queue."""


class Frame(Struct, frozen=True):
    """A message. If it is not ``whole``, its size is invalid, and ``body`` extends to the end of the response."""

    offset: int
    body: memoryview
    whole: bool


def frames_of(bodies: Sequence[BytesLike], start: int) -> Iterator[Frame]:
    """Yield the messages of some responses. A message without a readable offset gets the one after its predecessor's,
    or ``start``."""
    following = start
    for body in bodies:
        view, at = as_view(body), 0
        while at < len(view):
            size, magic, offset = (
                _FRAME_HEAD.unpack_from(view, at) if len(view) - at >= _FRAME_HEAD.size else (0, 0, -1)
            )
            whole = LEAST_BYTES <= size <= len(view) - at and magic in {MAGIC_1, MAGIC_2}
            end = at + size if whole else len(view)
            offset = offset if whole else following
            yield Frame(offset, view[at:end], whole)
            at, following = end, max(following, offset + 1)


def raw_body(frame: Frame) -> bytes:
    """The stored body, or all bytes of a message with bad structure."""
    try:
        return next(read_stored(frame.body, check_crcs=False)).body
    except ProtocolViolation:
        return bytes(frame.body)


# Several messages in the body of one request (320), and in the body of one stored message (5.x). Source: Apache
# RocketMQ 4.9 and 5.x, ``MessageDecoder.encodeMessage``, ``decodeMessages``; ``MessageExtBrokerInner``.
_INNER_HEAD: Final = struct.Struct(">iiiii")
_SIZE: Final = struct.Struct(">h")
_LEAST: Final = _INNER_HEAD.size + _SIZE.size
_LAST_OFFSET: Final = (1 << 63) - 1

IN_BATCH: Final = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)


class Inner(NamedTuple):
    """One message of a batch: the user's flag, its body and its unparsed properties."""

    flag: int
    body: bytes
    properties: bytes


def write_batch(messages: Iterable[Inner]) -> bytes:
    """Return the body of a batch. Checksums stay 0; the broker fills them in. Raises UsageError."""
    written = bytearray()
    for flag, body, properties in messages:
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise UsageError(f"properties of {len(properties)} bytes; {MAX_PROPERTIES_BYTES} are allowed")
        written += _INNER_HEAD.pack(_LEAST + len(body) + len(properties), 0, 0, flag, len(body))
        written += body
        written += _SIZE.pack(len(properties))
        written += properties
    return bytes(written)


def read_batch(data: bytes | memoryview) -> Iterator[Inner]:
    """Yield the messages of a batch's body. Raises ProtocolViolation."""
    at = 0
    while at < len(data):
        left = len(data) - at
        size, _, _, flag, body_size = _INNER_HEAD.unpack_from(data, at) if left >= _LEAST else (0, 0, 0, 0, 0)
        if not _LEAST <= size <= left or not 0 <= body_size <= size - _LEAST:
            raise ProtocolViolation(f"a message of a batch, at byte {at} of {len(data)}, goes beyond it")
        body = at + _INNER_HEAD.size
        (properties_size,) = _SIZE.unpack_from(data, body + body_size)
        if properties_size != size - _LEAST - body_size:
            raise ProtocolViolation(f"a message of a batch, at byte {at} of {len(data)}, is not as long as its parts")
        properties = body + body_size + _SIZE.size
        yield Inner(flag, bytes(data[body : body + body_size]), bytes(data[properties : properties + properties_size]))
        at += size


def count_of(data: bytes | memoryview, most: int) -> int:
    """How many messages a batch's body seems to have, judged by their sizes; counts up to ``most``."""
    count = at = 0
    while count < most and len(data) - at >= _LEAST:
        at += max(_LEAST, int.from_bytes(data[at : at + 4], "big"))
        count += 1
    return count


def is_inner_batch(sys_flag: int) -> bool:
    """Whether a stored message contains a batch."""
    return sys_flag & IN_BATCH == IN_BATCH


def unwrapped(message: StoredMessage) -> Iterator[StoredMessage]:
    """Yield the messages of a stored batch; their offsets count up from its own.

    Raises CorruptBatch for a body that cannot be inflated, ProtocolViolation for one that is not a batch.
    """
    sys_flag = message.sys_flag & ~(IN_BATCH | SysFlag.COMPRESSED | SysFlag.COMPRESSION)
    for number, inner in enumerate(read_batch(message.plain_body)):
        if message.queue_offset + number > _LAST_OFFSET:
            raise ProtocolViolation(f"a batch of messages goes beyond the last offset, {_LAST_OFFSET}")
        yield replace(
            message, queue_offset=message.queue_offset + number, sys_flag=sys_flag, flag=inner.flag, body=inner.body,
            properties=inner.properties,
        )  # fmt: skip


# Records to messages for a send, which go alone or several in one request.
COMPRESS_FROM_BYTES: Final = 4096
"""The default of Java's producer (``compressMsgBodyOverHowmuch``)."""

_NO_BODY: Final = b"\0"
"""The body of a null or empty value: brokers of 5.x refuse an empty body."""


class Prepared(Struct, frozen=True):
    """One message, ready to be sent; ``unique_id`` is its producer's id, ``born_ms`` its record's time."""

    body: bytes | memoryview
    properties: str
    sys_flag: int
    born_ms: int
    unique_id: str

    @property
    def inner(self) -> Inner:
        """The message as part of a batch, in which no body is compressed."""
        return Inner(0, bytes(self.body), self.properties.encode())


def prepare(
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
    *,
    unique_id: str,
    born_ms: int,
    wait: bool = True,
    compression: Compression | None = None,
    compress_from: int = COMPRESS_FROM_BYTES,
) -> Prepared:
    """Return a record as a message. ``wait``: the broker responds once the message is stored safely. Raises UsageError.

    Bodies from ``compress_from`` bytes on are compressed, if there is a ``compression`` and it makes them smaller.
    """
    properties = [*write_record(key, value, headers), ("UNIQ_KEY", unique_id), ("WAIT", "true" if wait else "false")]
    body: bytes | memoryview = value or _NO_BODY
    sys_flag = 0
    if compression is not None and len(body) >= compress_from:
        packed, bits = compressed(body, compression)
        if len(packed) < len(body):
            body, sys_flag = packed, bits
    return Prepared(body, format_properties(properties), sys_flag, born_ms, unique_id)


def prepare_all(
    rows: pa.RecordBatch,
    next_id: Callable[[], str],
    *,
    now_ms: int,
    wait: bool = True,
    compression: Compression | None = None,
    compress_from: int = COMPRESS_FROM_BYTES,
) -> list[Prepared]:
    """Return each row as a message: columns key, value[, timestamp, headers] as for `penstock.records.encoding`.

    Rows without a timestamp get ``now_ms``. Raises UsageError.
    """
    from penstock.records.arrow import binary_input, column_of, headers_input, timestamps_of

    count = rows.num_rows
    keys, values = (_parts(binary_input(column_of(rows, name), count, name)) for name in ("key", "value"))
    ends, names, texts = headers_input(column_of(rows, "headers"))
    times = timestamps_of(column_of(rows, "timestamp"), count, now_ms).tolist()
    pairs = list(zip(_parts(names), _parts(texts), strict=True)) if len(ends) else []
    stops = (ends - ends[0]).tolist() if len(ends) else [0] * (count + 1)
    made = []
    for row, (key, value, born) in enumerate(zip(keys, values, times, strict=True)):
        headers = [((name or b"").decode(), text) for name, text in pairs[stops[row] : stops[row + 1]]]
        made.append(
            prepare(
                key,
                value,
                headers,
                unique_id=next_id(),
                born_ms=born,
                wait=wait,
                compression=compression,
                compress_from=compress_from,
            )
        )
    return made


def _parts(column: Binary) -> Iterator[bytes | None]:
    """Yield each row of a column."""
    view, ends = column.data.data, column.ends.tolist()
    valid = column.valid.tolist() or [1] * (len(ends) - 1)
    for begin, end, there in zip(ends[:-1], ends[1:], valid, strict=True):
        yield bytes(view[begin:end]) if there else None
