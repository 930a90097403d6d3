"""Front: one protocol's server side, over the node's services; what it logs of refusals, and what it counts."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.concurrency.runtime import Deferred, Timer
from penstock.errors import UsageError
from penstock.interfaces.framing import Buffers, Frame, Framing, Pieces
from penstock.model import Endpoint

__all__ = [
    "BOUNDS_S",
    "EVERY_S",
    "LINES",
    "OTHER",
    "Asker",
    "Codes",
    "Front",
    "Handle",
    "HangsUpIdle",
    "HasSideDoors",
    "Meter",
    "Meters",
    "Name",
    "OpenDoor",
    "Opens",
    "OpensDoors",
    "Peer",
    "Refusal",
    "Refusals",
    "Served",
    "Session",
    "SharesGroups",
    "Wording",
    "check_name",
]


@dataclass(frozen=True, slots=True)
class Peer:
    """The client at the other end: its address, a way to push framed bytes to it, and to hang up."""

    address: Endpoint
    push: Callable[[Buffers], None]
    hang_up: Callable[[], None]


class Session(Protocol):
    @property
    def ordered(self) -> bool: ...

    @property
    def at_once(self) -> bool:
        """Whether `handle` is begun where its frame arrives, in no task: what needs no waiting is answered there.

        For that nothing before its first wait may ask for its task, so the enode has to be a near one (`Enode.near`).
        """
        ...

    def framing(self) -> Framing: ...

    async def handle(self, frame: Frame) -> Pieces | Deferred[Pieces] | None:
        """Serve one request: framed bytes to write, or None for no answer. Only unordered sessions answer later.

        A PenstockError raised here closes the connection (and only this one); anything else is a bug: it is logged
        and closes the connection too.
        """
        ...

    def lost(self) -> None:
        """The connection is gone; parked work of this session must be dropped."""
        ...


class Opens(Protocol):
    """What a listener needs of a front."""

    def session(self, peer: Peer) -> Session: ...


class Front(Opens, Protocol):
    @property
    def scheme(self) -> str:
        """URL scheme of its listeners: "kafka", "tubemq", "rocketmq"."""
        ...

    async def start(self) -> None:
        """Load state (groups, offsets); called once before the first session."""
        ...

    async def stop(self) -> None:
        """Answer or drop what is parked; called once, before the store closes."""
        ...


@runtime_checkable
class HasSideDoors(Protocol):
    """A front that is reached at further ports of its listener's address, where the port itself means something."""

    @property
    def side_doors(self) -> Mapping[int, Opens]:
        """Those that its options ask for (`penstock.config.snode.SidePorts`), by port."""
        ...


@runtime_checkable
class HangsUpIdle(Protocol):
    """A front whose protocol says how long a connection may be silent."""

    @property
    def idle_timeout_s(self) -> float:
        """Without a frame for so long, and nothing being served, a connection is closed."""
        ...


OpenDoor = Callable[[int, Opens], Awaitable[None]]
"""Listens at a further port of the same host. Raises OSError where it cannot be had."""


@runtime_checkable
class OpensDoors(Protocol):
    """A front that is reached at further ports which it may do without, or learns of while it runs."""

    async def open_doors(self, main: int, open_at: OpenDoor) -> None:
        """Called once all of the node's listeners listen, this front's at port ``main``."""
        ...


@runtime_checkable
class SharesGroups(Protocol):
    """A front that has one group membership with others like it, so that several may serve one address."""

    @property
    def siblings(self) -> int:
        """How many others it hears."""
        ...


# What fault injection in tests needs of a protocol: which API a request is of, and how an error answer looks.
Handle = Callable[[Frame], Awaitable[Pieces | None]]


class Wording(Protocol):
    """One protocol's part: names of APIs, and answers that say no."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name of an API or of an error that the protocol does not have."""
        ...

    def api_of(self, frame: Frame) -> str:
        """The API's name as the protocol spells it, "" for a request that cannot be read."""
        ...

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """An answer to ``frame`` that carries ``error`` wherever its API can; None where it takes no answer.

        ``handle`` gives the true answer, for requests that have no effect.
        """
        ...

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """The true answer with ``error`` written over its error codes."""
        ...


def check_name(whose: str, what: str, name: str, names: Collection[str]) -> None:
    """Raise UsageError, with the one that was likely meant, for a name that a protocol does not have."""
    if name not in names:
        from difflib import get_close_matches  # nodes have no use for it

        nearest = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else None
        raise UsageError(f"{whose} has no {what} named {name!r}", hint=hint)


# Refusals: a line in the node's log for each thing that a client was told no about, so that nobody has to ask twice.
#
# A line says who asked, what for, which code was answered, why, and what to do. A client that asks again and again is
# told of once a minute, with how many lines were held back. What is remembered of clients is bounded, and so are the
# lines of a minute, whatever clients call themselves and ask for.
_log = logging.getLogger("penstock.refused")

