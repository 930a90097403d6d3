"""The producers a master knows: their topics, and until when. A clock is passed in.

Source: TubeMQ master, producer register, heartbeat and close.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.groups.deadlines import Deadlines
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused

__all__ = ["Producers"]


class Producers:
    """``patience_s`` without a heartbeat ends a producer; more than ``most`` together are not taken."""

    def __init__(self, patience_s: float, most: int) -> None:
        self._patience_s = patience_s
        self._most = most
        self._deadlines: Deadlines[str] = Deadlines()
        self._topics: dict[str, Sequence[str]] = {}

    def topics(self) -> Mapping[str, Sequence[str]]:
        """What each producer that is in writes to."""
        return self._topics

    def register(self, client: str, topics: Sequence[str], now: float) -> None:
        """Book a producer, or begin anew with it. Raises Refused."""
        self.expire(now)
        if len(self._topics) >= self._most and client not in self._topics:
            raise Refused(Code.SERVICE_UNAVAILABLE, f"{len(self._topics)} producers are registered already")
        self._note(client, topics, now)

    def beat(self, client: str, topics: Sequence[str], now: float) -> None:
        """A heartbeat. Raises Refused (HB_NO_NODE) for one that is not in, or not any more."""
        self.expire(now)
        if client not in self._topics:
            raise Refused(Code.HB_NO_NODE, f"Invalid node id:{client}, you have to append node first!")
        self._note(client, topics, now)

    def close(self, client: str) -> None:
        """A producer leaves; nothing happens if it is not in."""
        self._deadlines.cancel(client)
        self._topics.pop(client, None)

    def expire(self, now: float) -> None:
        """Put out who was not heard of in time."""
        for client in self._deadlines.due(now):
            del self._topics[client]

    def _note(self, client: str, topics: Sequence[str], now: float) -> None:
        self._topics[client] = topics
        self._deadlines.set(client, now + self._patience_s)
