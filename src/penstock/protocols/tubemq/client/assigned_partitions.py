"""Partitions that a consumer holds at brokers: taken, kept by heartbeats, given back; the table of their states."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from penstock.config.client import ClientLog, whose
from penstock.errors import PenstockError, ServerError
from penstock.groups.state_machine import Table
from penstock.model import Node, Offset, Partition
from penstock.protocols.tubemq.client.calls import Booking, Position
from penstock.protocols.tubemq.client.cluster import Shared
from penstock.protocols.tubemq.errors import Code, error_of
from penstock.protocols.tubemq.wire.rpc import ReadStatus

__all__ = [
    "GIVEN_UP_AT_ONCE",
    "REST",
    "TABLE",
    "AssignedPartitions",
    "Booked",
    "Effect",
    "Event",
    "Holding",
    "LastPosition",
    "LastPositions",
    "Row",
    "State",
    "not_ours",
]


# The states of one partition as the consumer that holds it sees them: prose, table, walker.
#
# A partition is **WANTED** until its broker is asked for it, **ASKED** until the broker answers. Then it is **IDLE**:
# the next batch may be read. **READING** a request is on its way, **OUT** its batch is with the consumer,
# **CONFIRMING** the broker is being informed of its outcome. **WAITING** it is left alone for a time, that flow
# control, an empty answer or an error gave; **FROZEN** it is until the application wants it again. A partition that is
# to be given back is **DRAINING** while something of it is under way, then **LEAVING** while its broker is informed,
# and **GONE** in the end, also when the broker gave it to another member. A broker that restarted has no bookings: the
# partition is still this consumer's as far as the master goes, so that it is WANTED again.
#
# Three rules. First, at most one batch of a partition is out, and it has a token; a confirmation shows the token, and
# an answer or a confirmation with an old one is dropped before it gets here. Second, only a confirmation makes a batch
# consumed; everything else that ends READING, OUT or CONFIRMING means that it will be read again. Third, where a
# partition rests when nothing of it is under way (``REST``) is FROZEN if the application froze it, WAITING if its time
# has not come, IDLE otherwise. Pairs without a row cannot happen.
#
# Source: Apache InLong TubeMQ 2.x, ``RmtDataCache`` and ``BaseMessageConsumer`` of the Java client.
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
    UNCONFIRMED = "the broker could not be informed"
    EXPIRED = "the application took too long"
    DUE = "its time has come"
    FREEZE = "the application wants none of it"
    THAW = "the application wants it again"
    REVOKE = "it is to be given back"
    OVERDUE = "giving it back cannot wait any longer"
    RELEASED = "the broker knows that it is free"
    FORGOTTEN = "the broker does not remember who has it"
    LOST = "the broker gave it to another"


class Effect(enum.Enum):
    """What a row does besides changing the state."""

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
        # The application has not seen the batch that came, and will not see it here.
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
    ``confirm_by`` when that of the batch that is out is over, None while none is awaited. ``consumed`` is what the
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


# Holdings: the partitions that one consumer holds at brokers: taken, kept by heartbeats, given back.
#
# Each walks the table of `State`. Source: Apache InLong TubeMQ 2.x, ``SimplePullMessageConsumer`` and
# ``BaseMessageConsumer`` of the Java client.
GIVEN_UP_AT_ONCE = frozenset({Code.PARTITION_OCCUPIED, Code.CERTIFICATE_FAILURE})
"""Refusals of a registration that asking again at once would not change."""

_BETWEEN_ROUNDS_S = 1.0
_HELD = frozenset(State) - {State.WANTED, State.ASKED, State.LEAVING, State.GONE}
_NOT_YET = frozenset({State.WANTED, State.ASKED})
_MAY_ASK = frozenset(state for state, event in TABLE if event is Event.ASK)


class Holding(Struct):
    """One partition. ``offset`` is where its next batch begins, as far as its broker has said; ``rounds`` counts
    registrations that failed since the last one that did not; ``start`` is where the next registration moves it.
    ``asked_at``: when the broker was last asked for the offset. ``had_nothing``: the last answer had no records.
    ``reached``: the token of a batch, and the offset in it that the application is through with. ``batch_end``: where
    the last batch ends at the earliest."""

    partition: Partition
    node: Node
    booked: Booked = field(default_factory=Booked)
    offset: int = -1
    max_offset: int = -1
    rounds: int = 0
    start: int | Offset | None = None
    asked_at: float = -math.inf
    had_nothing: bool = False
    reached: tuple[int, int] = (0, 0)
    batch_end: int = -1

    @property
    def held(self) -> bool:
        """Whether its broker has given it to us."""
        return self.booked.state in _HELD


class LastPosition(Struct, frozen=True):
    """Where a partition stood when this member lost it: ``offset`` is confirmed (-1: unknown), ``start`` was wanted."""

    offset: int
    start: int | Offset | None = None


LastPositions: TypeAlias = dict[Partition, LastPosition]
"""Of the partitions that a broker took away without giving them to another member."""


class AssignedPartitions:
    """All of one consumer. ``lost`` collects those that were taken away, until the engine asks.

    ``last_positions`` outlives this object. A broker that was killed has forgotten up to 11 s of confirmed offsets
    (of a new group all of them), but this member has not. So each registration that names no place of its own sees to
    it that the group stands at least where this member had confirmed; see `register`.
    """

    def __init__(self, shared: Shared, group: str, client_id: str, last_positions: LastPositions | None = None) -> None:
        self._shared = shared
        self._channel = shared.channel
        self._options = shared.options
        self._all: dict[Partition, Holding] = {}
        self._known: set[Partition] = set()
        self._last_positions: LastPositions = {} if last_positions is None else last_positions
        self._filters: dict[str, tuple[str, ...]] = {}
        self.group = group
        self._log = ClientLog("penstock.group", whose(shared.options.client_id, group))
        self.client_id = client_id
        self.priority = shared.options.tube.query_priority
        self.lost: set[Partition] = set()

    def __iter__(self) -> Iterator[Holding]:
        return iter(list(self._all.values()))

    def get(self, partition: Partition) -> Holding | None:
        """None for one that is not ours, nor wanted."""
        return self._all.get(partition)

    @property
    def held(self) -> Mapping[Partition, Holding]:
        """Those whose brokers have given them to us."""
        return {partition: holding for partition, holding in self._all.items() if holding.held}

    @property
    def unsettled(self) -> Collection[Partition]:
        """Those whose brokers have not decided yet."""
        return [partition for partition, holding in self._all.items() if holding.booked.state in _NOT_YET]

    def want(self, partition: Partition, node: Node, start: int | None = None) -> Holding:
        """This one is to be ours."""
        holding = self._all.get(partition)
        if holding is None:
            last = self._last_positions.pop(partition, None) or LastPosition(-1)
            start = last.start if start is None else start
            holding = self._all[partition] = Holding(partition, node, start=start, offset=last.offset)
        return holding

    def booking(self, holding: Holding) -> Booking:
        """As brokers' calls want it."""
        tube = self._options.tube
        bound = tube.bound_consume
        return Booking(
            self.client_id,
            self.group,
            holding.partition,
            filters=self.filters_of(holding.partition.topic),
            priority=self.priority,
            session_key=tube.session_key if bound else "",
        )

    def filters_of(self, topic: str) -> tuple[str, ...]:
        """The filter items of a topic; none: everything is wanted."""
        if topic not in self._filters:
            self._filters[topic] = tuple(self._options.filters_of(topic))
        return self._filters[topic]

    # Taking.

    def due_s(self, now: float) -> float | None:
        """Seconds until a registration is due; None if there is none."""
        waits = [each.booked.until - now for each in self._all.values() if each.booked.state is State.WANTED]
        return max(0.0, min(waits)) if waits else None

    async def register_due(self, rounds: int) -> frozenset[Partition]:
        """Ask for what is wanted and due, each at most ``rounds`` times in all; returns those that are ours now."""
        now = self._channel.monotonic()
        due = [each for each in self._all.values() if each.booked.state is State.WANTED and each.booked.until <= now]
        _all_through(await self._channel.gather([self._register_quietly(each, rounds) for each in due]))
        return frozenset(each.partition for each in due if each.held)

    async def register(self, holding: Holding, at: int | Offset | None = None, *, rounds: int = 1) -> int:
        """Ask the broker for one, moving the group to ``at`` first; returns where its next batch begins.

        Without ``at`` the broker says where the group stands. If that is before the place which this member had
        confirmed, the broker has lost the confirmation, and the group is moved there again; but not if the partition
        ends before it: then its last messages are lost, the offsets are given out again, and reading on from the
        broker's place misses none of the new messages.

        Raises what the broker answers; after ``rounds`` failures the partition is given up. What is being asked for, or
        given back, is not asked for: an engine that still asks for it gets "not ours".
        """
        booked = holding.booked
        if booked.state not in _MAY_ASK:
            raise not_ours(holding.partition)
        booked.see(Event.ASK, self._channel.monotonic())
        if at is not None:
            holding.start = at  # kept for the next attempt, should this one fail
        wanted = holding.start
        latest = wanted is Offset.LATEST
        start = 0 if wanted is Offset.EARLIEST else None if wanted is None or latest else int(wanted)
        try:
            position = await self._shared.brokers.register(
                holding.node.endpoint,
                self.booking(holding),
                start=start,
                read_status=ReadStatus.FROM_MAX_ALWAYS if latest else self._read_status(holding.partition),
            )
            if wanted is None:
                position = await self._moved_to_confirmed(holding, position)
        except PenstockError as error:
            self._not_registered(holding, error, rounds)
            raise
        holding.offset, holding.max_offset = position.offset, position.max_offset
        holding.rounds, holding.start = 0, None
        self._known.add(holding.partition)
        if booked.state in (State.ASKED, State.DRAINING):
            booked.see(Event.ACCEPTED, self._channel.monotonic())
            await self.settle(holding)
        return position.offset

    async def _moved_to_confirmed(self, holding: Holding, found: Position) -> Position:
        confirmed, partition = holding.offset, holding.partition
        if found.offset >= confirmed:
            return found
        if found.max_offset < confirmed:
            self._log.warning(
                "%s ends at %d on broker %s, before %d, which was confirmed: the broker has lost its last messages."
                " Reading goes on at %d, where the broker has the group: some messages may come twice",
                partition, found.max_offset, holding.node.name, confirmed, found.offset,
            )  # fmt: skip
            return found
        self._log.info(
            "broker %s has group %s at %d of %s, and forgot that %d was confirmed: the group is moved there",
            holding.node.name, self.group, found.offset, partition, confirmed,
        )  # fmt: skip
        return await self._shared.brokers.register(holding.node.endpoint, self.booking(holding), start=confirmed)

    async def _register_quietly(self, holding: Holding, rounds: int) -> None:
        try:
            await self.register(holding, rounds=rounds)
        except PenstockError as error:
            self._log.warning("%s could not be taken: %s", holding.partition, error)

    def _not_registered(self, holding: Holding, error: PenstockError, rounds: int) -> None:
        booked = holding.booked
        if booked.state not in (State.ASKED, State.DRAINING):
            return
        holding.rounds += 1
        final = isinstance(error, ServerError) and error.code in GIVEN_UP_AT_ONCE
        now = self._channel.monotonic()
        if final or holding.rounds >= rounds:
            booked.see(Event.REFUSED, now)
            self._gone(holding, lost=True, keep=not final)
            return
        if booked.see(Event.POSTPONED, now) is State.GONE:
            self._gone(holding, lost=False, keep=True)
        booked.until = now + _BETWEEN_ROUNDS_S

    def _read_status(self, partition: Partition) -> ReadStatus:
        """Where a new group begins: said only when the partition is taken for the first time in this client's life."""
        if partition in self._known:
            return ReadStatus.NORMAL
        return ReadStatus(self._options.position.value + 1)

    # Keeping.

    async def beat(self) -> None:
        """One heartbeat to each broker that something is held at. Errors are logged; they may pass."""
        by_node: dict[Node, list[Partition]] = {}
        for holding in self.held.values():
            by_node.setdefault(holding.node, []).append(holding.partition)
        _all_through(await self._channel.gather([self._beat(node, held) for node, held in by_node.items()]))

    async def _beat(self, node: Node, partitions: Sequence[Partition]) -> None:
        try:
            failures = await self._shared.brokers.heartbeat(node, self.client_id, self.group, partitions, self.priority)
        except ServerError as error:
            if error.code != Code.CERTIFICATE_FAILURE:
                self._log.warning("broker %s refused a heartbeat: %s", node.name, error)
                return
            failures = [(error.code, partition) for partition in partitions]
        except PenstockError as error:
            # The broker counts 30 s; by then it is back and knows us, or the master takes its partitions from everyone.
            self._log.warning("no heartbeat reached broker %s: %s", node.name, error)
            return
        for code, partition in failures:
            if (holding := self._all.get(partition)) is not None and holding.held:
                self.note_lost(holding, code)

    def note_lost(self, holding: Holding, code: int) -> None:
        """The broker says that this one is not ours. Raises nothing: the next read finds it gone."""
        now = self._channel.monotonic()
        forgotten = code == Code.HB_NO_NODE
        self._log.warning("broker %s: %s", holding.node.name, self.error(holding, code))
        holding.rounds = 0
        holding.booked.until = now
        if forgotten:
            token, reached = holding.reached
            if token and token == holding.booked.token:
                holding.offset = max(holding.offset, reached)
        if holding.booked.see(Event.FORGOTTEN if forgotten else Event.LOST, now) is State.GONE:
            self._gone(holding, lost=True, keep=forgotten)

    def error(self, holding: Holding, code: int, text: str = "") -> ServerError:
        """What a code means for this one."""
        partition = holding.partition
        return error_of(code, text, topic=partition.topic, partition=partition.id, node=str(holding.node.endpoint))

    # Giving back.

    def revoke(self, partitions: Iterable[Partition]) -> frozenset[Partition]:
        """Nothing new of these; returns those that have to be given back."""
        now = self._channel.monotonic()
        found = set()
        for partition in partitions:
            holding = self._all.get(partition)
            if holding is None:
                continue
            if holding.booked.see(Event.REVOKE, now) is State.GONE:
                self._gone(holding, lost=False, keep=True)
            else:
                found.add(partition)
        return frozenset(found)

    async def give_back(self, partitions: Iterable[Partition], *, if_out: bool = False) -> None:
        """Tell their brokers that others may have them. ``if_out``: whether a batch that is out counts as consumed."""
        leaving = [self._all[partition] for partition in self.revoke(partitions)]
        now = self._channel.monotonic()
        for holding in leaving:
            if holding.booked.state is State.DRAINING:
                was_out = holding.booked.confirm_by is not None
                token, reached = holding.reached
                holding.start = reached if was_out and token == holding.booked.token else None
                holding.booked.see(Event.OVERDUE, now)
                holding.booked.consumed = was_out and if_out
        _all_through(await self._channel.gather([self._leave(holding) for holding in leaving]))

    async def give_back_all(self) -> None:
        """Everything."""
        await self.give_back(list(self._all))

    async def settle(self, holding: Holding) -> None:
        """Called where something that was under way has ended."""
        if holding.booked.state is State.LEAVING:
            await self._leave(holding)

    async def _leave(self, holding: Holding) -> None:
        endpoint, booking, consumed = holding.node.endpoint, self.booking(holding), holding.booked.consumed
        keep = False
        try:
            if holding.start is not None and not consumed:
                await self._shared.brokers.register(endpoint, booking, start=holding.start)
            await self._shared.brokers.unregister(endpoint, booking, consumed=consumed)
        except PenstockError as error:
            # It is free all the same: at once if the broker does not know us, else when no heartbeat comes.
            self._log.info("giving back %s: %s", holding.partition, error)
            keep = not isinstance(error, ServerError) or error.code != Code.DUPLICATE_PARTITION
        holding.booked.see(Event.RELEASED, self._channel.monotonic())
        self._gone(holding, lost=False, keep=keep)

    def _gone(self, holding: Holding, *, lost: bool, keep: bool = False) -> None:
        """``keep`` its position for the next registration: no other member has the partition, as far as is known."""
        if self._all.get(holding.partition) is holding:
            del self._all[holding.partition]
            if lost:
                self.lost.add(holding.partition)
            if keep and (holding.offset >= 0 or holding.start is not None):
                self._last_positions[holding.partition] = LastPosition(holding.offset, holding.start)


def _all_through(outcomes: Iterable[BaseException | None]) -> None:
    """Raise an unhandled error: the peer's errors are handled where they occur, so this is a bug."""
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def not_ours(partition: Partition) -> ServerError:
    """What is raised for a partition that this consumer does not have, or not now. The engine may try again."""
    text = "the partition is not this consumer's"
    error = error_of(Code.HB_NO_NODE, text, topic=partition.topic, partition=partition.id, node=partition.node)
    error.retriable = True  # the engine hears of it with the next heartbeat
    return error
