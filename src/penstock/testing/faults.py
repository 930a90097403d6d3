"""Faults on demand: delays, errors and dropped connections by API, between a client and the node's front.

Rules are tried in the order they were added; each is used up after ``times`` frames. What is asked and answered is
the protocol's own business: a ``Wording`` tells a frame's API and how an error answer looks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from penstock.errors import UsageError
from penstock.seams import Buffers, Frame, Peer

Handle = Callable[[Frame], Awaitable[Buffers | None]]
Moment = Literal["before", "after"]


class Wording(Protocol):
    """One protocol's part: names of APIs, and answers that say no."""

    def api_of(self, frame: Frame) -> str:
        """The API's name as the protocol spells it, "" for a frame that cannot be read."""
        ...

    def refusal(self, frame: Frame, error: str) -> Buffers:
        """An answer to ``frame`` that carries ``error`` wherever its API can. Raises UsageError if it cannot."""
        ...

    def spoilt(self, frame: Frame, answer: Buffers, error: str) -> Buffers:
        """The true answer with ``error`` written over its error codes."""
        ...


@dataclass(slots=True)
class Rule:
    """One fault: on which API ("" any), how often still (None: always), and what happens."""

    api: str
    times: int | None
    delay_s: float = 0.0
    error: str = ""
    drop: bool = False
    moment: Moment = "before"
    used: int = 0


class Faults:
    """The rules of one broker. Safe to call from the test's thread while the node runs in its own.

    >>> faults = Faults()
    >>> faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2)
    >>> faults.delay("Produce", 0.2)
    >>> faults.drop("Heartbeat", moment="after")
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._seen: Counter[str] = Counter()

    def delay(self, api: str, seconds: float, *, times: int | None = 1) -> None:
        """Answer ``api`` that much later."""
        self._add(Rule(api, times, delay_s=seconds))

    def error(self, api: str, error: str, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Answer ``api`` with an error by its name; "after" lets the request have its effect first."""
        self._add(Rule(api, times, error=error, moment=moment))

    def drop(self, api: str, *, times: int | None = 1, moment: Moment = "before") -> None:
        """Hang up instead of answering; "after" lets the request have its effect first."""
        self._add(Rule(api, times, drop=True, moment=moment))

    def clear(self) -> None:
        """Forget all rules."""
        with self._lock:
            self._rules.clear()

    def seen(self, api: str) -> int:
        """How many requests of ``api`` came since the broker started."""
        with self._lock:
            return self._seen[api]

    def _add(self, rule: Rule) -> None:
        if rule.times is not None and rule.times < 1:
            raise UsageError(f"a fault that happens {rule.times} times")
        with self._lock:
            self._rules.append(rule)

    def _take(self, api: str) -> list[Rule]:
        """Rules for this frame: every delay that fits, and the first of errors and drops."""
        taken: list[Rule] = []
        with self._lock:
            self._seen[api] += 1
            for rule in self._rules:
                fits = rule.api in ("", api) and (rule.times is None or rule.used < rule.times)
                final = bool(rule.error) or rule.drop
                if fits and not (final and any(other.error or other.drop for other in taken)):
                    rule.used += 1
                    taken.append(rule)
        return taken

    def tap(self, wording: Wording) -> FaultTap:
        """The interception point to hand to a listener."""
        return FaultTap(self, wording)


class FaultTap:
    """Stands between one listener's connections and their sessions."""

    def __init__(self, faults: Faults, wording: Wording) -> None:
        self._faults = faults
        self._wording = wording

    async def __call__(self, peer: Peer, frame: Frame, handle: Handle) -> Buffers | None:
        rules = self._faults._take(self._wording.api_of(frame))
        for rule in rules:
            if rule.delay_s:
                await asyncio.sleep(rule.delay_s)
        final = next((rule for rule in rules if rule.error or rule.drop), None)
        if final is None:
            return await handle(frame)
        if final.moment == "after":
            answer = await handle(frame)
            if final.error and answer is not None:
                return self._wording.spoilt(frame, answer, final.error)
        elif final.error:
            return self._wording.refusal(frame, final.error)
        peer.hang_up()
        return None
