"""Files of offsets: what Kafka's own tool writes (``--export``) and reads (``--from-file``).

Comma-separated lines without a header: topic, partition, offset; of several groups also the group, before them. A
partition that belongs to a named node is ``partition@node``, which Kafka has none of.
Source: Apache Kafka 4.3, ``ConsumerGroupCommand`` and ``CsvUtils``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import Final

from penstock.client._resetting import ResetPlan
from penstock.errors import UsageError
from penstock.model import Partition

__all__ = ["offsets_from_csv", "offsets_to_csv", "partition_text", "read_partition"]

_WITHOUT_GROUP, _WITH_GROUP = 3, 4
_SPECIAL: Final = re.compile(r'[,"\r\n]|^\s|\s$|^$')
_HINT: Final = "Lines are topic,partition,offset, or group,topic,partition,offset, as `--export` writes them"


def offsets_to_csv(plans: Iterable[ResetPlan], *, with_group: bool) -> str:
    """Where each plan puts its group."""
    return "".join(
        ",".join(map(_field, [*([plan.group] if with_group else []), at.topic, partition_text(at), str(move.after)]))
        + "\n"
        for plan in plans
        for move in plan.moves
        for at in [move.partition]
    )


def offsets_from_csv(text: str, group: str | None = None) -> Mapping[str, Mapping[Partition, int]]:
    """The offsets by group; those of lines that name none are ``group``'s. Raises UsageError, with the line."""
    found: dict[str, dict[Partition, int]] = {}
    for line, (named, partition, offset) in _rows(text):
        name = named if named is not None else group
        if name is None:
            raise _bad(line, "names no group, and there are several")
        if partition in found.setdefault(name, {}):
            raise _bad(line, f"has {partition} once more")
        found[name][partition] = offset
    return found


def partition_text(partition: Partition) -> str:
    """``0``, or ``0@node``."""
    return f"{partition.id}@{partition.node}" if partition.node else str(partition.id)


def read_partition(topic: str, text: str) -> Partition | None:
    """The opposite of `partition_text`; None if it is no partition."""
    number, at, node = text.partition("@")
    number = number.strip()
    if not (number.isascii() and number.isdecimal()) or len(number) > 10 or (at and not node):
        return None
    return Partition(topic, int(number), node)


def _field(text: str) -> str:
    # Not csv's writer: before 3.13 it lets a carriage return stand as it is, which its reader takes for the line's end.
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _rows(text: str) -> Iterator[tuple[int, tuple[str | None, Partition, int]]]:
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, _row(reader.line_num, row)
    except csv.Error as error:
        raise _bad(reader.line_num, f"is no line of CSV: {error}") from None


def _row(line: int, row: list[str]) -> tuple[str | None, Partition, int]:
    if len(row) not in (_WITHOUT_GROUP, _WITH_GROUP):
        raise _bad(line, f"has {len(row)} fields")
    topic, place, offset = row[-3], row[-2], row[-1].strip()
    partition = read_partition(topic, place)
    if not topic or partition is None:
        raise _bad(line, f"has no partition: {place!r}")
    if not (offset.isascii() and offset.isdecimal()) or len(offset) > 19:
        raise _bad(line, f"has no offset: {offset!r}")
    return (row[0] if len(row) == _WITH_GROUP else None), partition, int(offset)


def _bad(line: int, what: str) -> UsageError:
    return UsageError(f"line {line} {what}", hint=_HINT)
