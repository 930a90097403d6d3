"""Where something that registers at the master stands: a table.

Two rules. Only the master's own answer makes anybody registered; and only what says that the master does not know us
(any more) undoes it: a heartbeat that got lost proves nothing, because the master counts 30 s before it forgets.

| state | event | state |
| --- | --- | --- |
| created | register | registering |
| registering | accepted | registered |
| registering | failed | lost |
| registered | unknown (411, or another master) | lost |
| registered | register (the topics changed) | registering |
| lost | register | registering |
| any | close | closed |

What is late changes nothing: an answer to a registration that a close overtook, a second 411 for the same loss.
"""

from __future__ import annotations

import enum
from typing import Final

from penstock.errors import Closed
from penstock.groups.state_machine import Table

__all__ = ["TABLE", "Registration", "RegistrationEvent", "RegistrationState", "after"]


class RegistrationState(enum.Enum):
    """Where it stands."""

    CREATED = "created"
    REGISTERING = "registering"
    REGISTERED = "registered"
    LOST = "lost"
    CLOSED = "closed"


class RegistrationEvent(enum.Enum):
    """What happened."""

    REGISTER = "register"
    ACCEPTED = "accepted"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CLOSE = "close"


_S = RegistrationState
_E = RegistrationEvent

TABLE: Final = Table(
    "a registration",
    {
        _S.CREATED: {_E.REGISTER: _S.REGISTERING, _E.CLOSE: _S.CLOSED},
        _S.REGISTERING: {
            _E.REGISTER: _S.REGISTERING,
            _E.ACCEPTED: _S.REGISTERED,
            _E.FAILED: _S.LOST,
            _E.UNKNOWN: _S.REGISTERING,
            _E.CLOSE: _S.CLOSED,
        },
        _S.REGISTERED: {
            _E.REGISTER: _S.REGISTERING,
            _E.ACCEPTED: _S.REGISTERED,
            _E.FAILED: _S.REGISTERED,
            _E.UNKNOWN: _S.LOST,
            _E.CLOSE: _S.CLOSED,
        },
        _S.LOST: {
            _E.REGISTER: _S.REGISTERING,
            _E.ACCEPTED: _S.REGISTERED,
            _E.FAILED: _S.LOST,
            _E.UNKNOWN: _S.LOST,
            _E.CLOSE: _S.CLOSED,
        },
        _S.CLOSED: {
            _E.ACCEPTED: _S.CLOSED,
            _E.FAILED: _S.CLOSED,
            _E.UNKNOWN: _S.CLOSED,
            _E.CLOSE: _S.CLOSED,
        },
    },
)


def after(state: RegistrationState, event: RegistrationEvent) -> RegistrationState:
    """The next state. Raises Closed for registering what was closed, UndefinedTransition for what cannot happen."""
    if (state, event) == (_S.CLOSED, _E.REGISTER):
        raise Closed("this client was closed")
    return TABLE[state, event]


class Registration:
    """Walks the table."""

    def __init__(self) -> None:
        self.state = RegistrationState.CREATED

    def see(self, event: RegistrationEvent) -> None:
        """Take a step."""
        self.state = after(self.state, event)

    @property
    def registered(self) -> bool:
        """Whether the master knows us, as far as we know."""
        return self.state is RegistrationState.REGISTERED
