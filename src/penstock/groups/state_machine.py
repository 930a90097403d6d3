"""Table: what a state machine's states make of each event, and the one error for a pair that its table leaves out.

Every machine of this project is prose, then such a table, then code that follows it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Generic, NoReturn, TypeVar

__all__ = ["Key", "Table", "UndefinedTransition"]

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)
R = TypeVar("R")


class Key(enum.Enum):
    """An enum that is looked up by: each member is hashed as the one object that it is.

    Enum's own hash is a function of Python that hashes the name, and a heartbeat looks up a dozen times.
    """

    __hash__ = object.__hash__


class UndefinedTransition(RuntimeError):
    """An event that cannot happen in a state did happen: a bug of penstock, not a mistake of its user or of a peer.

    So it is no ``PenstockError``: nobody who handles those can make it right, and it must be seen.
    """


class Table(dict[tuple[S, E], R], Generic[S, E, R]):
    """Rows by (state, event): the next state, or that and more. ``what`` is whose state it is, for the error.

    >>> class State(enum.Enum):
    ...     OPEN = "open"
    ...     SHUT = "shut"
    >>> class Event(enum.Enum):
    ...     CLOSE = "somebody closes it"
    >>> table = Table("a door", {State.OPEN: {Event.CLOSE: State.SHUT}})
    >>> table[State.OPEN, Event.CLOSE]
    <State.SHUT: 'shut'>
    >>> table[State.SHUT, Event.CLOSE]
    Traceback (most recent call last):
    penstock.groups.state_machine.UndefinedTransition: a door that is SHUT (shut) cannot see CLOSE (somebody closes it)
    """

    def __init__(self, what: str, rows: Mapping[S, Mapping[E, R]]) -> None:
        super().__init__(((state, event), row) for state, events in rows.items() for event, row in events.items())
        self.what = what

    def __missing__(self, pair: tuple[S, E]) -> NoReturn:
        state, event = pair
        raise UndefinedTransition(
            f"{self.what} that is {state.name} ({state.value}) cannot see {event.name} ({event.value})"
        )
