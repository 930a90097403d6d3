"""The mapping between RocketMQ's topics and messages and a log's topics and records.

The server and the backend share it, so that a record of any protocol comes back as it was. `record_of` and
`MessageEncoder` convert single messages, `lumps` and `cut` whole batches, `log_name` and `rocket_name` topics.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from penstock.errors import BatchTooLarge, CorruptBatch, Unsupported, UsageError
from penstock.interfaces.framing import Buffer
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.kernels.interface import KIND_OF, LEAST_BYTES, MAGIC_1, Kind
from penstock.protocols.rocketmq.wire.message_format import (
    AFTER_HOSTS,
    FIXED,
    Host,
    Inner,
    StoredMessage,
    write_batch,
    write_stored,
)
from penstock.protocols.rocketmq.wire.properties import (
    BORN,
    BORN_HOST,
    CLOSE_MS,
    FLAG,
    MAX_PROPERTIES_BYTES,
    NOT_KEPT,
    NUMBERS,
    PREPARED,
    RECONSUMED,
    SYS_FLAG,
    TIMESTAMP,
    format_properties,
    read_record,
    sent_ms,
    write_record,
)
from penstock.records.batch import batches
from penstock.records.scalar_codec import Stored, stored_records

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.kernels.interface import Int64s

__all__ = [
    "Cut",
    "Form",
    "Lump",
    "MessageEncoder",
    "born_host_of",
    "cut",
    "dated",
    "form_of",
    "is_hidden",
    "log_name",
    "lumps",
    "messages_of",
    "number_of",
    "parted",
    "properties_of",
    "quick_stored",
    "read_host",
    "record_of",
    "rocket_name",
]

# A fast path for most records; the result equals that of `MessageEncoder.message`.
#
# As long as all values are plain text, the form of a message's properties depends only on the names of the record's
# headers. So the properties are written once the general way with markers for values, and the form is cached and filled
# in from then on. Anything unusual yields None and takes the general way.
_MARK: Final = "!{}!"
_LONGEST_NAMES: Final = 1_000
_MOST_FORMS: Final = 1_024
_CRC_MASK: Final = 0x7FFFFFFF
_SHORT_HOST: Final = 8
_LONGEST_TOPIC: Final = 127
_APART: Final = NUMBERS | {BORN_HOST}
_HOSTS: Final = 4_096
_LONGEST_HOST: Final = 64


class Form(NamedTuple):
    """A template of properties: ``text`` has holes for what ``pick`` takes out of the key and the values.

    ``entries`` is the number of properties.
    """

    text: bytes
    pick: Callable[[Sequence[Any]], Any]
    entries: int


Properties = Callable[[Stored, str], str]
"""The general way: a record's properties in a cluster of this name."""


@functools.lru_cache(_MOST_FORMS)
def form_of(names: tuple[str, ...], keyed: bool, cluster: str, properties: Properties) -> Form | None:
    """The form of records with these headers; None if each has to take the general way."""
    if sum(map(len, names)) > _LONGEST_NAMES or not _APART.isdisjoint(names):
        return None
    marks = [_MARK.format(at) for at in range(len(names) + 1)]
    headers = tuple((name, mark.encode()) for name, mark in zip(names, marks[1:], strict=True))
    shown = properties(Stored(0, 0, True, marks[0].encode() if keyed else None, b".", headers), cluster)
    entries = [entry.partition("\x01") for entry in shown.split("\x02")]
    if any(mark in name for name, _, _ in entries for mark in marks):
        return None
    places = [marks.index(value) for _, _, value in entries if value in marks]
    if any(value not in marks and (name, value) != ("CLUSTER", cluster) for name, _, value in entries):
        return None  # a value was coded, so other values may be written in another way
    text = "\x02".join(
        f"{name}\x01".replace("%", "%%") + ("%b" if value in marks else value.replace("%", "%%"))
        for name, _, value in entries
    )
    return Form(text.encode(), _picking(places), len(entries))


@functools.lru_cache(_HOSTS)
def read_host(text: bytes) -> Host | None:
    """The address in a record's header; None for an invalid one, since any producer may write such a header."""
    return Host.read(text.decode(errors="replace")) if len(text) <= _LONGEST_HOST else None


