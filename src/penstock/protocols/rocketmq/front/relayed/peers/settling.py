"""A Snode that starts alone, and groups that were there before it: nobody is told of half a group. Pure.

Members of Java's beat every 30 seconds, so whoever beats first after a restart would be told that it is alone, and take
the queues of all others, who go on reading them. A list that cannot be had (38 refused) leaves everybody what he has.
So the list is refused while there is a sign that somebody has not beaten yet: somebody reads for the group, without a
subscription of his own, and is no member of it; or, in the first seconds, when readers are about to connect anew, what
the group subscribes to is older than this start. A group that comes together for the first time shows neither.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq.front.broker.groups import Clients
from penstock.protocols.rocketmq.front.call import Line

__all__ = ["Settling"]

_READERS_COME_S: Final = 4.0
"""A client that could not read tries again after one second, older ones after three."""
_MOST_S: Final = 40.0
"""All have beaten then, or never will: a heartbeat's period, and what one that failed on the way may be late."""
_CLOCKS_MS: Final = 1_000
_FIRST_DATE_MS: Final = 1_000_000_000_000
"""A version that is less is no date, as clients in other languages may send."""
_MOST: Final = 10_000


class Settling:
    """``now`` is in seconds of a clock that never goes back, ``wall_ms`` the same moment's date."""

    def __init__(self, clients: Clients, now: float, wall_ms: int) -> None:
        self._clients = clients
        self._started = now
        self._wall_ms = wall_ms
        self._reading: dict[str, set[Line]] = {}
        self._count = 0
        self._refused: set[str] = set()

    def reads(self, group: str, line: Line) -> None:
        """Somebody reads for a group that counts on what the group subscribes to."""
        lines = self._reading.setdefault(group, set())
        if line not in lines and self._count < _MOST:
            lines.add(line)
            self._count += 1

    def waits(self, group: str, now: float) -> bool:
        """Whether the group's members are not to be told yet who they are; it is notified when they are."""
        if not self._waits(group, now):
            return False
        self._refused.add(group)
        return True

    def settled(self, now: float) -> list[str]:
        """Groups that were to wait, and need to no longer: tell them."""
        found = [each for each in self._refused if not self._waits(each, now)]
        self._refused.difference_update(found)
        return found

    def is_over(self, now: float) -> bool:
        """Whether nobody waits any more, and nobody will."""
        return now - self._started > _MOST_S and not self._refused

    def _waits(self, group: str, now: float) -> bool:
        age = now - self._started
        known = self._clients.consumers.get(group)
        if known is None or age > _MOST_S:
            return False
        newest = max((each.sub_version for each in known.subscriptions.values()), default=0)
        if age < _READERS_COME_S and _FIRST_DATE_MS < newest < self._wall_ms - _CLOCKS_MS:
            return True
        return any(line not in known.members and not line.over for line in self._reading.get(group, ()))
