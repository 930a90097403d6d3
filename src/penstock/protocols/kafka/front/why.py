"""Why an answer says no, in the words of the error that became its code: for the node's log, not for clients.

A code is made of an error far below whoever writes the log, in handlers that know of no connection. What must not live
here: what is done about it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple

from penstock.errors import PenstockError

__all__ = ["Note", "begin", "note"]

_MOST: Final = 100


class Note(NamedTuple):
    """What was wrong, and what to do; of a topic, or of none in particular."""

    code: int
    why: str
    advice: str
    topic: str | None


_notes: ContextVar[list[Note] | None] = ContextVar("why a request is refused", default=None)


def begin() -> list[Note]:
    """What is noted from here on, in this task and those that it begins."""
    notes: list[Note] = []
    _notes.set(notes)
    return notes


def note(code: int, error: PenstockError) -> None:
    """An error has become that code. It is not kept: whatever it holds goes as soon as it can."""
    notes = _notes.get()
    if notes is not None and len(notes) < _MOST:
        notes.append(Note(code, error.message, error.hint or "", error.topic))
