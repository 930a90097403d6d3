"""A client's side of a fetch session (KIP-227): the broker remembers what is read, requests name only what changed.

A client begins with **NONE**: its request names all partitions and asks for a session. Once the broker has answered
with an id it is **KEPT**: each request counts on by one, names what is new or has another place, and what is not wanted
any more. When the two sides may not remember the same any more, above all when an answer was lost, the session is **IN
DOUBT**: the next request names everything again, and the old session's id, so that the broker drops it.

Two rules of this file. First, only one request of a session is under way at a time, because the broker refuses numbers
that are not the next one: whoever asks beside it does so without a session. Second, a partition is named whenever what
is wanted differs from what the broker was told, so that nothing depends on what became of its answer.

Source: KIP-227; KIP-516 (topic ids). What must not live here: requests, answers, connections.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from penstock.groups.tables import Table

__all__ = ["TABLE", "Asked", "Event", "FetchSession", "Key", "Place", "State", "alone"]

Key = tuple[str | bytes, int]
"""Topic (its name, or its id from Fetch v13 on) and partition."""

_NO_SESSION: Final = 0
_WITHOUT: Final = -1
_FULL: Final = 0
_FIRST: Final = 1
_LAST: Final = (1 << 31) - 1
_UNKNOWN_ID: Final = 70


class State(enum.Enum):
    """What this side believes of the other."""

    NONE = "the broker keeps none"
    KEPT = "the broker keeps one, and knows what it was told"
    IN_DOUBT = "the broker may keep one that is out of step"


class Event(enum.Enum):
    """What an answer means, or that there is none."""

    GRANTED = "an answer under a session's id, as it should be"
    REFUSED = "an answer without a session"
    UNKNOWN = "FETCH_SESSION_ID_NOT_FOUND: the broker has dropped it"
    OUT_OF_STEP = "any other error, or an answer about something else than what was asked"
    LOST = "no answer came"
    RENAMED = "topics went by names before and go by ids now, or the other way round"
    ENDED = "nothing more is read"


TABLE: Final = Table(
    "a fetch session",
    {
        State.NONE: {
            Event.GRANTED: State.KEPT,
            Event.REFUSED: State.NONE,  # no room there: asked for again each time, as it costs nothing
            Event.UNKNOWN: State.NONE,
            Event.OUT_OF_STEP: State.IN_DOUBT,
            Event.LOST: State.NONE,  # if the broker made one, nobody knows its id
            Event.ENDED: State.NONE,
        },
        State.KEPT: {
            Event.GRANTED: State.KEPT,
            Event.REFUSED: State.NONE,
            Event.UNKNOWN: State.NONE,
            Event.OUT_OF_STEP: State.IN_DOUBT,
            Event.LOST: State.IN_DOUBT,
            Event.RENAMED: State.IN_DOUBT,
            Event.ENDED: State.NONE,
        },
        State.IN_DOUBT: {
            Event.GRANTED: State.KEPT,
            Event.REFUSED: State.NONE,
            Event.UNKNOWN: State.NONE,
            Event.OUT_OF_STEP: State.IN_DOUBT,
            Event.LOST: State.IN_DOUBT,
            Event.ENDED: State.NONE,
        },
    },
)


class Place(NamedTuple):
    """What a broker is told of one partition."""

    offset: int
    leader_epoch: int
    last_epoch: int
    max_bytes: int


class Asked(NamedTuple):
    """What a request says: which session it belongs to, which partitions it names, and which the broker may forget."""

    session_id: int
    epoch: int
    named: Mapping[Key, Place]
    forgotten: Collection[Key] = ()

    @property
    def incremental(self) -> bool:
        """Whether the broker knows more than what is named."""
        return self.epoch > _FULL


def alone(wanted: Mapping[Key, Place]) -> Asked:
    """A request that belongs to no session."""
    return Asked(_NO_SESSION, _WITHOUT, wanted)


class FetchSession:
    """With one broker."""

    __slots__ = ("_asked", "_by_ids", "_epoch", "_id", "_known", "state")

    def __init__(self) -> None:
        self.state = State.NONE
        self._id = _NO_SESSION
        self._epoch = _FULL
        self._by_ids = False
        self._known: Mapping[Key, Place] = {}
        self._asked: Asked | None = None

    def ask(self, wanted: Mapping[Key, Place], *, by_ids: bool) -> Asked:
        """What to send, where ``wanted`` is to be read; it must not be changed afterwards.

        Each one that is part of the session has to end in ``answered`` or ``lost``.
        """
        if self._asked is not None:
            return alone(wanted)
        if self.state is State.KEPT and by_ids is not self._by_ids:
            self._see(Event.RENAMED)
        if self.state is State.KEPT:
            asked = Asked(self._id, self._epoch, *_difference(self._known, wanted))
        else:
            asked = Asked(self._id, _FULL, wanted)
        self._known, self._by_ids, self._asked = wanted, by_ids, asked
        return asked

    @property
    def id(self) -> int:
        """The broker's name for it; 0 while there is none."""
        return self._id

    def knows(self, wanted: Mapping[Key, Place]) -> bool:
        """Whether the broker keeps it, and was told exactly this last."""
        return self.state is State.KEPT and self._known is wanted

    def ask_again(self, moved: Mapping[Key, Place]) -> Asked | None:
        """What to send where all is wanted as before, but these elsewhere; None where ``ask`` has to say more."""
        if self.state is not State.KEPT or self._asked is not None:
            return None
        if moved:
            self._known = {**self._known, **moved}
        self._asked = asked = Asked(self._id, self._epoch, moved)
        return asked

    def answered(self, asked: Asked, error_code: int, session_id: int, told: Collection[Key]) -> None:
        """The answer to ``asked``; ``told`` are the partitions that it tells of."""
        if asked is not self._asked:
            return
        self._asked = None
        kept = self.state is State.KEPT and asked.epoch > _FULL and session_id == self._id != _NO_SESSION
        if kept and not error_code and self._known.keys() >= set(told):
            self._epoch = _FIRST if asked.epoch == _LAST else asked.epoch + 1
            return  # as with most answers: GRANTED once more, KEPT stays KEPT
        event = self._meaning(asked, error_code, session_id, told)
        if session_id > 0 and not asked.incremental:
            self._id = session_id
        self._epoch = _FIRST if not asked.incremental or asked.epoch == _LAST else asked.epoch + 1
        self._see(event)

    def lost(self, asked: Asked) -> None:
        """There will be no answer to ``asked``, or nobody hears it."""
        if asked is self._asked:
            self._asked = None
            self._see(Event.LOST)

    def in_doubt(self) -> None:
        """Nobody knows what became of what was asked last."""
        self._asked = None
        self._see(Event.LOST)

    def farewell(self) -> Asked | None:
        """What to send so that the broker keeps nothing any more; None if it keeps nothing. It is not waited for."""
        left = None if self._id == _NO_SESSION else Asked(self._id, _WITHOUT, {})
        self._asked = None
        self._see(Event.ENDED)
        return left

    def _meaning(self, asked: Asked, error_code: int, session_id: int, told: Collection[Key]) -> Event:
        if error_code == _UNKNOWN_ID:
            return Event.UNKNOWN
        if error_code or session_id < 0:
            return Event.OUT_OF_STEP
        if session_id == _NO_SESSION:
            return Event.REFUSED
        if asked.incremental:
            good = session_id == self._id and all(key in self._known for key in told)
        else:
            good = len(told) == len(asked.named) and all(key in asked.named for key in told)
        return Event.GRANTED if good else Event.OUT_OF_STEP

    def _see(self, event: Event) -> None:
        self.state = TABLE[self.state, event]
        if self.state is State.NONE:
            self._id = _NO_SESSION


def _difference(known: Mapping[Key, Place], wanted: Mapping[Key, Place]) -> tuple[Mapping[Key, Place], Collection[Key]]:
    """What is new or elsewhere, and what is not wanted any more."""
    if known == wanted:
        return {}, ()
    named = {key: place for key, place in wanted.items() if known.get(key) != place}
    return named, [key for key in known if key not in wanted]
