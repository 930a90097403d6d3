"""How many messages each group was given of each topic in the last minute, hour and day, as brokers count them.

Slots of ten seconds, ten minutes and an hour, in memory: a node that starts again counts from nothing, as brokers do.
What was sent is not counted here: the log knows it by its times. Source: Apache RocketMQ 4.9 and 5.x,
``BrokerStatsManager``, ``StatsItem``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["SPANS_S", "Counts"]

SPANS_S: Final = (60, 3_600, 86_400)
_SLOTS: Final = ((10, 6), (600, 6), (3_600, 24))
"""Of each span: how many seconds one has, and how many there are."""
_MOST: Final = 10_000


class Counts:
    """Of one front: of the 10,000 pairs of topic and group that were read last; times are seconds of a clock that never
    goes back."""

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[str, str], tuple[dict[int, int], ...]] = OrderedDict()

    def give(self, topic: str, group: str, count: int, now: float) -> None:
        """A group was given so many messages."""
        key = topic, group
        spans = self._given.get(key)
        if spans is None:
            spans = self._given[key] = ({}, {}, {})
            if len(self._given) > _MOST:
                self._given.popitem(last=False)
        else:
            self._given.move_to_end(key)
        for (length, most), slots in zip(_SLOTS, spans, strict=True):
            slot = int(now // length)
            slots[slot] = slots.get(slot, 0) + count
            if len(slots) > most:
                del slots[next(iter(slots))]

    def given(self, topic: str, group: str, now: float) -> tuple[int, ...] | None:
        """How many within each of `SPANS_S`; None where nothing was counted."""
        spans = self._given.get((topic, group))
        if spans is None:
            return None
        return tuple(
            sum(count for slot, count in slots.items() if slot > now // length - most)
            for (length, most), slots in zip(_SLOTS, spans, strict=True)
        )