def _picking(places: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    if len(places) == 1:
        return lambda values: (values[places[0]],)
    return itemgetter(*places) if places else lambda values: ()


def quick_stored(
    record: Stored, topic: bytes, queue: int, place: int, host: bytes, cluster: str, properties: Properties
) -> bytes | None:
    """The message; None if it has to take the general way. ``place`` is the message's own."""
    body = record.value
    born = record.timestamp_ms
    if not body or len(topic) > _LONGEST_TOPIC or len(host) != _SHORT_HOST or born < 0:
        return None
    headers, born_host = record.headers, host
    if headers and headers[-1][0] == BORN_HOST and headers[-1][1]:
        said = read_host(headers[-1][1])
        if said is not None:
            born_host = said.packed
        headers = headers[:-1]
        if len(born_host) != _SHORT_HOST:
            return None
    form = form_of(tuple([name for name, _ in headers]), record.key is not None, cluster, properties)
    if form is None:
        return None
    values = form.pick((record.key, *[value for _, value in headers]))
    if None in values or b"" in values:
        return None
    text = form.text % values
    if (
        not text.isascii()
        or text.count(b"\x01") != form.entries
        or text.count(b"\x02") != form.entries - 1
        or len(text) > MAX_PROPERTIES_BYTES
    ):
        return None
    size = LEAST_BYTES + len(body) + len(topic) + len(text)
    fixed = FIXED.pack(
        size, MAGIC_1, crc32(body) & _CRC_MASK, queue, 0, record.offset, place, 0, born,
    )  # fmt: skip
    return b"".join((
        fixed, born_host, born.to_bytes(8, "big"), host, AFTER_HOSTS.pack(0, 0, len(body)), body,
        len(topic).to_bytes(1, "big"), topic, len(text).to_bytes(2, "big"), text,
    ))  # fmt: skip


_OWN_PROPERTIES: Final = frozenset(
    name.decode() for name, kind in KIND_OF.items() if kind is Kind.OWN and name.decode() not in NOT_KEPT
)
_FROM_USERS: Final = frozenset({"DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"})
_NO_BODY: Final = b"\0"
_TIMED: Final = TIMESTAMP.encode()
_PLACE_MASK: Final = (1 << 63) - 1


def record_of(
    body: bytes,
    properties: bytes,
    born_ms: int,
    now_ms: int,
    *,
    flag: int = 0,
    reconsumed: int = 0,
    born_host: str = "",
    more: dict[str, int] | None = None,
) -> Stored:
    """The record of a message, whose ``body`` is not compressed; ``more`` are further headers with numbers.

    Its time is the one that the application set (`TIMESTAMP`), otherwise the time of birth if `dated` accepts it.
    """
    said = read_record(properties, body, every=True)
    headers = [pair for pair in said.headers if pair[0] not in NOT_KEPT]
    if flag:
        headers.append((FLAG, b"%d" % flag))
    if reconsumed:
        headers.append((RECONSUMED, b"%d" % reconsumed))
    if born_host:
        headers.append((BORN_HOST, born_host.encode()))
    if more:
        headers += [(name, b"%d" % value) for name, value in more.items()]
    sent = sent_ms(properties) if _TIMED in properties else None
    record = Stored(0, born_ms if sent is None else sent, True, said.key, said.value, tuple(headers))
    return dated(record, now_ms) if sent is None else record


def dated(record: Stored, now_ms: int) -> Stored:
    """The record stored at ``now_ms``: a timestamp far from that (`CLOSE_MS`) is replaced and kept as a header."""
    if -CLOSE_MS <= record.timestamp_ms - now_ms <= CLOSE_MS:
        return record
    headers = record.headers
    if not any(name == BORN for name, _ in headers):  # a redelivered record already has its birth there
        headers = (*headers, (BORN, b"%d" % record.timestamp_ms))
    return record._replace(timestamp_ms=now_ms, headers=headers)


def number_of(record: Stored, name: str) -> int:
    """The number in a header; 0 if there is none."""
    for each, value in record.headers:
        if each == name and value is not None and len(value) < 20 and value.removeprefix(b"-").isdigit():
            return int(value)
    return 0


def born_host_of(record: Stored) -> Host | None:
    """The address of the message's producer; None if the log does not have it, as for other protocols' records."""
    found = None
    for name, value in record.headers:
        if name == BORN_HOST and value is not None:
            found = read_host(value)
    return found


class MessageEncoder:
    """Encodes the messages of one queue; ``place`` is the place of the queue's first offset."""

    __slots__ = ("_cluster", "_host", "_packed", "_place", "_queue", "_topic")

    def __init__(self, topic: str, queue: int, place: int, host: Host, cluster: str) -> None:
        self._topic = topic
        self._queue = queue
        self._place = place
        self._host = host
        self._cluster = cluster
        self._packed = topic.encode(), host.packed

    def stored(self, record: Stored) -> bytes:
        """A record in the form in which brokers store messages and send them to consumers."""
        name, host = self._packed
        place = (self._place | record.offset) & _PLACE_MASK
        quick = quick_stored(record, name, self._queue, place, host, self._cluster, properties_of)
        return quick if quick is not None else write_stored(self.message(record))

    def message(self, record: Stored) -> StoredMessage:
        """The message of a record."""
        place = (self._place | record.offset) & _PLACE_MASK
        numbers = (
            {name: number_of(record, name) for name in NUMBERS}
            if any(name in NUMBERS for name, _ in record.headers)
            else {}
        )
        stored_ms = max(record.timestamp_ms, 0)
        return StoredMessage(
            topic=self._topic,
            queue_id=self._queue,
            queue_offset=record.offset,
            physical_offset=place,
            flag=_int32(numbers.get(FLAG, 0)),
            sys_flag=numbers.get(SYS_FLAG, 0) & 0xC,
            born_ms=max(numbers.get(BORN, 0), 0) or stored_ms,
            born_host=born_host_of(record) or self._host,
            store_ms=stored_ms,
            store_host=self._host,
            reconsume_times=_int32(numbers.get(RECONSUMED, 0)),
            prepared_offset=numbers.get(PREPARED, 0) & _PLACE_MASK,
            body=record.value or _NO_BODY,
            properties=properties_of(record, self._cluster).encode(),
        )


def parted(record: Stored) -> tuple[list[tuple[str, bytes | None]], list[tuple[str, str]]]:
    """A record's headers in two parts: ordinary ones, and those that become RocketMQ's own properties."""
    own: list[tuple[str, str]] = []
    headers: list[tuple[str, bytes | None]] = []
    for name, value in record.headers:
        if name in NUMBERS or name in NOT_KEPT or name == BORN_HOST:
            continue
        if name in _OWN_PROPERTIES and name not in _FROM_USERS:
            text = _plain(value)
            if text:
                own.append((name, text))
            continue
        headers.append((name, value))
    return headers, own


def properties_of(record: Stored, cluster: str) -> str:
    """The properties of a record's message; if they exceed the limit, the first ones that fit."""
    headers, own = parted(record)
    own.append(("CLUSTER", cluster))
    try:
        return format_properties([*write_record(record.key, record.value, headers), *own])
    except UsageError:
        return _what_fits(record, headers, own)


def _what_fits(record: Stored, headers: list[tuple[str, bytes | None]], own: list[tuple[str, str]]) -> str:
    """The properties of a record that exceeds the limit: its last headers are left out, then its key."""
    for key in (record.key, None):
        for count in (len(headers) // 2, len(headers) // 4, 0):
            try:
                return format_properties([*write_record(key, record.value, headers[:count]), *own])
            except UsageError:
                continue
    return format_properties(write_record(None, record.value))


def _plain(value: bytes | None) -> str | None:
    if not value or len(value) > MAX_PROPERTIES_BYTES or b"\x01" in value or b"\x02" in value:
        return None
    return value.decode(errors="replace")


def _int32(number: int) -> int:
    return number if -(1 << 31) <= number < 1 << 31 else 0


# Names of topics. No I/O.
#
# The log's names have no ``%``, which RocketMQ puts in front of groups' own topics and between a namespace and a name:
# ``%RETRY%g`` is ``rocketmq.RETRY.g`` in the log, ``n%t`` is ``rocketmq-ns.n.t``. RocketMQ's names have no dots, so the
# way back is unambiguous.
_GROUPS: Final = "rocketmq."
_NAMESPACES: Final = "rocketmq-ns."
_OWN_TOPIC: Final = "__"


def log_name(topic: str) -> str:
    """The log's name of a topic. Raises Refused for a name that no topic can have.

    >>> log_name("%RETRY%readers"), log_name("flights")
    ('rocketmq.RETRY.readers', 'flights')
    """
    if "%" not in topic:
        return topic
    if "." in topic or "|" in topic:
        raise Refused(Code.SYSTEM_ERROR, f"The specified topic contains illegal characters: {topic[:200]!r}")
    named = topic.replace("%", ".")
    return _GROUPS + named[1:] if topic[0] == "%" else _NAMESPACES + named


def rocket_name(name: str) -> str:
    """RocketMQ's name of a log's topic.

    >>> rocket_name("rocketmq.RETRY.readers"), rocket_name("my.flights")
    ('%RETRY%readers', 'my.flights')
    """
    if name.startswith(_GROUPS):
        return "%" + name.removeprefix(_GROUPS).replace(".", "%")
    if name.startswith(_NAMESPACES):
        return name.removeprefix(_NAMESPACES).replace(".", "%")
    return name


def is_hidden(name: str) -> bool:
    """Whether it is a topic of the node itself, which clients do not see."""
    return name.startswith(_OWN_TOPIC)


# Batches of records to messages and back, with the same mapping as for single messages.
#
# A Kafka client reads the same from a message at a broker as from one that a RocketMQ client wrote into a node's own
# log, and vice versa. Records become a batch of messages (320): brokers neither delay nor change those, and store them
# one after the other. A batch has one time of birth, so a record of another time has its own in a property.

_ADDED: Final = 256
"""Bytes that brokers add to a message's properties: the cluster's name, and ``WAIT``."""
_OVERHEAD: Final = 22
_LARGEST: Final = (1 << 31) - 1


class Lump(NamedTuple):
    """The messages of one request: its body, their number and their time of birth."""

    body: bytes
    messages: int
    born_ms: int


def messages_of(batch: Buffer, topic: str) -> list[Stored]:
    """The records of one batch v2. Raises CorruptBatch; Unsupported for a transactional batch or a marker."""
    found = list(batches(batch))
    if any(each.control or each.transactional for each in found):
        raise Unsupported("a RocketMQ cluster has no transactions over topics", topic=topic)
    records = list(stored_records(batch, 0))
    if not records:
        raise CorruptBatch("a batch without a record", topic=topic)
    return records


def lumps(records: Sequence[Stored], most_bytes: int, born_ms: int | None = None) -> Iterator[Lump]:
    """Yield the records in order as bodies of about ``most_bytes``; a larger record goes alone.

    ``born_ms``: the time of birth of other messages that they will share a batch with; None: that of the first record.
    Raises BatchTooLarge for a record whose key and headers do not fit into properties.
    """
    if born_ms is None:
        born_ms = max(records[0].timestamp_ms, 0)
    held: list[Inner] = []
    size = 0
    for record in records:
        inner = _inner(record, born_ms)
        takes = _OVERHEAD + len(inner.body) + len(inner.properties)
        if held and size + takes > most_bytes:
            yield Lump(write_batch(held), len(held), born_ms)
            held, size = [], 0
        held.append(inner)
        size += takes
    yield Lump(write_batch(held), len(held), born_ms)


def _inner(record: Stored, born_ms: int) -> Inner:
    headers, own = parted(record)
    try:
        properties = [*write_record(record.key, record.value, headers), *own]
        if record.timestamp_ms != born_ms:
            properties.append((TIMESTAMP, str(record.timestamp_ms)))
        text = format_properties(properties).encode()
    except UsageError as error:
        raise BatchTooLarge(error.message, hint=error.hint) from error
    if len(text) > MAX_PROPERTIES_BYTES - _ADDED:
        raise BatchTooLarge(
            f"key and headers take {len(text)} bytes; a message of RocketMQ's has {MAX_PROPERTIES_BYTES - _ADDED}",
            hint="Put what is large into the value",
        )
    flag = number_of(record, FLAG)
    return Inner(flag if abs(flag) <= _LARGEST else 0, record.value or _NO_BODY, text)


class Cut(NamedTuple):
    """Concatenated record batches v2, and the offset after the last one."""

    data: bytes
    next_offset: int


def cut(bodies: Sequence[Buffer], start: int, next_offset: int, most_bytes: int) -> Cut:
    """Stored messages from offset ``start`` on as batches; a new batch begins at each gap. Keys and values take at most
    ``most_bytes``, or there is one message. ``next_offset`` is the end of what was pulled. Raises CorruptBatch,
    ProtocolViolation."""
    from penstock.protocols.rocketmq.wire.columns import decode

    rows = decode(bodies, start=start, columns=("key", "value", "timestamp", "headers", "offset"), kept=True).batch
    if not rows.num_rows:
        return Cut(b"", next_offset)
    taken = rows.slice(0, _fitting(rows, most_bytes))
    offsets = taken.column("offset").to_numpy()
    end = next_offset if taken.num_rows == rows.num_rows else int(rows.column("offset")[taken.num_rows].as_py())
    return Cut(b"".join(_encoded(taken, offsets)), max(end, int(offsets[-1]) + 1))


def _fitting(rows: pa.RecordBatch, most_bytes: int) -> int:
    """How many rows fit into ``most_bytes`` of keys and values; at least one."""
    import numpy as np

    total = np.full(rows.num_rows, 16, np.int64)
    for name in ("key", "value"):
        column = rows.column(name)
        if column.null_count < len(column):
            ends = np.frombuffer(column.buffers()[1], np.int32, len(column) + column.offset + 1)[column.offset :]
            total += np.diff(ends)
    return max(int(np.searchsorted(np.cumsum(total), most_bytes, side="right")), 1)


def _encoded(rows: pa.RecordBatch, offsets: Int64s) -> Iterator[memoryview]:
    import numpy as np

    from penstock.records import encode_v2

    holes = np.flatnonzero(np.diff(offsets) != 1) + 1
    for first, end in pairwise([0, *holes.tolist(), rows.num_rows]):
        yield encode_v2(rows.slice(first, end - first), base_offset=int(offsets[first]), leader_epoch=0)
