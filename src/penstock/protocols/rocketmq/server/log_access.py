"""Reading messages from the log and writing them to it.

``Reader`` serves pulls and keeps partly read batches open. ``Writing`` appends records. `send_single` is a fast path
for the most frequent request, a send of one plain message; `quick_batch` and `sent_answer` are its two halves.
"""

from __future__ import annotations

import logging
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.concurrency.background import BackgroundWorker
from penstock.concurrency.runtime import Runtime
from penstock.errors import PenstockError
from penstock.interfaces.enode import Appended, Batch, Enode, Extent, FetchPart, TopicState, extent, fetch_one
from penstock.interfaces.framing import Buffer
from penstock.model import Codec, Partition
from penstock.protocols.rocketmq.config import DEAD_LETTER, RETRY, UNWRITABLE
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.kernels.interface import KIND_OF, Kind
from penstock.protocols.rocketmq.server.call import Shared
from penstock.protocols.rocketmq.server.cluster import Cluster
from penstock.protocols.rocketmq.server.filters import Wanted
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, Written
from penstock.protocols.rocketmq.wire.log_records import MessageEncoder, dated, is_hidden
from penstock.protocols.rocketmq.wire.message_format import Host
from penstock.protocols.rocketmq.wire.messages import Sent
from penstock.protocols.rocketmq.wire.properties import BORN_HOST, CLOSE_MS, FLAG, NOT_KEPT
from penstock.protocols.rocketmq.wire.rpc import answer
from penstock.records.batch import batches
from penstock.records.scalar_codec import (
    MAX_INFLATED_BYTES,
    Stored,
    encode_batch,
    encode_one,
    header_name,
    stored_records,
)
from penstock.records.scalar_writer import varint
from penstock.records.validation import ValidatedBatch, recompressed, target_of

__all__ = ["SINGLE", "Limits", "Piece", "Reader", "Writing", "quick_batch", "send_single", "sent_answer"]

_PIECE_BYTES: Final = 256 << 10
_MOST_OPEN: Final = 256
_MOST_OPEN_BYTES: Final = 32 << 20
_RATIO: Final = 32
"""The ratio up to which a compressed batch is expected to inflate: text rarely shrinks below a thirtieth."""


class Limits(NamedTuple):
    """Limits of one response. A message larger than ``size`` goes alone; ``examined`` counts filtered ones, too."""

    messages: int
    size: int
    examined: int


class Piece(Struct):
    """The result of a pull: concatenated messages, the next pull's offset, and the queue's offsets.

    ``end`` is where the first open transaction begins, if there is one: later records are not visible. ``log_end`` is
    the end of the log itself.
    """

    messages: list[bytes]
    next_offset: int
    start: int
    end: int
    log_end: int


class _Open(NamedTuple):
    records: Iterator[Stored]
    next_offset: int
    size: int


