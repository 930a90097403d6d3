"""What a log returns from an append and from a read. What must not live here: behaviour."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from penstock.store._directory import Buffer
from penstock.store._reading import Stretch

__all__ = ["Appended", "LogPart", "LogSlice", "new_appended"]


class Appended(NamedTuple):
    """Where a batch went.

    ``append_time_ms`` is -1 unless the log stamps its own time; of a ``duplicate`` it is the largest timestamp of the
    batch that was stored first, as a real Kafka answers.
    """

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    duplicate: bool


new_appended: Final = partial(tuple.__new__, Appended)
"""An `Appended` of a tuple of all its fields, sooner."""


class LogSlice(NamedTuple):
    """Whole batches as stored, the first holding the requested offset; ``next_offset`` is where to read on."""

    data: Buffer
    next_offset: int


class LogPart(NamedTuple):
    """As `LogSlice`, but large data stays in its file until it is needed."""

    data: Buffer | Stretch
    next_offset: int
