"""FirstContact: how long a client waits until the first server has answered, over all its channels and calls.

Before anything has answered, the address is more likely wrong than every server away. So there is one deadline, which
counts from the first connection that is asked for: all that waits for the network then ends with the same error. Every
first contact goes through a channel, so channels alone keep it; once a frame of the protocol has come, it is over for
good, and each call has its usual time.

Once the deadline has passed, calls fail at once for as long as a client pauses between two attempts at most: what tries
again by itself hears of it too. Later calls count anew, so a client can be kept until its servers are there.
What must not live here: sockets, timers, trying again.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import ConnectionLost, FirstContactTimeout, PenstockError
from penstock.model import Endpoint
from penstock.net._reasons import says_nothing

__all__ = ["REFUSAL_S", "FirstContact"]

REFUSAL_S: Final = 0.1
"""A call that fails because the deadline has passed takes so long, or a loop that ignores errors would spin."""
_NEVER: Final = float("inf")
_MOST_SHOWN: Final = 10


class FirstContact:
    """Of one client. Times are a monotonic clock's seconds, the same clock's for all of its channels.

    ``timeout_ms`` None: there is no such deadline. ``longest_pause_ms`` is how long the client may pause between two
    attempts.
    """

    def __init__(self, timeout_ms: int | None = None, longest_pause_ms: int = 1_000) -> None:
        self.made = timeout_ms is None
        """Whether something that speaks the protocol has answered."""
        self._timeout_s = _NEVER if timeout_ms is None else timeout_ms / 1_000
        self._rest_s = 1.5 * longest_pause_ms / 1_000 + REFUSAL_S
        self._until: float | None = None
        self._tried: dict[Endpoint, PenstockError] = {}
        self._connected: set[Endpoint] = set()
        self._hung_up: dict[Endpoint, PenstockError] = {}

    def begin(self, now: float) -> float:
        """A connection is asked for: when the first answer is due, which may be over; never, once there was one."""
        if self.made:
            return _NEVER
        if self._until is None or now >= self._until + self._rest_s:
            self._until = now + self._timeout_s
        return self._until

    def left(self, now: float) -> float:
        """Seconds until the deadline, without beginning to count; 0 where it has just passed."""
        if self.made or self._until is None or now >= self._until + self._rest_s:
            return _NEVER
        return max(0.0, self._until - now)

    def answered(self) -> None:
        """A frame of the protocol has come."""
        self.made = True
        self._tried.clear()
        self._connected.clear()
        self._hung_up.clear()

    def asked(self, endpoint: Endpoint) -> None:
        """An attempt to connect begins."""
        if not self.made:
            self._tried.setdefault(endpoint, ConnectionLost("not connected yet", hint=f"Is {endpoint} reachable?"))

    def connected(self, endpoint: Endpoint) -> None:
        """It has taken the connection, and owes an answer. That it closed an earlier one says more, and stays."""
        if not self.made:
            self._connected.add(endpoint)
            self._tried[endpoint] = self._hung_up.get(endpoint) or says_nothing(endpoint)

    def failed(self, endpoint: Endpoint, error: PenstockError) -> None:
        """What an attempt to connect, or a connection without an answer, has come to."""
        if not self.made and not isinstance(error, FirstContactTimeout):
            self._tried[endpoint] = error
            if endpoint in self._connected and isinstance(error, ConnectionLost):
                self._hung_up[endpoint] = error
            self._connected.discard(endpoint)

    def error(self) -> FirstContactTimeout:
        """What ends everything that waits when the deadline has passed: which addresses were tried, and what happened
        at each."""
        message = f"no server answered within {self._timeout_s:g} s (first_contact_timeout_ms)"
        if len(self._tried) == 1:
            ((endpoint, why),) = self._tried.items()
            return FirstContactTimeout(f"{message}: {why.message}", node=why.node or str(endpoint), hint=why.hint)
        shown = [f"{why.node or endpoint}: {why.message}" for endpoint, why in list(self._tried.items())[:_MOST_SHOWN]]
        if (more := len(self._tried) - len(shown)) > 0:
            shown.append(f"and {more} more")
        return FirstContactTimeout(
            f"{message}: {'; '.join(shown)}" if shown else message,
            hint="Check the addresses, and that servers of this protocol listen there",
        )
