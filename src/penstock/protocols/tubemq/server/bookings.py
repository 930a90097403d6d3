"""Who has booked which partition in which group, until when, and where each group is in it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field

from penstock.concurrency.limits import Owner as Connection
from penstock.concurrency.limits import Shares
from penstock.concurrency.runtime import Deadlines
from penstock.groups.state_machine import Table
from penstock.interfaces.enode import Enode, extent
from penstock.interfaces.node import Offsets
from penstock.model import Committed, Partition
from penstock.protocols.tubemq.errors import Code, Refused
from penstock.protocols.tubemq.flow_control import Quota

__all__ = ["TABLE", "Action", "Booking", "Bookings", "Key", "Owner", "Positions"]


# Who has booked which partition in which group, and until when. Pure; a clock is passed in.
#
# A partition has at most one owner in a group. The rules are the table: what a client asks, and whether no client, the
# asking client or another one has the booking. An owner that is not heard of in time is none any more: unlike with the
# real broker, the next one that asks gets the partition at once and is not sent away one more time. Source: TubeMQ
# broker, register, heartbeat, get message, commit; codes 401, 410, 411, 412.
class Key(NamedTuple):
    """What is booked; the partition is ours."""

    group: str
    partition: Partition


class Owner(enum.Enum):
    """Who has the booking, seen by the client that asks."""

    NONE = "none"
    ITSELF = "itself"
    ANOTHER = "another"


class Action(enum.Enum):
    """What the client asks."""

    REGISTER = "register"
    USE = "use"
    COMMIT = "commit"
    UNREGISTER = "unregister"


TABLE: Final = Table(
    "a booking",
    {
        Owner.NONE: {
            Action.REGISTER: Code.SUCCESS,
            Action.USE: Code.HB_NO_NODE,
            Action.COMMIT: Code.UNAUTHORIZED,
            Action.UNREGISTER: Code.HB_NO_NODE,
        },
        Owner.ITSELF: {
            Action.REGISTER: Code.SUCCESS,  # anew: filters, pace and what was in flight are forgotten
            Action.USE: Code.SUCCESS,
            Action.COMMIT: Code.SUCCESS,
            Action.UNREGISTER: Code.SUCCESS,
        },
        Owner.ANOTHER: {
            Action.REGISTER: Code.PARTITION_OCCUPIED,
            Action.USE: Code.DUPLICATE_PARTITION,
            Action.COMMIT: Code.UNAUTHORIZED,
            Action.UNREGISTER: Code.DUPLICATE_PARTITION,
        },
    },
)


_BOOKING_BYTES: Final = 1_000
"""A booking with its quota, and its places in tables."""
_FILTER_BYTES: Final = 80


class Booking(Struct):
    """``filters``: hash codes of the items wanted, empty for everything. ``stands``: where the group stands, as far as
    this reader moved it. ``flight_end``: the offset after what was delivered and not confirmed yet, None where there is
    no such thing. ``lag``: about how many bytes were left after the last read.
    """

    client: str
    key: Key
    filters: frozenset[int] = frozenset()
    priority: int = -2
    stands: int = 0
    flight_end: int | None = None
    quota: Quota = field(default_factory=Quota)
    lag: int = 0


class Bookings:
    """``patience_s`` without a sign of its owner ends a booking; ``shares``: whose they are, and how many may be."""

    def __init__(self, patience_s: float, shares: Shares[Key]) -> None:
        self._patience_s = patience_s
        self._shares = shares
        self._bookings: dict[Key, Booking] = {}
        self._deadlines: Deadlines[Key] = Deadlines()

    def __iter__(self) -> Iterator[Booking]:
        return iter(self._bookings.values())

    def get(self, key: Key) -> Booking | None:
        """A booking, of any client."""
        return self._bookings.get(key)

    def register(
        self,
        key: Key,
        client: str,
        filters: frozenset[int],
        priority: int,
        now: float,
        owner: Connection | None = None,
    ) -> Booking:
        """Make a booking; ``owner``: the client's connection. Raises Refused."""
        self._check(key, client, Action.REGISTER, now)
        size = _BOOKING_BYTES + len(key.group) + len(client) + _FILTER_BYTES * len(filters)
        if (full := self._shares.put(key, owner, size)) is not None:
            raise Refused(Code.SERVICE_UNAVAILABLE, full)
        booking = self._bookings[key] = Booking(client, key, filters, priority)
        self._deadlines.set(key, now + self._patience_s)
        return booking

    def use(self, key: Key, client: str, now: float) -> Booking:
        """The booking of its owner, which shows that it is there. Raises Refused."""
        self._check(key, client, Action.USE, now)
        self._deadlines.set(key, now + self._patience_s)
        return self._bookings[key]

    def confirmable(self, key: Key, client: str, now: float) -> Booking:
        """The booking of its owner, which may commit. Raises Refused."""
        self._check(key, client, Action.COMMIT, now)
        return self._bookings[key]

    def leaving(self, key: Key, client: str, now: float) -> Booking:
        """The booking that its owner wants to give back; `end` does it. Raises Refused."""
        self._check(key, client, Action.UNREGISTER, now)
        return self._bookings[key]

    def end(self, booking: Booking) -> None:
        """End this booking; nothing happens if it was replaced or has ended."""
        if self.is_current(booking):
            self._deadlines.cancel(booking.key)
            del self._bookings[booking.key]
            self._shares.drop(booking.key)

    def is_current(self, booking: Booking) -> bool:
        """Whether nothing has replaced or ended a booking."""
        return self._bookings.get(booking.key) is booking

    def expire(self, now: float) -> None:
        """End the bookings whose owners were not heard of in time; what they had in flight counts as not read."""
        for key in self._deadlines.due(now):
            del self._bookings[key]
            self._shares.drop(key)

    def _check(self, key: Key, client: str, action: Action, now: float) -> None:
        self.expire(now)
        booking = self._bookings.get(key)
        owner = Owner.NONE if booking is None else Owner.ITSELF if booking.client == client else Owner.ANOTHER
        code = TABLE[owner, action]
        if code != Code.SUCCESS:
            raise Refused(code, _text(code, key, client, booking))