EVERY_S: Final = 60.0
"""How often one client is told of for one code and topic."""
LINES: Final = 100
"""In so many seconds at most, of all clients together."""
_EARLY_S: Final = 0.01
"""So much too soon a timer may ring."""
_MOST: Final = 1_000
_LONGEST: Final = 200

CallLater = Callable[[float, Callable[[], None]], Timer]


class Asker(NamedTuple):
    """Who asked: what it calls itself, empty if nothing, and where from."""

    name: str
    address: Endpoint


class Refusal(NamedTuple):
    """``api`` and ``code`` by their names; the code is 0 where the answer has none. ``topic`` and ``group`` are empty,
    ``partition`` is -1, where there is none.

    ``why`` and ``advice`` in words.
    """

    scheme: str
    asker: Asker
    api: str
    code: int
    name: str
    topic: str
    group: str
    why: str
    advice: str
    partition: int = -1

    def __str__(self) -> str:
        who = (
            f"client {_plain(self.asker.name)} at {self.asker.address}" if self.asker.name else str(self.asker.address)
        )
        number = f"-{self.partition}" if self.partition >= 0 else ""
        what = [f"topic {_plain(self.topic)}{number}"] if self.topic else []
        what += [f"group {_plain(self.group)}"] if self.group else []
        about = f" ({', '.join(what)})" if what else ""
        advice = f"; {_plain(self.advice)}" if self.advice else ""
        answer = f"{self.name} ({self.code})" if self.code else "at once"
        return f"{self.scheme}: {_plain(self.api)} of {who}{about} was answered {answer}: {_plain(self.why)}{advice}"


@dataclass(slots=True)
class _Told:
    """What was told last of one key, when its minute is over, and how often it happened since."""

    refusal: Refusal
    until: float
    held: int = 0


class Refusals:
    """A node's. ``now`` in seconds that never go back. Without ``later`` what was held back is told with the next line.

    >>> asker = Asker("billing", Endpoint("10.0.0.4", 51234))
    >>> print(Refusal("kafka", asker, "Fetch", 3, "UNKNOWN_TOPIC", "flights", "", "no such", "make it", 0))
    kafka: Fetch of client billing at 10.0.0.4:51234 (topic flights-0) was answered UNKNOWN_TOPIC (3): no such; make it
    >>> print(Refusal("kafka", asker, "Fetch", 0, "NONE", "", "", "9 fetches are held", "raise max_held"))
    kafka: Fetch of client billing at 10.0.0.4:51234 was answered at once: 9 fetches are held; raise max_held
    """

    def __init__(self, now: Callable[[], float], later: CallLater | None = None) -> None:
        self._now = now
        self._later = later
        self._told: dict[tuple[str, str, str, int, str], _Told] = {}
        self._begun = now()
        self._lines = self._unsaid = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Clients, codes and topics that are remembered."""
        return len(self._told)

    def tell(self, refusal: Refusal) -> None:
        """Write the line, or count it."""
        now = self._now()
        self._end_minutes(now)
        asker = refusal.asker
        about = refusal.topic or refusal.group
        key = (refusal.scheme, asker.name[:_LONGEST], asker.address.host, refusal.code, about[:_LONGEST])
        known = self._told.get(key)
        if known is not None:
            known.held += 1
        elif self._lines >= LINES or len(self._told) >= _MOST:
            self._unsaid += 1
        else:
            self._told[key] = _Told(_cut(refusal), now + EVERY_S)
            self._lines += 1
            _log.warning("%s", refusal)
            return
        if self._timer is None and self._later is not None:
            self._timer = self._later(EVERY_S, self._rung)

    def close(self) -> None:
        """Tell what was held back so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_minutes(float("inf"))

    def _rung(self) -> None:
        self._timer = None
        self._end_minutes(self._now() + _EARLY_S)
        if self._unsaid or any(each.held for each in self._told.values()):
            assert self._later is not None
            self._timer = self._later(EVERY_S, self._rung)

    def _end_minutes(self, now: float) -> None:
        """Say how many were held back of those whose minute is over; they come in the order of their minutes."""
        while self._told:
            key, each = next(iter(self._told.items()))
            if each.until > now:
                break
            del self._told[key]
            if each.held:
                _log.warning("%d more times in %d s: %s", each.held, EVERY_S, each.refusal)
        if now - self._begun >= EVERY_S:
            if self._unsaid:
                _log.warning(
                    "%d more refusals are not told one by one: %d lines a minute are; penstock_errors_total counts all",
                    self._unsaid,
                    LINES,
                )
            self._begun, self._lines, self._unsaid = now, 0, 0


def _cut(refusal: Refusal) -> Refusal:
    """Without what is too long to be remembered."""
    return Refusal(*(each[:_LONGEST] if isinstance(each, str) else each for each in refusal))  # type: ignore[arg-type]


