"""Routing: which partition each row goes to. Named, by key, or sticky for rows that have neither.

Sticky means: all such rows go to one partition until about a batch of them has gone there, then to another (KIP-794),
so that batches are full; of two partitions drawn, the one with less waiting is taken, so that a slow node gets less.
Where the log's own producers go round (`GoesRound`), the next partition of which nothing is under way takes its turn as
soon as the batch before has left: single records that are waited for go round one by one, many at once by batches.
What must not live here: queues, sending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.client._choosing import ANYWHERE, Chooser
from penstock.client._keys import KeyPartitions
from penstock.client._picking import taken
from penstock.client.delivery import Fate, Outcome, Run
from penstock.columnar.few import FewRows, Rows
from penstock.columnar.inputs import integers_of, valid_of
from penstock.errors import UsageError
from penstock.model import Partition, TopicInfo

__all__ = ["TopicRouter"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
NOTHING_NAMED: Final[Mapping[int, int]] = {}
_FIRST: Final = np.zeros(1, np.int64)
_COMPARED: Final = 16
_BEHIND: Final = 8
"""Where partitions take turns: how many are compared for the next one, and how many turns one may be behind others."""


class TopicRouter:
    """One topic's. ``waiting_bytes`` tells how much is queued for a partition; ``dice`` is uniform in [0, 1).

    ``avoids`` says which partitions are in trouble: rows that may go anywhere go there only if there are no others.
    ``turn_bytes`` above 0: partitions take turns of at most so much, and ``is_idle`` says of which nothing waits or is
    under way.
    """

    def __init__(
        self,
        info: TopicInfo,
        keys: KeyPartitions,
        batch_bytes: int,
        waiting_bytes: Callable[[Partition], int],
        dice: Callable[[], float],
        avoids: Callable[[Partition], bool] | None = None,
        chooser: Chooser | None = None,
        *,
        turn_bytes: int = 0,
        is_idle: Callable[[Partition], bool] | None = None,
    ) -> None:
        self._partitions = [each.partition for each in info.partitions]
        self._keys = keys
        self._batch_bytes = min(batch_bytes, turn_bytes) if turn_bytes else batch_bytes
        self._is_idle = is_idle if turn_bytes else None
        self._waiting_bytes = waiting_bytes
        self._dice = dice
        self._avoids = avoids
        self._chooser = chooser
        self._taken = [0] * len(self._partitions)
        self._sticky = self._draw()
        self._sticky_bytes = 0

    @property
    def count(self) -> int:
        """How many partitions the topic has."""
        return len(self._partitions)

    def renew(self, info: TopicInfo) -> None:
        """The topic was asked for again, and may have more partitions."""
        self._partitions = [each.partition for each in info.partitions]
        self._taken = [0] * len(self._partitions)
        self._sticky = min(self._sticky, self.count - 1)

    def route(self, rows: Rows, outcome: Outcome, born: float, named: Mapping[int, int] = NOTHING_NAMED) -> list[Run]:
        """Split rows into runs, and tell the outcome. Those for a partition that there is not are settled already.

        ``named`` are the partitions of few rows, by place; columns have them in ``partition``. Raises UsageError for a
        column of partitions that are no numbers.
        """
        if isinstance(rows, FewRows):
            if len(rows.values) == 1 and self._chooser is None:
                return self._route_one(rows, outcome, born, named)
            return self._route_few(rows, outcome, born, named)
        return self._route_columns(rows, outcome, born)

    def _route_few(self, rows: FewRows, outcome: Outcome, born: float, named: Mapping[int, int]) -> list[Run]:
        count, places = self.count, range(rows.num_rows)
        if self._chooser is None:
            targets = [
                named[place] if place in named else None if key is None else self._keys.one(key, count)
                for place, key in zip(places, rows.keys, strict=True)
            ]
        else:
            targets = self._chosen_few(self._chooser, rows.keys, named)
        free = targets.count(None)
        sticky = iter(self._sticky_few(free, outcome.size * free // rows.num_rows))
        used: dict[int, list[int]] = {}
        for place, target in zip(places, targets, strict=True):
            used.setdefault(next(sticky) if target is None else target, []).append(place)
        runs = []
        for partition, here in sorted(used.items()):
            picked = rows if len(used) == 1 else rows.picked(here)
            run = self._run(outcome, partition, picked, outcome.size * len(here) // rows.num_rows, born)
            run.free = all(targets[place] is None for place in here)
            runs.append(run)
        if len(used) > 1:
            run_of, place_of = [0] * rows.num_rows, [0] * rows.num_rows
            for number, (_, here) in enumerate(sorted(used.items())):
                for at, place in enumerate(here):
                    run_of[place], place_of[place] = number, at
            outcome.places = (run_of, place_of)
        outcome.runs = runs  # last of all: who waits in another thread sees all of it, or nothing
        return runs

    def _route_one(self, rows: FewRows, outcome: Outcome, born: float, named: Mapping[int, int]) -> list[Run]:
        """As `_route_few`, for the only record of who waits for each."""
        key = rows.keys[0]
        free = not named and key is None
        if named:
            target = named[0]
        elif key is not None:
            target = self._keys.one(key, len(self._partitions))
        else:
            target = 0 if len(self._partitions) == 1 else self._sticky_few(1, outcome.size)[0]
        run = self._run(outcome, target, rows, outcome.size, born)
        run.free = free
        runs = outcome.runs = [run]
        return runs

    def _chosen_few(self, chooser: Chooser, keys: Sequence[bytes | None], named: Mapping[int, int]) -> list[int | None]:
        """The partition of each row, None where any will do."""
        left = [place for place in range(len(keys)) if place not in named]
        chosen = dict(zip(left, chooser.few([keys[place] for place in left], self.count), strict=True))
        targets = [named.get(place, chosen.get(place, ANYWHERE)) for place in range(len(keys))]
        return [None if target == ANYWHERE else target for target in targets]

    def _sticky_few(self, rows: int, size: int) -> Sequence[int]:
        """As `_sticky_targets`, for rows that rarely fill a batch."""
        if not rows or len(self._partitions) == 1:
            return (0,) * rows
        ill = self._avoids is not None and self._avoids(self._partitions[self._sticky])
        over = self._sticky_bytes + size > self._batch_bytes or (self._is_idle is not None and self._turn_is_over())
        if ill or over:
            return [int(each) for each in self._sticky_targets(rows, size)]
        self._sticky_bytes += size
        return (self._sticky,) * rows

    def _route_columns(self, rows: pa.RecordBatch, outcome: Outcome, born: float) -> list[Run]:
        named = rows.schema.get_field_index("partition")
        if named < 0 and len(self._partitions) == 1 and self._chooser is None:
            return self._route_whole(0, rows, outcome, born, free=not _any_key(rows))
        target, free = self._targets(rows, outcome.size)
        if named >= 0:
            rows = rows.remove_column(named)
        if int(target.min()) == (last := int(target.max())):
            return self._route_whole(last, rows, outcome, born, free=bool(free.all()))
        order = np.argsort(target, kind="stable")
        in_order = target[order]
        bounds = np.concatenate([_FIRST, np.flatnonzero(in_order[1:] != in_order[:-1]) + 1])
        used, lengths = in_order[bounds], np.diff(bounds, append=len(target))
        sorted_rows = taken(rows, order)
        runs = [
            self._run(
                outcome,
                int(partition),
                sorted_rows.slice(int(first), int(length)),
                outcome.size * int(length) // len(target),
                born,
            )
            for partition, first, length in zip(used, bounds, lengths, strict=True)
        ]
        whole = np.minimum.reduceat(free[order], bounds)
        for run, all_free in zip(runs, whole, strict=True):
            run.free = bool(all_free)
        run_of, place = np.empty(len(target), np.int32), np.empty(len(target), np.int32)
        run_of[order] = np.repeat(np.arange(len(used), dtype=np.int32), lengths)
        place[order] = np.arange(len(target), dtype=np.int32) - np.repeat(bounds, lengths).astype(np.int32)
        outcome.places = (run_of, place)
        outcome.runs = runs
        return runs

    def _route_whole(
        self, partition: int, rows: pa.RecordBatch, outcome: Outcome, born: float, *, free: bool
    ) -> list[Run]:
        run = self._run(outcome, partition, rows, outcome.size, born)
        run.free = free
        runs = outcome.runs = [run]
        return runs

    def elsewhere(self, partition: Partition) -> Partition | None:
        """One that is well, by lot; None if there is none but this."""
        avoids = self._avoids or (lambda _: False)
        well = [each for each in self._partitions if each != partition and not avoids(each)]
        return well[int(self._dice() * len(well))] if well else None

    def _run(self, outcome: Outcome, partition: int, rows: Rows, size: int, born: float) -> Run:
        """Rows of one partition; settled at once if there is no such."""
        if 0 <= partition < len(self._partitions):
            return Run(outcome, self._partitions[partition], rows, size, born)
        topic = self._partitions[0].topic
        run = Run(outcome, Partition(topic, partition), rows, size, born)
        hint = f"The topic has partitions 0 to {self.count - 1}"
        run.settle(Fate(0, run.count, -1, -1, UsageError(f"there is no partition {partition}", topic=topic, hint=hint)))
        return run

    def _targets(self, rows: pa.RecordBatch, size: int) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """The partition of each row, and whether another would do as well."""
        target = np.full(rows.num_rows, ANYWHERE, np.int64)
        named = rows.schema.get_field_index("partition")
        if named >= 0:
            target = _named(rows.column(named))
        keys_at = rows.schema.get_field_index("key")
        if self._chooser is not None:
            left = np.flatnonzero(target == ANYWHERE)
            keys = rows.column(keys_at) if keys_at >= 0 else pa.nulls(rows.num_rows, pa.binary())
            keys = keys if len(left) == len(keys) else keys.take(pa.array(left))
            target[left] = self._chooser.column(keys, self.count)
        elif keys_at >= 0 and rows.column(keys_at).null_count < rows.num_rows and (target == ANYWHERE).any():
            keys = rows.column(keys_at)
            by_key = (valid_of(keys) > 0) & (target == ANYWHERE)
            target = np.where(by_key, self._keys.partitions(keys, self.count), target)
        is_free = target == ANYWHERE
        free = np.flatnonzero(is_free)
        if len(free):
            target[free] = self._sticky_targets(len(free), size * len(free) // rows.num_rows)
        return target, is_free

    def _sticky_targets(self, rows: int, size: int) -> Int32s:
        if self.count == 1:
            return np.zeros(rows, np.int32)
        if self._is_idle is not None and self._turn_is_over():
            self._sticky, self._sticky_bytes = self._draw(self._sticky, self._sticky_bytes), 0
        if self._avoids is not None and self._avoids(self._partitions[self._sticky]):
            self._sticky = self._draw(self._sticky)
        # Rows are taken for equally large: what counts is that batches fill up, not to the byte.
        ends = (np.arange(1, rows + 1) * size) // rows + self._sticky_bytes
        turns = (ends - 1) // self._batch_bytes
        chosen = [self._sticky]
        for _ in range(int(turns[-1])):
            chosen.append(self._draw(chosen[-1], self._batch_bytes))
        self._sticky = chosen[-1]
        self._sticky_bytes = int(ends[-1]) - int(turns[-1]) * self._batch_bytes
        return np.array(chosen, np.int32)[turns]

    def _turn_is_over(self) -> bool:
        """Where partitions take turns: whether what went to the sticky one has left its queue."""
        return self._sticky_bytes > 0 and not self._waiting_bytes(self._partitions[self._sticky])

    def _next(self, previous: int, size: int, is_idle: Callable[[Partition], bool]) -> int:
        """Whose turn it is after that of ``previous``, which took ``size``: one that is well and idle, or else well.

        Of the next few such, the one that has taken least: turns differ in size, and large ones must not meet the same
        partition again and again. One that was away for long catches up with a few turns, not with all it has missed.
        """
        self._taken[previous] += size
        found: list[int] = []
        well = -1
        for step in range(1, self.count + 1):
            place = (previous + step) % self.count
            if self._avoids is not None and self._avoids(self._partitions[place]):
                continue
            well = place if well < 0 else well
            if is_idle(self._partitions[place]):
                found.append(place)
                if len(found) == _COMPARED:
                    break
        if not found:
            return well if well >= 0 else (previous + 1) % self.count
        least = min(found, key=self._taken.__getitem__)
        self._taken[least] = max(self._taken[least], self._taken[previous] - _BEHIND * self._batch_bytes)
        return least

    def _draw(self, previous: int = -1, size: int = 0) -> int:
        if self._is_idle is not None and previous >= 0:
            return self._next(previous, size, self._is_idle)
        drawn = [int(self._dice() * self.count) for _ in range(2)]
        others = [each for each in drawn if each != previous] or [(previous + 1) % self.count]
        if self._avoids is not None:
            # The next one that is well, from the one drawn on; itself if none is.
            well = [each for each in range(self.count) if not self._avoids(self._partitions[each])]
            others = [min(well, key=lambda each: (each - drawn) % self.count) for drawn in others] if well else others
        return min(others, key=lambda each: self._waiting_bytes(self._partitions[each]))


def _any_key(rows: pa.RecordBatch) -> bool:
    at = rows.schema.get_field_index("key")
    return at >= 0 and bool(rows.column(at).null_count < rows.num_rows)


def _named(column: pa.Array) -> Int64s:
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        try:
            column = column.cast(pa.int64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"column partition is {column.type}, wanted are integers: {error}") from None
    return np.where(valid_of(column) > 0, integers_of(column), ANYWHERE)
