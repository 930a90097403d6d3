"""Faults on demand: delays, errors and dropped connections by API, between a client and the node's front.

Rules are tried in the order they were added; each is used up after ``times`` requests. What is asked and answered is
the protocol's own business: a ``Wording`` tells a request's API and how an error answer looks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from typing import Literal

from penstock._dataclasses import dataclass
from penstock.errors import RequestTimeout, UsageError
from penstock.seams import Frame, Peer, Pieces
from penstock.seams.faults import Handle, Wording

Moment = Literal["before", "after"]


@dataclass(slots=True)
class Rule:
    """One fault: on which API ("" any), how often (None: always), and what happens."""

    api: str
    times: int | None
    moment: Moment
    delay_s: float = 0.0
    error: str = ""
    drop: bool = False
    used: int = 0

    @property
    def final(self) -> bool:
        """Whether the request gets no true answer."""
        return bool(self.error) or self.drop


class Faults:
    """The rules of one broker. Safe to call from the test's thread while the node runs in its own.

    APIs are named as the protocol names them ("Produce"), "" is any of them. ``moment`` "before" leaves the request
    without effect, "after" lets it have its effect first. ``times`` None is always.

    >>> broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2)        # doctest: +SKIP
    >>> broker.faults.delay("Produce", 0.2)                                    # doctest: +SKIP
    >>> broker.faults.drop("Heartbeat", moment="after")                        # doctest: +SKIP
    >>> broker.faults_of("tubemq").drop("send message", moment="after")        # doctest: +SKIP
    """

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._lock = threading.Condition()
        self._rules: list[Rule] = []
        self._seen: Counter[str] = Counter()

    def delay(self, api: str, seconds: float, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Serve ``api``, or with "after" answer it, that much later; what its connection asks next waits behind it."""
        self._add(Rule(api, times, moment, delay_s=seconds))

    def error(self, api: str, error: str, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Answer ``api`` with an error by its name."""
        self._add(Rule(api, times, moment, error=error))

    def drop(self, api: str, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Hang up instead of answering."""
        self._add(Rule(api, times, moment, drop=True))

    def clear(self) -> None:
        """Forget all rules."""
        with self._lock:
            self._rules.clear()

    def seen(self, api: str) -> int:
        """How many requests of ``api`` came since the broker was made, those with faults included."""
        self._wording.check(api)
        with self._lock:
            return self._count(api)

    def wait_seen(self, api: str, count: int, timeout_s: float = 30.0) -> None:
        """Wait until ``seen(api)`` is ``count`` or more: instead of a sleep. Raises RequestTimeout."""
        self._wording.check(api)
        with self._lock:
            if not self._lock.wait_for(lambda: self._count(api) >= count, timeout_s):
                raise RequestTimeout(f"{self._count(api)} of {count} requests of {api or 'any API'} in {timeout_s} s")

    def tap(self) -> FaultTap:
        """The interception point to hand to a node."""
        return FaultTap(self, self._wording)

    def _count(self, api: str) -> int:
        return self._seen[api] if api else self._seen.total()

    def _add(self, rule: Rule) -> None:
        self._wording.check(rule.api, rule.error)
        if rule.times is not None and rule.times < 1:
            raise UsageError(f"a fault that happens {rule.times} times")
        if rule.delay_s < 0:
            raise UsageError(f"a delay of {rule.delay_s} s")
        if rule.moment not in ("before", "after"):
            raise UsageError(f"a fault happens before or after the effect, not {rule.moment!r}")
        with self._lock:
            self._rules.append(rule)

    def take(self, api: str) -> list[Rule]:
        """The rules that a request of ``api`` uses up: every delay that fits, and the first of errors and drops."""
        taken: list[Rule] = []
        with self._lock:
            self._seen[api] += 1
            self._lock.notify_all()
            for rule in self._rules:
                fits = rule.api in ("", api) and (rule.times is None or rule.used < rule.times)
                if fits and not (rule.final and any(other.final for other in taken)):
                    rule.used += 1
                    taken.append(rule)
        return taken


class FaultTap:
    """Stands between a node's connections and their sessions."""

    def __init__(self, faults: Faults, wording: Wording) -> None:
        self._faults = faults
        self._wording = wording
        self._over = asyncio.Event()

    def end_delays(self) -> None:
        """Wait for nothing from now on: the node is to stop, and would wait for what waits here. In the node's loop."""
        self._over.set()

    async def __call__(self, peer: Peer, frame: Frame, handle: Handle) -> Pieces | None:
        rules = self._faults.take(self._wording.api_of(frame))
        final = next((rule for rule in rules if rule.final), None)
        await self._wait(rules, "before")
        if final is None:
            answer = await handle(frame)
        elif final.moment == "after":
            answer = await handle(frame)
            if answer is not None and final.error:
                answer = self._wording.spoilt(frame, answer, final.error)
        else:
            answer = await self._wording.refusal(frame, final.error, handle) if final.error else None
        await self._wait(rules, "after")
        if final is not None and (final.drop or answer is None):
            # Also where an error has no answer to stand in: that is what servers do.
            peer.hang_up()
            return None
        return answer

    async def _wait(self, rules: list[Rule], moment: Moment) -> None:
        seconds = sum(rule.delay_s for rule in rules if rule.moment == moment)
        if seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), seconds)
