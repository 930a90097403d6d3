"""The producers a master knows: their topics, and until when. A clock is passed in.

Source: TubeMQ master, producer register, heartbeat and close.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.concurrency.limits import Owner, Shares
from penstock.concurrency.runtime import Deadlines
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.master.members import bytes_of

__all__ = ["Producers"]

_PRODUCER_BYTES: Final = 500


class Producers:
    """``patience_s`` without a heartbeat ends a producer; ``shares``: whose they are, and how many may be."""

    def __init__(self, patience_s: float, shares: Shares[str]) -> None:
        self._patience_s = patience_s
        self._shares = shares
        self._deadlines: Deadlines[str] = Deadlines()
        self._topics: dict[str, Sequence[str]] = {}

    def topics(self) -> Mapping[str, Sequence[str]]:
        """What each producer that is in writes to."""
        return self._topics

    def register(self, client: str, topics: Sequence[str], now: float, owner: Owner | None = None) -> None:
        """Book a producer, or begin anew with it; ``owner``: its connection. Raises Refused."""
        self.expire(now)
        self._note(client, topics, now, owner)

    def beat(self, client: str, topics: Sequence[str], now: float, owner: Owner | None = None) -> None:
        """A heartbeat. Raises Refused (HB_NO_NODE) for one that is not in, or not any more."""
        self.expire(now)
        if client not in self._topics:
            raise Refused(Code.HB_NO_NODE, f"Invalid node id:{client}, you have to append node first!")
        self._note(client, topics, now, owner)

    def close(self, client: str) -> None:
        """A producer leaves; nothing happens if it is not in."""
        self._deadlines.cancel(client)
        self._topics.pop(client, None)
        self._shares.drop(client)

    def expire(self, now: float) -> None:
        """Put out who was not heard of in time."""
        for client in self._deadlines.due(now):
            del self._topics[client]
            self._shares.drop(client)

    def _note(self, client: str, topics: Sequence[str], now: float, owner: Owner | None) -> None:
        full = self._shares.put(client, owner, _PRODUCER_BYTES + 2 * len(client) + bytes_of(topics))
        if full is not None:
            raise Refused(Code.SERVICE_UNAVAILABLE, full)
        self._topics[client] = topics
        self._deadlines.set(client, now + self._patience_s)
