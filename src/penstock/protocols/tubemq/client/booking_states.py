"""The states of one partition as the consumer that holds it sees them: prose, table, walker.

A partition is **WANTED** until its broker is asked for it, **ASKED** until the broker answers. Then it is **IDLE**: the
next batch may be read. **READING** a request is on its way, **OUT** its batch is with the consumer, **CONFIRMING** the
broker is being told what became of it. **WAITING** it is left alone for a time, that flow control, an empty answer or
an error gave; **FROZEN** it is until the application wants it again. A partition that is to be given back is
**DRAINING** while something of it is under way, then **LEAVING** while its broker is told, and **GONE** in the end,
also when the broker gave it to somebody else. A broker that restarted remembers nobody: the partition is still this
consumer's as far as the master goes, so that it is WANTED again.

Three rules. First, at most one batch of a partition is out, and it has a token; whoever confirms shows the token, and
an answer or a confirmation with an old one is dropped before it gets here. Second, only a confirmation makes a batch
consumed; everything else that ends READING, OUT or CONFIRMING means that it will be read again. Third, where a
partition rests when nothing of it is under way (``REST``) is FROZEN if the application froze it, WAITING if its time
has not come, IDLE otherwise. Pairs without a row cannot happen.

Source: Apache InLong TubeMQ 2.x, ``RmtDataCache`` and ``BaseMessageConsumer`` of the Java client.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.groups.state_machine import Table

__all__ = ["REST", "TABLE", "Booked", "Effect", "Event", "Row", "State"]


class State(enum.Enum):
    """Where a partition stands."""

    WANTED = "wanted"
    ASKED = "asked for"
    IDLE = "idle"
    READING = "being read"
    OUT = "handed out"
    CONFIRMING = "being confirmed"
    WAITING = "waiting"
    FROZEN = "frozen"
    DRAINING = "draining"
    LEAVING = "being given back"
    GONE = "gone"


class Event(enum.Enum):
    """What happens to it."""

    ASK = "its broker is asked for it"
    ACCEPTED = "the broker gave it"
    POSTPONED = "the broker did not give it now"
    REFUSED = "the broker will not give it"
    SELECT = "a batch is asked for"
    DELIVERED = "a batch came"
    FAILED = "no batch came"
    CONFIRM = "the application says what became of the batch"
    CONFIRMED = "the broker knows"
    UNCONFIRMED = "the broker could not be told"
    EXPIRED = "the application took too long"
    DUE = "its time has come"
    FREEZE = "the application wants none of it"
    THAW = "the application wants it again"
    REVOKE = "it is to be given back"
    OVERDUE = "giving it back cannot wait any longer"
    RELEASED = "the broker was told that it is free"
    FORGOTTEN = "the broker does not remember who has it"
    LOST = "the broker gave it to another"


class Effect(enum.Enum):
    """What a row does beside changing the state."""

    NEW_TOKEN = "a batch is out from here on"
    FORGET_TOKEN = "whatever is out cannot be confirmed any more"
    TAKE_BACK = "the last batch was not consumed"
    COUNT = "the last batch was, or was not, consumed, as the confirmation says"
    FREEZE = "rest frozen"
    THAW = "do not rest frozen"


REST: Final = None
"""The next state is where the partition rests."""


class Row(NamedTuple):
    """One cell of the table; ``next`` None is ``REST``."""

    next: State | None
    effects: tuple[Effect, ...] = ()


_S: Final = State
_E: Final = Event
_F: Final = Effect
_BACK: Final = (_F.FORGET_TOKEN, _F.TAKE_BACK)
_LOSE: Final = Row(_S.GONE, _BACK)
_FORGOTTEN: Final = Row(_S.WANTED, _BACK)


def _while(state: State) -> Mapping[Event, Row]:
    """What the application may say at any time."""
    return {_E.FREEZE: Row(state, (_F.FREEZE,)), _E.THAW: Row(state, (_F.THAW,))}


_RESTING: Final[Mapping[Event, Row]] = {
    _E.ASK: Row(_S.ASKED),
    _E.FREEZE: Row(_S.FROZEN, (_F.FREEZE,)),
    _E.THAW: Row(REST, (_F.THAW,)),
    _E.REVOKE: Row(_S.LEAVING),
    _E.FORGOTTEN: _FORGOTTEN,
    _E.LOST: _LOSE,
}

_ROWS: Final[Mapping[State, Mapping[Event, Row]]] = {
    _S.WANTED: {
        **_while(_S.WANTED),
        _E.ASK: Row(_S.ASKED),
        _E.REVOKE: Row(_S.GONE),
        _E.FORGOTTEN: _FORGOTTEN,
        _E.LOST: _LOSE,
    },
    _S.ASKED: {
        **_while(_S.ASKED),
        _E.ACCEPTED: Row(REST),
        _E.POSTPONED: Row(_S.WANTED, _BACK),
        _E.REFUSED: _LOSE,
        _E.REVOKE: Row(_S.DRAINING),
        # The question is on its way to the same broker; its answer decides.
        _E.FORGOTTEN: Row(_S.ASKED, _BACK),
        _E.LOST: Row(_S.ASKED, _BACK),
    },
    _S.IDLE: {**_RESTING, _E.SELECT: Row(_S.READING, (_F.NEW_TOKEN,))},
    _S.WAITING: {**_RESTING, _E.DUE: Row(_S.IDLE)},
    _S.FROZEN: {**_RESTING, _E.DUE: Row(_S.FROZEN)},
    _S.READING: {
        **_while(_S.READING),
        _E.DELIVERED: Row(_S.OUT),
        _E.FAILED: Row(REST, _BACK),
        # Asked for at another place: what is under way is not wanted any more.
        _E.ASK: Row(_S.ASKED, _BACK),
        _E.REVOKE: Row(_S.DRAINING),
        _E.FORGOTTEN: _FORGOTTEN,
        _E.LOST: _LOSE,
    },
    _S.OUT: {
        **_while(_S.OUT),
        _E.CONFIRM: Row(_S.CONFIRMING),
        _E.EXPIRED: Row(REST, _BACK),
        _E.ASK: Row(_S.ASKED, _BACK),
        _E.REVOKE: Row(_S.DRAINING),
        _E.FORGOTTEN: _FORGOTTEN,
        _E.LOST: _LOSE,
    },
    _S.CONFIRMING: {
        **_while(_S.CONFIRMING),
        _E.CONFIRMED: Row(REST, (_F.FORGET_TOKEN, _F.COUNT)),
        # The application hears of it and may try again, until its time is over.
        _E.UNCONFIRMED: Row(_S.OUT),
        _E.EXPIRED: Row(_S.CONFIRMING),
        _E.ASK: Row(_S.ASKED, _BACK),
        _E.REVOKE: Row(_S.DRAINING),
        _E.FORGOTTEN: _FORGOTTEN,
        _E.LOST: _LOSE,
    },
    _S.DRAINING: {
        **_while(_S.DRAINING),
        _E.ACCEPTED: Row(_S.LEAVING),
        _E.POSTPONED: Row(_S.GONE, _BACK),
        _E.REFUSED: _LOSE,
        # Nobody has seen the batch that came, and nobody will here.
        _E.DELIVERED: Row(_S.LEAVING, _BACK),
        _E.FAILED: Row(_S.LEAVING, _BACK),
        _E.CONFIRM: Row(_S.DRAINING),
        _E.CONFIRMED: Row(_S.LEAVING, (_F.FORGET_TOKEN, _F.COUNT)),
        _E.UNCONFIRMED: Row(_S.DRAINING),
        _E.EXPIRED: Row(_S.LEAVING, _BACK),
        _E.OVERDUE: Row(_S.LEAVING, _BACK),
        _E.REVOKE: Row(_S.DRAINING),
        _E.FORGOTTEN: _LOSE,
        _E.LOST: _LOSE,
    },
    _S.LEAVING: {
        **_while(_S.LEAVING),
        _E.REVOKE: Row(_S.LEAVING),
        _E.OVERDUE: Row(_S.LEAVING),
        _E.RELEASED: Row(_S.GONE),
        _E.FORGOTTEN: _LOSE,
        _E.LOST: _LOSE,
    },
    _S.GONE: {
        **_while(_S.GONE),
        _E.REVOKE: Row(_S.GONE),
        _E.OVERDUE: Row(_S.GONE),
        _E.RELEASED: Row(_S.GONE),
        _E.FORGOTTEN: Row(_S.GONE),
        _E.LOST: Row(_S.GONE),
    },
}

TABLE: Final = Table("a partition", _ROWS)


class Booked:
    """Walks the table for one partition. ``now`` is monotonic seconds, passed in.

    ``token`` names the batch that is out, 0 while none is. ``until`` is when a waiting partition's time comes,
    ``confirm_by`` when that of the batch that is out is over, None while nobody waits for it. ``consumed`` is what the
    next request has to say about the last batch.
    """

    __slots__ = ("confirm_by", "consumed", "frozen", "state", "token", "until")

    def __init__(self) -> None:
        self.state = State.WANTED
        self.token = 0
        self.until = 0.0
        self.confirm_by: float | None = None
        self.consumed = False
        self.frozen = False

    def see(self, event: Event, now: float, *, token: int = 0, wait_s: float = 0.0, consumed: bool = False) -> State:
        """Take a step. ``token`` is the new batch's (SELECT); ``wait_s`` how long to rest then; ``consumed`` what a
        confirmation says. Raises UndefinedTransition."""
        row = TABLE[self.state, event]
        if row.next is REST and wait_s > 0:
            self.until = now + wait_s
        for effect in row.effects:
            self._do(effect, token, consumed)
        self.state = self._rest(now) if row.next is None else row.next
        return self.state

    def tick(self, now: float) -> State:
        """What time alone does: a wait that is over, an application that took too long."""
        if self.state in (State.WAITING, State.FROZEN) and now >= self.until:
            self.see(Event.DUE, now)
        if self.state in (State.OUT, State.DRAINING) and self.confirm_by is not None and now >= self.confirm_by:
            self.see(Event.EXPIRED, now)
        return self.state

    def _do(self, effect: Effect, token: int, consumed: bool) -> None:
        if effect is Effect.NEW_TOKEN:
            self.token = token
        elif effect is Effect.FORGET_TOKEN:
            self.token, self.confirm_by = 0, None
        elif effect is Effect.TAKE_BACK:
            self.consumed = False
        elif effect is Effect.COUNT:
            self.consumed = consumed
        else:
            self.frozen = effect is Effect.FREEZE

    def _rest(self, now: float) -> State:
        if self.frozen:
            return State.FROZEN
        return State.WAITING if now < self.until else State.IDLE
