"""Front: one protocol's server side, over the node's services.

`Refusals` log what clients were refused, and `Meter` counts what a front serves. `Wording` is what fault injection in
tests needs of a protocol.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

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
    "Meter",
    "Meters",
    "Name",
    "OpenDoor",
    "Opens",
    "Peer",
    "Refusal",
    "Refusals",
    "Served",
    "Session",
    "Wording",
    "check_name",
]


class Peer(Struct, frozen=True):
    """The client at the other end: its address, and functions that push framed bytes to it and close the connection."""

    address: Endpoint
    push: Callable[[Buffers], None]
    hang_up: Callable[[], None]


class Session(Protocol):
    @property
    def ordered(self) -> bool: ...

    @property
    def at_once(self) -> bool:
        """Whether `handle` starts where its frame arrives, outside any task, so that simple requests are answered
        there.

        Nothing before the first wait may use the current task then, so the enode has to be local (`Enode.near`).
        """
        ...

    def framing(self) -> Framing: ...

    async def handle(self, frame: Frame) -> Pieces | Deferred[Pieces] | None:
        """Serve one request: return framed bytes to write, or None for no answer. Only unordered sessions may defer it.

        A PenstockError raised here closes this connection only. Any other exception is a bug: it is logged and closes
        the connection, too.
        """
        ...

    def lost(self) -> None:
        """The connection is gone; drop what this session has waiting."""
        ...


class Opens(Protocol):
    """The part of a front that a listener needs."""

    def session(self, peer: Peer) -> Session: ...


OpenDoor = Callable[[int, Opens], Awaitable[None]]
"""Listens at a further port of the same host. Raises OSError if the port cannot be had."""


class Front(Opens, Protocol):
    @property
    def scheme(self) -> str:
        """URL scheme of its listeners: "kafka", "tubemq", "rocketmq"."""
        ...

    async def start(self) -> None:
        """Load state (groups, offsets). Called once, before the first session."""
        ...

    async def stop(self) -> None:
        """Answer or drop waiting requests. Called once, before the store closes."""
        ...

    # What only some fronts do.

    @property
    def idle_timeout_s(self) -> float | None:
        """A connection without a frame for so long, and without a request being served, is closed; None: never."""
        return None

    @property
    def side_doors(self) -> Mapping[int, Opens]:
        """Further ports at its listener's address, where the port itself carries a meaning.

        Its options ask for them (`penstock.config.snode.SidePorts`).
        """
        return {}

    async def open_doors(self, main: int, open_at: OpenDoor) -> None:
        """Open further ports that are optional, or become known only while it runs.

        Called once all of the node's listeners listen; ``main`` is this front's port.
        """
        del main, open_at

    @property
    def siblings(self) -> int | None:
        """How many fronts in other processes share its group membership, so that several serve one address.

        None: it cannot share one.
        """
        return None


# Fault injection in tests: which API a request is of, and how an error answer looks.
Handle = Callable[[Frame], Awaitable[Pieces | None]]


class Wording(Protocol):
    """A protocol's part of fault injection: names of APIs, and error answers."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for an API or an error that the protocol does not have."""
        ...

    def api_of(self, frame: Frame) -> str:
        """The API's name as the protocol spells it; "" for a request that cannot be read."""
        ...

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """Return an answer to ``frame`` with ``error`` wherever its API allows; None if it takes no answer.

        ``handle`` returns the true answer, for requests that have no effect.
        """
        ...

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """The true answer, with its error codes replaced by ``error``."""
        ...


def check_name(whose: str, what: str, name: str, names: Collection[str]) -> None:
    """Raise UsageError, with the nearest known name as a hint, for a name that a protocol does not have."""
    if name not in names:
        from difflib import get_close_matches  # imported late: nodes never get here

        nearest = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else None
        raise UsageError(f"{whose} has no {what} named {name!r}", hint=hint)


# Refusals.
#
# The node logs a line for each refused request: the client, the request, the code of the answer, the reason, and what
# to do. A client that repeats a request gets one line per minute, with the number of lines held back. The memory for
# clients is bounded, and so is the number of lines per minute, whatever clients call themselves or ask for.
_log = logging.getLogger("penstock.refused")

EVERY_S: Final = 60.0
"""One client gets one line per this time for one code and topic."""
LINES: Final = 100
"""At most so many lines in that time, for all clients together."""
_EARLY_S: Final = 0.01
"""A timer may fire so much too early."""
_MOST: Final = 1_000
_LONGEST: Final = 200

CallLater = Callable[[float, Callable[[], None]], Timer]


class Asker(NamedTuple):
    """A client: the name it gave itself, or "", and its address."""

    name: str
    address: Endpoint


