"""Buffer: what was fetched and not taken yet becomes the Messages of one poll, fairly over partitions.

Decoding happens here. Runs in the thread of whoever polls: the synchronous Consumer decodes in the user's thread
while the loop goes on fetching. What must not live here: waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from penstock.client._loading import columns_there
from penstock.client._partitions import Buffered, Partitions, PartitionState
from penstock.columnar import Messages
from penstock.errors import PenstockError
from penstock.seams import Fetched, HasHead

__all__ = ["take"]

TakeFrom = Callable[[PartitionState, int], tuple[list[Messages], int]]
"""Takes up to so many rows of one partition: none, or runs of at least one row, and how many rows that is."""

_NOTHING: Final = Messages()


def take(partitions: Partitions, max_records: int, take_from: TakeFrom | None = None) -> Messages:
    """Up to ``max_records`` rows, from the partition that waited longest on.

    An error of a partition is raised once everything before it was handed out, and again by every later call until the
    application seeks past it. ``take_from`` None takes what was fetched.
    """
    states = partitions.by_turn()
    if take_from is None:
        if len(states) == 1 and (only := _take_whole(states[0], max_records)) is not None:
            return only
        take_from = _take_from
    runs: list[Messages] = []
    left = max_records
    for state in states:
        if left <= 0:
            break
        if state.paused:
            continue
        try:
            run, rows = take_from(state, left)
        except PenstockError:
            if runs:
                break  # first what was good; the next call comes here again
            raise
        if run:
            state.served = partitions.turn()
            runs.extend(run)
            left -= rows
    if len(runs) == 1:
        return runs[0]
    return Messages.concat(runs) if runs else _NOTHING


def _take_from(state: PartitionState, most: int) -> tuple[list[Messages], int]:
    if (only := _take_whole(state, most)) is not None:
        return [only], len(only)
    runs: list[Messages] = []
    rows = 0
    while rows < most and state.buffer:
        entry = state.buffer[0]
        try:
            messages = _decoded(state, entry, most)
        except PenstockError:
            if runs:
                return runs, rows
            raise
        if messages is None:
            continue
        count = len(messages)
        whole = not entry.taken and count <= most - rows  # as it is with few: not sliced
        part = messages if whole else messages[entry.taken : entry.taken + most - rows]
        some = count if whole else len(part)
        entry.taken += some
        if some:
            runs.append(part)
            rows += some
        if entry.taken == count:
            state.position = entry.next_offset
            if entry.more:
                entry.messages, entry.taken, entry.more = None, 0, False
                break  # the others in the next poll: these need not wait
            state.done(entry)
            if entry.next_offset != entry.fetched.next_offset:
                state.refetch()  # damage ended the run early: the next fetch begins with it, and says so
        else:
            state.position = part.next_offsets[state.partition]
    if not runs and not state.buffer and state.failure is not None:
        raise state.failure
    return runs, rows


def _take_whole(state: PartitionState, most: int) -> Messages | None:
    """All of the only fetch, of which nothing was taken: as what comes now and then. None where there is more to it."""
    if len(state.buffer) != 1 or state.paused:
        return None
    entry = state.buffer[0]
    messages = _decoded(state, entry, most)
    if messages is None or entry.taken or entry.more or entry.next_offset != entry.fetched.next_offset:
        return None
    if not 0 < len(messages) <= most:
        return None
    state.position = entry.next_offset
    state.done(entry)
    return messages


def _decoded(state: PartitionState, entry: Buffered, most: int) -> Messages | None:
    """The rows of ``entry``, for a poll that takes ``most``; None if it does not begin where the reader stands."""
    if entry.messages is None:
        if entry.fetched.offset != state.position:
            state.refetch()
            return None
        if not columns_there() and (head := _head(entry.fetched, most)) is not None:
            entry.messages, entry.next_offset = head, entry.fetched.offset
            entry.more = entry.next_offset < entry.fetched.next_offset
            return head
        entry.messages, entry.next_offset = entry.fetched.decode()
        if entry.next_offset <= entry.fetched.offset and not len(entry.messages):
            # Not one whole batch: ask again, with nothing in front of it.
            state.refetch()
            return None
    return entry.messages


def _head(fetched: Fetched, most: int) -> Messages | None:
    """Its first records, where decoding all of it would import Arrow first: whoever begins need not wait for that, and
    who takes a handful at a time never."""
    if not _has_head(type(fetched)):
        return None
    head: Messages | None = fetched.head(most)  # type: ignore[attr-defined]
    return head


@lru_cache
def _has_head(kind: type) -> bool:
    """Remembered: to ask a Protocol costs as much as to decode a record."""
    return issubclass(kind, HasHead)
