"""Table: the transitions of a state machine, and the error for a pair of state and event that is not in the table.

Every state machine of this project is prose, then such a table, then code that follows it.
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
    """An enum for dictionary keys: members are hashed by identity.

    Enum's own hash is a Python function that hashes the name, and a heartbeat makes a dozen look-ups.
    """

    __hash__ = object.__hash__


class UndefinedTransition(RuntimeError):
    """An event happened in a state where it cannot: a bug of penstock, not a mistake of its user or of a peer.

    So it is not a ``PenstockError``: code that handles those cannot correct it, and it must be noticed.
    """


class Table(dict[tuple[S, E], R], Generic[S, E, R]):
    """Rows by (state, event): the next state, possibly with more. ``what`` names the owner of the state in the error.

    >>> class State(enum.Enum):
    ...     OPEN = "open"
    ...     SHUT = "shut"
    >>> class Event(enum.Enum):
    ...     CLOSE = "it is closed"
    >>> table = Table("a door", {State.OPEN: {Event.CLOSE: State.SHUT}})
    >>> table[State.OPEN, Event.CLOSE]
    <State.SHUT: 'shut'>
    >>> table[State.SHUT, Event.CLOSE]
    Traceback (most recent call last):
    penstock.groups.state_machine.UndefinedTransition: a door that is SHUT (shut) cannot see CLOSE (it is closed)
    """

    def __init__(self, what: str, rows: Mapping[S, Mapping[E, R]]) -> None:
        super().__init__(((state, event), row) for state, events in rows.items() for event, row in events.items())
        self.what = what

    def __missing__(self, pair: tuple[S, E]) -> NoReturn:
        state, event = pair
        raise UndefinedTransition(
            f"{self.what} that is {state.name} ({state.value}) cannot see {event.name} ({event.value})"
        )