class Reader:
    """One per front. Open pieces are bounded, in number and bytes."""

    def __init__(self, enode: Enode, beside: BackgroundWorker) -> None:
        self._enode = enode
        self._beside = beside
        self._open: OrderedDict[tuple[bytes, int, int], _Open] = OrderedDict()
        self._open_bytes = 0

    async def read(
        self,
        topic: TopicState,
        partition: Partition,
        offset: int,
        dress: MessageEncoder,
        wanted: Wanted | None,
        limits: Limits,
    ) -> Piece:
        """Read from ``offset`` on. Raises LogOffsetOutOfRange, StoreError, CorruptBatch."""
        opened = self._take(topic, partition, offset)
        if opened is None:
            found = await fetch_one(self._enode, FetchPart(partition, offset, _PIECE_BYTES, stable=True))
            where = Extent(found.start, found.end, found.stable, found.epoch)
            if not len(found.data):
                return _nothing(max(offset, found.next_offset) if found.next_offset <= found.stable else offset, where)
            opened = await self._opened(found.read(), found.aborted, offset, found.next_offset)
        else:
            where = await extent(self._enode, partition)
        return self._taken(topic, partition, opened, offset, where, dress, wanted, limits)

    def _taken(
        self,
        topic: TopicState,
        partition: Partition,
        opened: _Open,
        offset: int,
        where: Extent,
        dress: MessageEncoder,
        wanted: Wanted | None,
        limits: Limits,
    ) -> Piece:
        piece = _nothing(offset, where)
        size = 0
        for examined, record in enumerate(opened.records, 1):
            message = dress.stored(record) if wanted is None or wanted(record) else None
            if message is not None and piece.messages and size + len(message) > limits.size:
                self._put(
                    topic, partition, piece.next_offset, opened._replace(records=chain((record,), opened.records))
                )
                return piece
            piece.next_offset = record.offset + 1
            if message is not None:
                piece.messages.append(message)
                size += len(message)
            if len(piece.messages) >= limits.messages or examined >= limits.examined:
                self._put(topic, partition, piece.next_offset, opened)
                return piece
        piece.next_offset = opened.next_offset
        return piece

    async def _opened(self, data: Buffer, aborted: object, offset: int, next_offset: int) -> _Open:
        records = partial(stored_records, data, offset, aborted)  # type: ignore[arg-type]
        packed = sum(header.length for header in batches(data) if header.codec is not Codec.NONE)
        if not packed:
            return _Open(records(), next_offset, len(data))
        every = await self._beside.run(lambda: list(records()), min(MAX_INFLATED_BYTES, _RATIO * packed))
        return _Open(iter(every), next_offset, sum(sys.getsizeof(record.value) for record in every))

    # Open pieces.

    def _take(self, topic: TopicState, partition: Partition, offset: int) -> _Open | None:
        opened = self._open.pop((topic.id, partition.id, offset), None)
        if opened is not None:
            self._open_bytes -= opened.size
        return opened

    def _put(self, topic: TopicState, partition: Partition, offset: int, opened: _Open) -> None:
        self._take(topic, partition, offset)
        self._open[topic.id, partition.id, offset] = opened
        self._open_bytes += opened.size
        while self._open and (len(self._open) > _MOST_OPEN or self._open_bytes > _MOST_OPEN_BYTES):
            _, oldest = self._open.popitem(last=False)
            self._open_bytes -= oldest.size


def _nothing(offset: int, where: Extent) -> Piece:
    return Piece([], offset, where.start, where.stable, where.end)


# Writing records: what a producer sends now, and parked messages whose time has come.
_QUICK_RECORDS: Final = 2_000

_log = logging.getLogger("penstock.node")


class Writing:
    """Appends records to the log; one per front."""

    def __init__(self, enode: Enode, runtime: Runtime, cluster: Cluster) -> None:
        self._enode = enode
        self._runtime = runtime
        self._cluster = cluster

    async def append(self, topic: TopicState, partition: Partition, records: list[Stored]) -> Appended:
        """Write records as one batch, compressed as the topic's settings want. Raises Refused, StoreError."""
        # The node has encoded this batch itself, so its header needs no check.
        if len(records) <= _QUICK_RECORDS:
            batch = ValidatedBatch(encode_batch(records))
        else:
            batch = await self._runtime.in_thread(lambda: ValidatedBatch(encode_batch(records)))
        if topic.config:
            if "compact" in topic.config.get("cleanup.policy", "") and any(record.key is None for record in records):
                raise Refused(Code.MESSAGE_ILLEGAL, f"topic[{topic.name}] is compacted, its messages need keys")
            target = target_of(topic.config)
            if target is not None and not target.meets(batch.data):
                plain = batch.data
                batch = await self._runtime.in_thread(lambda: ValidatedBatch(recompressed(plain, target, len(plain))))
        return await self.write(partition, batch)

    async def write(self, partition: Partition, batch: Batch) -> Appended:
        """Write a batch as it is. Raises StoreError."""
        (result,) = await self._enode.append_all(((partition, batch),))
        if isinstance(result, PenstockError):
            raise result
        return result

    async def deliver(self, name: str, queue: int, record: Stored) -> None:
        """Write a parked record. If its topic is gone by now, the record is dropped with a warning."""
        if name.startswith((RETRY, DEAD_LETTER)) or name in UNWRITABLE:
            topic: TopicState | None = await self._cluster.ensure(name, 1)
        else:
            topic = await self._cluster.topic(name)
        if topic is None:
            _log.warning("a message that waited for topic %s is dropped: there is no such topic any more", name)
            return
        partition = Partition(topic.name, queue % topic.partitions)
        try:
            await self.append(topic, partition, [dated(record, self._runtime.now_ms())])
        except Refused as error:
            _log.warning("a message that waited for topic %s is dropped: %s", name, error)