def _text(code: int, key: Key, client: str, booking: Booking | None) -> str:
    if code == Code.UNAUTHORIZED:
        return "The partition not registered by consumers"
    if booking is None:
        return f"UnRegistered Consumer:{client}, you have to register firstly!"
    if code == Code.PARTITION_OCCUPIED:
        return f"[Duplicated Register] Partition {key.group}:{key.partition} has been registered by {booking.client}"
    return f"[Duplicated Request] Partition {key.group}:{key.partition} has been consumed by another consumer"


# Where each group is in each partition: committed offsets, kept with those of all protocols.
#
# An offset here is the number of the next record to read, as everywhere in the node; TubeMQ's is 28 times that. So
# Kafka's tools see how far a TubeMQ group is, and a group that changes its protocol goes on where it was.
class Positions:
    """What is set is durable when the call returns."""

    def __init__(self, offsets: Offsets, enode: Enode, now_ms: Callable[[], int]) -> None:
        self._offsets = offsets
        self._enode = enode
        self._now_ms = now_ms

    async def of(self, group: str, partition: Partition) -> int | None:
        """The group's committed offset; None if it has none."""
        found = (await self._offsets.committed(group)).get(partition)
        return None if found is None else found.offset

    async def set(self, group: str, partition: Partition, offset: int, host: str | None = None) -> None:
        """Commit, also backwards: who asks for that means it; a client at ``host``. Raises StoreError, NoRoom."""
        if await self.of(group, partition) != offset:
            committed = Committed(offset, timestamp_ms=self._now_ms())
            await self._offsets.commit(group, {partition: committed}, host=host)

    async def begin(
        self,
        group: str,
        partition: Partition,
        wanted: int | None,
        *,
        from_end: bool,
        always: bool,
        host: str | None = None,
    ) -> int:
        """Where a reader that registers begins; it is the group's offset from then on. Raises StoreError.

        ``wanted`` is moved into the log; without it, the group's offset counts, or else the log's end (``from_end``) or
        start. ``always`` the end.
        """
        start, end, _, _ = await extent(self._enode, partition)
        known = await self.of(group, partition)
        if always:
            offset = end
        elif wanted is not None:
            offset = min(max(wanted, start), end)
        elif known is not None:
            offset = known
        else:
            offset = end if from_end else start
        await self.set(group, partition, offset, host)
        return offset