class Refusal(NamedTuple):
    """``api`` and ``code`` by name and number; ``code`` is 0 if the answer has none.

    ``topic`` and ``group`` are "" and ``partition`` is -1 if there is none. ``why`` and ``advice`` are sentences.
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


class _Logged(Struct):
    """The last line logged for one key, when its minute ends, and how often it happened since."""

    refusal: Refusal
    until: float
    held: int = 0


class Refusals:
    """The refusals of a node. ``now`` is a monotonic clock in seconds.

    Lines held back are counted by a timer of ``later``; without it, together with the next line.

    >>> asker = Asker("billing", Endpoint("10.0.0.4", 51234))
    >>> print(Refusal("kafka", asker, "Fetch", 3, "UNKNOWN_TOPIC", "flights", "", "no such", "make it", 0))
    kafka: Fetch of client billing at 10.0.0.4:51234 (topic flights-0) was answered UNKNOWN_TOPIC (3): no such; make it
    >>> print(Refusal("kafka", asker, "Fetch", 0, "NONE", "", "", "9 fetches are held", "raise max_held"))
    kafka: Fetch of client billing at 10.0.0.4:51234 was answered at once: 9 fetches are held; raise max_held
    """

    def __init__(self, now: Callable[[], float], later: CallLater | None = None) -> None:
        self._now = now
        self._later = later
        self._logged: dict[tuple[str, str, str, int, str], _Logged] = {}
        self._begun = now()
        self._lines = self._unsaid = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """The number of keys (client, code and topic) that are remembered."""
        return len(self._logged)

    def tell(self, refusal: Refusal) -> None:
        """Log the line, or count it."""
        now = self._now()
        self._end_minutes(now)
        asker = refusal.asker
        about = refusal.topic or refusal.group
        key = (refusal.scheme, asker.name[:_LONGEST], asker.address.host, refusal.code, about[:_LONGEST])
        known = self._logged.get(key)
        if known is not None:
            known.held += 1
        elif self._lines >= LINES or len(self._logged) >= _MOST:
            self._unsaid += 1
        else:
            self._logged[key] = _Logged(_cut(refusal), now + EVERY_S)
            self._lines += 1
            _log.warning("%s", refusal)
            return
        if self._timer is None and self._later is not None:
            self._timer = self._later(EVERY_S, self._rung)

    def close(self) -> None:
        """Log what was held back so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_minutes(float("inf"))

    def _rung(self) -> None:
        self._timer = None
        self._end_minutes(self._now() + _EARLY_S)
        if self._unsaid or any(each.held for each in self._logged.values()):
            assert self._later is not None
            self._timer = self._later(EVERY_S, self._rung)

    def _end_minutes(self, now: float) -> None:
        """Log how many lines were held back, for keys whose minute is over. Keys are in the order of their minutes."""
        while self._logged:
            key, each = next(iter(self._logged.items()))
            if each.until > now:
                break
            del self._logged[key]
            if each.held:
                _log.warning("%d more times in %d s: %s", each.held, EVERY_S, each.refusal)
        if now - self._begun >= EVERY_S:
            if self._unsaid:
                _log.warning(
                    "%d more refusals were not logged: at most %d lines a minute are; penstock_errors_total counts all",
                    self._unsaid,
                    LINES,
                )
            self._begun, self._lines, self._unsaid = now, 0, 0


def _cut(refusal: Refusal) -> Refusal:
    """Shorten texts that are too long to be remembered."""
    return Refusal(*(each[:_LONGEST] if isinstance(each, str) else each for each in refusal))  # type: ignore[arg-type]


def _plain(text: str) -> str:
    """One line of limited length: clients must not be able to forge log lines."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return short if short.isprintable() else short.encode("unicode_escape").decode()


# Meters: counts of served requests, read when a node's metrics are asked for.
#
# Counting costs a few additions per request: no system call, lock or text. Keys are numbers that the protocol defines
# (requests, codes), never text from clients, so their number is bounded. Names and texts of metrics belong to
# `penstock.snode.monitoring`.
BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of a histogram's buckets in seconds: from an append that waits for nothing to a held poll."""

OTHER: Final = -1
"""The number that stands for all requests that the front does not serve."""

Name = Callable[[int], str | None]
"""The name of a number; None if the protocol does not have it."""


def _no_advice(_: int) -> str:
    """The default: no advice."""
    return ""


class Codes(NamedTuple):
    """A protocol's error codes: their names, advice for people, and the ``usual`` ones (nothing to read, ask again).

    Answers with usual codes are not logged.
    """

    name: Name
    advice: Callable[[int], str] = _no_advice
    usual: Collection[int] = frozenset()


def _never() -> float:
    """The default for a meter whose times are not read."""
    return 0.0


class Served:
    """One kind of request: ``buckets`` counts answers by `BOUNDS_S`; the last bucket has the slower ones."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.seconds = 0.0

    @property
    def count(self) -> int:
        """The number of answers."""
        return sum(self.buckets)


class Meter:
    """The meter of one front. ``api`` names requests by number, ``code`` names codes in answers.

    ``now`` is a clock in seconds, finer than the event loop's, which may stand still for one iteration. ``levels`` are
    gauges: the current value by the name of the metric.

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
        """Count a request that was answered, or needs no answer, after ``seconds``."""
        row = self.served.get(api)
        if row is None:
            row = self.served[api] = Served()
        row.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        row.seconds += seconds

    def refused(self, api: int, code: int, times: int = 1) -> None:
        """Count an answer that refuses, or ``times`` parts of one.

        All codes without a name count as one, because a server behind the node may send anything.
        """
        key = (api, code if self.code(code) is not None else OTHER)
        self.errors[key] = self.errors.get(key, 0) + times

    def is_usual(self, code: int) -> bool:
        """Whether this code is not worth a line in the log."""
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
        """Log a refusal unless its code is usual. Missing texts are filled in from the code."""
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
    """The meters of a node by scheme, and its log of ``refusals``."""

    __slots__ = ("_fronts", "_now", "refusals")

    def __init__(self, now: Callable[[], float] = _never, refusals: Refusals | None = None) -> None:
        self._now = now
        self.refusals = Refusals(now) if refusals is None else refusals
        self._fronts: dict[str, Meter] = {}

    def front(self, scheme: str, api: Name, code: Name | Codes) -> Meter:
        """Make the meter of a front."""
        made = self._fronts[scheme] = Meter(scheme, api, code, self._now, self.refusals)
        return made

    @property
    def fronts(self) -> Mapping[str, Meter]:
        """All meters, by scheme."""
        return self._fronts