# The response to a send of one message, by far the most frequent one: the same bytes as `rpc.answer` writes.
#
# Its fixed part is cut out of a response that `rpc.answer` wrote.
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


def sent_answer(asked: RemotingCommand, host: Host, place: int, queue: int, offset: int) -> bytes | None:
    """The framed response; None if the request needs another form."""
    if asked.compact:
        return None
    unique = b"%b%016X" % (_place_of(host), place)
    header = _FORM % (unique, queue, offset, asked.opaque)
    return _HEAD.pack(4 + len(header), len(header)) + header


# The batch of one plain message, built without intermediate objects: properties become headers one by one.
#
# Anything unusual (properties that stand for others, a birth time of their own, names that are not text) is left to
# `wire/log_records.record_of`, which writes the same bytes.
_KEPT: Final = 4_096
"""How many names are cached. In practice there are about thirty, unless a client makes names up."""
_LONGEST_NAME: Final = 64
_FLAG: Final = header_name(FLAG)
_BORN_HOST: Final = header_name(BORN_HOST)
_KEY: Final = b"KEYS"
_LEFT_OUT: Final = b""

_names: Final[dict[bytes, bytes | None]] = {}
"""The encoded start of each name's header; empty for a name that is not kept, None for an unusual one."""


def quick_batch(
    properties: bytes, body: bytes, born_ms: int, flag: int, now_ms: int, born_host: str = ""
) -> ValidatedBatch | None:
    """The batch that `wire/log_records.record_of` and `encode_batch` would make; None if they have to make it."""
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
    if len(name) > _LONGEST_NAME or len(_names) >= _KEPT:
        return None
    begin: bytes | None = None
    if KIND_OF.get(name) != Kind.CODED and name.isascii():
        text = name.decode()
        begin = _LEFT_OUT if text in NOT_KEPT else header_name(text)
    _names[name] = begin
    return begin


# A send of one plain message, by far the most frequent request: the checks and the response of `send_requests`.
#
# Anything unusual (delays, transactions, compression, a topic with options, a refusal) is left to `send_requests`,
# which alone words the errors. Source: Apache RocketMQ 4.9 and 5.x, ``SendMessageRequestHeaderV2``.
SINGLE: Final = 310

_MOST_BODY: Final = 64 << 10
_MOST_PROPERTIES: Final = 8_000
_DELAY: Final = "DELAY"
_TIMER: Final = "TIMER_DEL"
_MOST_INT32: Final = 0x7FFFFFFF
_MOST_DIGITS: Final = 18


async def send_single(shared: Shared, asked: RemotingCommand, born_host: str) -> bytes | None:
    """The framed response, or None for a request that `send_requests.send` has to serve. Raises StoreError."""
    fields, body = asked.fields, asked.body
    if isinstance(fields, Written):
        fields = fields.read()
    name, properties = fields.get("b", ""), fields.get("i", "")
    queue, born, flag = fields.get("e", ""), fields.get("g", ""), fields.get("h", "0")
    if asked.compact or fields.get("f") != "0" or fields.get("j", "0") != "0" or fields.get("m", "false") != "false":
        return None
    if not (_is_number(queue) and _is_number(born) and _is_number(flag)) or int(flag) > _MOST_INT32 or born == "0":
        return None
    if "a" not in fields or "%" in name or name in UNWRITABLE or is_hidden(name):
        return None
    if len(properties) > _MOST_PROPERTIES or _DELAY in properties or _TIMER in properties:
        return None
    if len(body) > _MOST_BODY or len(body) > shared.options.max_message_bytes:
        return None
    topic = await shared.enode.topic(name)
    if topic is None or topic.config or int(queue) >= topic.partitions or shared.settings.is_set(topic):
        return None
    number = int(queue)
    # Look the place up before the message is stored: an error after that would make the client send it again.
    place = await shared.places.base(topic, number)
    batch = quick_batch(properties.encode(), bytes(body), int(born), int(flag), shared.now_ms, born_host)
    if batch is None:
        return None
    offset = (await shared.writing.write(Partition(name, number), batch)).base_offset
    return sent_answer(asked, shared.cluster.host, place | offset, number, offset)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
