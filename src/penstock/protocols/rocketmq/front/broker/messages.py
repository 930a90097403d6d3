"""A message as RocketMQ's clients send and read it, and the record that the log keeps of it.

Value, key and headers are as `records.properties` maps them, so that a record of any protocol's comes back as it was.
RocketMQ's own properties (UNIQ_KEY above all) become headers, too, under their own names; what a message has beside
properties becomes a header where it is not 0. The time is that of birth, and stands for that of storing, unless the two
are far apart (`dated`): it is what records have.

What must not live here: batches, places in the log.
"""

from __future__ import annotations

from typing import Final

from penstock.columnar.plain_records import Stored
from penstock.errors import UsageError
from penstock.protocols.rocketmq.front.broker.quick_stored import quick_stored, read_host
from penstock.protocols.rocketmq.kernels.interface import KIND_OF, Kind
from penstock.protocols.rocketmq.records.beside import (
    BORN,
    BORN_HOST,
    CLOSE_MS,
    FLAG,
    NOT_KEPT,
    NUMBERS,
    PREPARED,
    RECONSUMED,
    SYS_FLAG,
)
from penstock.protocols.rocketmq.records.ids import Host
from penstock.protocols.rocketmq.records.properties import (
    MAX_PROPERTIES_BYTES,
    TIMESTAMP,
    format_properties,
    read_record,
    sent_ms,
    write_record,
)
from penstock.protocols.rocketmq.records.stored import StoredMessage, write_stored

__all__ = ["Dress", "born_host_of", "dated", "number_of", "parted", "properties_of", "record_of"]

_OWN: Final = frozenset(
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
    """The record of a message, whose ``body`` is not compressed; ``more`` are numbers for headers of their names.

    Its time is the one that the application gave it (`TIMESTAMP`), else that of its birth if `dated` believes that.
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
    """The record as it is stored at ``now_ms``: if it is of quite another time, that becomes a header (`CLOSE_MS`)."""
    if -CLOSE_MS <= record.timestamp_ms - now_ms <= CLOSE_MS:
        return record
    headers = record.headers
    if not any(name == BORN for name, _ in headers):  # what is delivered again has its birth there already
        headers = (*headers, (BORN, b"%d" % record.timestamp_ms))
    return record._replace(timestamp_ms=now_ms, headers=headers)


def number_of(record: Stored, name: str) -> int:
    """The number in a header; 0 where there is none."""
    for each, value in record.headers:
        if each == name and value is not None and len(value) < 20 and value.removeprefix(b"-").isdigit():
            return int(value)
    return 0


def born_host_of(record: Stored) -> Host | None:
    """Where the message came from; None where the log does not say it, as of another protocol's records."""
    found = None
    for name, value in record.headers:
        if name == BORN_HOST and value is not None:
            found = read_host(value)
    return found


class Dress:
    """What all messages of one queue have in common; ``place`` is that of the queue's first offset."""

    __slots__ = ("_cluster", "_host", "_packed", "_place", "_queue", "_topic")

    def __init__(self, topic: str, queue: int, place: int, host: Host, cluster: str) -> None:
        self._topic = topic
        self._queue = queue
        self._place = place
        self._host = host
        self._cluster = cluster
        self._packed = topic.encode(), host.packed

    def stored(self, record: Stored) -> bytes:
        """A record as brokers store it, and as it goes to who pulls it."""
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
    """A record's headers: those that anybody may have, and those that become RocketMQ's own properties."""
    own: list[tuple[str, str]] = []
    headers: list[tuple[str, bytes | None]] = []
    for name, value in record.headers:
        if name in NUMBERS or name in NOT_KEPT or name == BORN_HOST:
            continue
        if name in _OWN and name not in _FROM_USERS:
            text = _plain(value)
            if text:
                own.append((name, text))
            continue
        headers.append((name, value))
    return headers, own


def properties_of(record: Stored, cluster: str) -> str:
    """What a record's message has beside its body; of more than fits, the first ones."""
    headers, own = parted(record)
    own.append(("CLUSTER", cluster))
    try:
        return format_properties([*write_record(record.key, record.value, headers), *own])
    except UsageError:
        return _what_fits(record, headers, own)


def _what_fits(record: Stored, headers: list[tuple[str, bytes | None]], own: list[tuple[str, str]]) -> str:
    """Properties of a record that has more than a message can carry: its last headers are left out, then its key."""
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
