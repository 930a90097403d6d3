"""Most records as the messages that they are stored as: what `messages.Dress` makes of them, and no more.

What properties look like depends on the names of a record's headers only, as long as all values are plain text. So they
are written once the long way, with marks for values, and filled in from then on; whatever is unusual is None here, and
goes the long way. What must not live here: what a property means.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple
from zlib import crc32

from penstock.columnar.plain_records import Stored
from penstock.protocols.rocketmq.kernels.interface import LEAST_BYTES, MAGIC_1
from penstock.protocols.rocketmq.records.beside import BORN_HOST, NUMBERS
from penstock.protocols.rocketmq.records.ids import Host
from penstock.protocols.rocketmq.records.properties import MAX_PROPERTIES_BYTES
from penstock.protocols.rocketmq.records.stored import AFTER_HOSTS, FIXED

__all__ = ["Form", "form_of", "quick_stored", "read_host"]

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
    """Properties with holes: ``text`` is to be filled with what ``pick`` takes of key and values.

    ``entries`` is how many properties there are.
    """

    text: bytes
    pick: Callable[[Sequence[Any]], Any]
    entries: int


Properties = Callable[[Stored, str], str]
"""The long way: what a record's properties are in a cluster."""


@functools.lru_cache(_MOST_FORMS)
def form_of(names: tuple[str, ...], keyed: bool, cluster: str, properties: Properties) -> Form | None:
    """The form of records with these headers; None where each has to go the long way."""
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
        return None  # something was coded, so that other values may look otherwise
    text = "\x02".join(
        f"{name}\x01".replace("%", "%%") + ("%b" if value in marks else value.replace("%", "%%"))
        for name, _, value in entries
    )
    return Form(text.encode(), _picking(places), len(entries))


@functools.lru_cache(_HOSTS)
def read_host(text: bytes) -> Host | None:
    """An address that a record names; None for what is none: anyone may write such a header."""
    return Host.read(text.decode(errors="replace")) if len(text) <= _LONGEST_HOST else None


def _picking(places: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    if len(places) == 1:
        return lambda values: (values[places[0]],)
    return itemgetter(*places) if places else lambda values: ()


def quick_stored(
    record: Stored, topic: bytes, queue: int, place: int, host: bytes, cluster: str, properties: Properties
) -> bytes | None:
    """The message; None where it has to go the long way. ``place`` is the message's own."""
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
