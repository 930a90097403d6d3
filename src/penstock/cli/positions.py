"""Where ``penstock consume`` begins and ends in each partition: an offset, a time, or a distance from the end."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.cli.group_reset import read_time_ms
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.client import Consumer
    from penstock.model import Partition

__all__ = ["Begin", "End", "read_begin", "read_end"]

_RESETS: Final = frozenset({"", "earliest", "latest", "none"})
_NUMBER: Final = re.compile(r"\d{1,18}|-[1-9]\d{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Begin:
    """``offset``: that one; below 0, so many before the end. ``time_ms``: the first record since then."""

    text: str
    offset: int | None = None
    time_ms: int | None = None

    def offsets(self, consumer: Consumer, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Of each partition; what lies outside of it becomes its nearer end."""
        ends = consumer.end_offsets(partitions)
        if self.time_ms is not None:
            return _since(consumer, self.time_ms, ends)
        assert self.offset is not None
        firsts = consumer.beginning_offsets(partitions)
        wanted = {each: self.offset + (ends[each] if self.offset < 0 else 0) for each in partitions}
        return {each: min(max(offset, firsts[each]), ends[each]) for each, offset in wanted.items()}

    def __str__(self) -> str:
        if self.time_ms is not None:
            return f"from the first record since {self.text}"
        if self.text.startswith("-"):
            return f"from {self.text[1:]} offsets before the end of each partition"
        return f"from offset {self.text}"


@dataclass(frozen=True, slots=True)
class End:
    """The first offset, or the time of the first record, that is not read any more."""

    offset: int | None = None
    time_ms: int | None = None

    def offsets(self, consumer: Consumer, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Of each partition; where it ends before, its end now: nothing is waited for."""
        ends = consumer.end_offsets(partitions)
        if self.time_ms is not None:
            return _since(consumer, self.time_ms, ends)
        assert self.offset is not None
        return {each: min(self.offset, end) for each, end in ends.items()}


def read_begin(text: str) -> Begin | None:
    """None where it is no place but a reset policy, or nothing. Raises ConfigError."""
    if text in _RESETS:
        return None
    if _NUMBER.fullmatch(text):
        return Begin(text, offset=int(text))
    return Begin(text, time_ms=_time_ms("--from", text, "earliest, latest, an offset, -N or a time"))


def read_end(text: str) -> End | None:
    """None for an empty text. Raises ConfigError."""
    if not text:
        return None
    if _NUMBER.fullmatch(text) and not text.startswith("-"):
        return End(offset=int(text))
    return End(time_ms=_time_ms("--until", text, "an offset or a time"))


def _time_ms(option: str, text: str, expected: str) -> int:
    try:
        return read_time_ms(text)
    except ConfigError as error:
        raise ConfigError(f"{option} is {text!r}, expected {expected}", hint=error.hint) from None


def _since(consumer: Consumer, time_ms: int, ends: Mapping[Partition, int]) -> dict[Partition, int]:
    found = consumer.offsets_for_times(dict.fromkeys(ends, time_ms))
    return {each: end if (place := found.get(each)) is None else place.offset for each, end in ends.items()}