def _plain(text: str) -> str:
    """In one line, and not too long: what clients say is nobody's log."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return short if short.isprintable() else short.encode("unicode_escape").decode()


# Meters: what a front has served, counted where requests pass anyway; read when somebody asks for a node's metrics.
#
# Counting is a few additions a request, never a call of the system, a lock or a text. What is counted is told apart by
# numbers that a protocol fixes (which request, which code), never by what clients say: so their count is bounded. What
# must not live here: names of metrics and their text (`penstock.snode.monitoring`), clocks.
BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
"""Upper ends of a histogram's buckets: from an append that waits for nothing to a poll that is held."""

OTHER: Final = -1
"""Stands for all requests that the protocol's front does not serve."""

Name = Callable[[int], str | None]
"""What a number is called; None where it is none of the protocol's."""


def _no_advice(_: int) -> str:
    """Where nobody knows any."""
    return ""


class Codes(NamedTuple):
    """What a protocol's codes are: their names, what a person can do about one, and which are everyday's answers.

    Of those in ``usual`` (nothing to read, ask again) nobody is told one by one.
    """

    name: Name
    advice: Callable[[int], str] = _no_advice
    usual: Collection[int] = frozenset()


def _never() -> float:
    """For who does not look at times."""
    return 0.0


class Served:
    """One kind of request: ``buckets`` are answers by `BOUNDS_S`, the last is of those that took longer."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.seconds = 0.0

    @property
    def count(self) -> int:
        """Answers."""
        return sum(self.buckets)


class Meter:
    """One front's. ``api``: a request by its number, ``code``: what a number in an answer says.

    ``now`` tells seconds of a clock that is finer than an event loop's, which may stand still for a turn. ``levels``
    are read, not counted: how much there is of something now, by the name of the metric.

    >>> meter = Meter("kafka", {0: "Produce"}.get, {3: "UNKNOWN_TOPIC_OR_PARTITION"}.get)
    >>> meter.answered(0, 0.0004)
    >>> meter.refused(0, 3)
    >>> meter.served[0].count, meter.errors
    (1, {(0, 3): 1})
    """

    __slots__ = ("_codes", "_refusals", "api", "code", "errors", "levels", "now", "scheme", "served")

    def __init__(
        self,
        scheme: str,
        api: Name,
        code: Name | Codes,
        now: Callable[[], float] = _never,
        refusals: Refusals | None = None,
    ) -> None:
        self.scheme = scheme
        self.now = now
        self.api = api
        self._codes = code if isinstance(code, Codes) else Codes(code)
        self.code = self._codes.name
        self._refusals = Refusals(now) if refusals is None else refusals
        self.served: dict[int, Served] = {}
        self.errors: dict[tuple[int, int], int] = {}
        self.levels: dict[str, Callable[[], int]] = {}

    def answered(self, api: int, seconds: float) -> None:
        """A request has got its answer, or all it will get, so long after it came."""
        row = self.served.get(api)
        if row is None:
            row = self.served[api] = Served()
        row.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        row.seconds += seconds

    def refused(self, api: int, code: int, times: int = 1) -> None:
        """An answer, or ``times`` parts of one, say no.

        Numbers without a name are counted as one: servers behind may lie.
        """
        key = (api, code if self.code(code) is not None else OTHER)
        self.errors[key] = self.errors.get(key, 0) + times

    def is_usual(self, code: int) -> bool:
        """Whether it is an everyday answer, which nobody is told of."""
        return code in self._codes.usual

    def tell(
        self,
        asker: Asker,
        api: int,
        code: int,
        *,
        topic: str = "",
        partition: int = -1,
        group: str = "",
        why: str = "",
        advice: str = "",
    ) -> None:
        """Say in the log what was refused, unless it is an everyday answer. Words that are missing are the code's."""
        if code in self._codes.usual:
            return
        name = self.code(code) or "a code without a name"
        self._refusals.tell(
            Refusal(
                self.scheme,
                asker,
                ("a request that is not served" if api == OTHER else self.api(api)) or f"request {api}",
                code,
                name,
                topic,
                group,
                why if why and why != name else name.replace("_", " ").lower(),
                advice or self._codes.advice(code),
                partition,
            )
        )


class Meters:
    """A node's, by scheme; ``refusals`` are told of in its log."""

    __slots__ = ("_fronts", "_now", "refusals")

    def __init__(self, now: Callable[[], float] = _never, refusals: Refusals | None = None) -> None:
        self._now = now
        self.refusals = Refusals(now) if refusals is None else refusals
        self._fronts: dict[str, Meter] = {}

    def front(self, scheme: str, api: Name, code: Name | Codes) -> Meter:
        """The meter of a front, made anew."""
        made = self._fronts[scheme] = Meter(scheme, api, code, self._now, self.refusals)
        return made

    @property
    def fronts(self) -> Mapping[str, Meter]:
        """All of them."""
        return self._fronts
