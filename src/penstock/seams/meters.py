"""Meters: what a front has served, counted where requests pass anyway; read when somebody asks for a node's metrics.

Counting is a few additions a request, never a call of the system, a lock or a text. What is counted is told apart by
numbers that a protocol fixes (which request, which code), never by what clients say: so their count is bounded. What
must not live here: names of metrics and their text (`penstock.snode.monitoring`), clocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from penstock.seams.refusals import Asker, Refusal, Refusals

__all__ = ["BOUNDS_S", "OTHER", "Codes", "Meter", "Meters", "Name", "Served"]

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
