"""Limits on what clients may make a node hold: in all, for each client address, and for each connection.

`Memory` is the budget of bytes, `Portion` the part of it that one kind of work may take, and `Shares` counts things
that are kept for clients, by owner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from penstock.concurrency.runtime import Promise
from penstock.errors import PenstockError
from penstock.model import Endpoint

__all__ = [
    "ADDRESS_PERCENT",
    "UNLIMITED",
    "Divided",
    "Memory",
    "MemoryReservation",
    "NoRoom",
    "Owner",
    "Portion",
    "Shares",
    "divided",
]


class Memory(Protocol):
    """The bytes that all connections of a node may hold together, as fronts see them."""

    @property
    def limit(self) -> int:
        """Bytes in all."""
        ...

    @property
    def free(self) -> int:
        """Bytes that are left, at least 0. An answer takes only part of them, to leave some for the next answer."""
        ...

    def reserved(self, size: int) -> AbstractContextManager[None]:
        """A context in which work for a client takes ``size`` bytes, whether or not they are free."""
        ...

    def keep(self, change: int) -> None:
        """Count ``change`` more bytes of state kept for clients, or fewer where ``change`` is negative."""
        ...


class _Unlimited:
    limit = free = 1 << 62

    def reserved(self, size: int) -> AbstractContextManager[None]:
        del size
        return nullcontext()

    def keep(self, change: int) -> None:
        del change


UNLIMITED: Final = _Unlimited()


class MemoryReservation:
    """The bytes that one piece of work has taken of a `Portion`."""

    __slots__ = ("_portion", "size")

    def __init__(self, portion: Portion, size: int) -> None:
        self._portion = portion
        self.size = size

    def change(self, size: int) -> None:
        """Set the size to ``size``. Growing never waits, because the work has already begun."""
        before, self.size = self.size, size
        self._portion.changed(size - before)


class Portion:
    """The part of a node's memory that one kind of work may take; further work waits, first come, first served."""

    def __init__(self, memory: Memory, most: int, promise: Callable[[], Promise[Any]]) -> None:
        self._memory = memory
        self._most = most
        self._promise = promise
        self._used = 0
        self._waiting: deque[tuple[int, Promise[None]]] = deque()

    @property
    def used(self) -> int:
        """Bytes taken now."""
        return self._used

    @asynccontextmanager
    async def held(self, size: int) -> AsyncIterator[MemoryReservation]:
        """Enter when ``size`` bytes are free. A request for more than the whole portion takes the whole portion."""
        size = min(size, self._most)
        if self._waiting or self._used + size > self._most:
            mine = self._promise()
            self._waiting.append((size, mine))
            try:
                await mine
            except BaseException:
                if mine.done:
                    self.changed(-size)
                else:
                    self._waiting.remove((size, mine))
                raise
        else:
            self.changed(size)
        hold = MemoryReservation(self, size)
        try:
            yield hold
        finally:
            hold.change(0)

    def changed(self, change: int) -> None:
        """Count ``change`` more bytes as taken, or fewer where it is negative, and admit waiting work that now fits."""
        self._used += change
        self._memory.keep(change)
        while self._waiting and self._used + self._waiting[0][0] <= self._most:
            size, mine = self._waiting.popleft()
            self._used += size
            self._memory.keep(size)
            mine.set(None)


K = TypeVar("K", bound=Hashable)

ADDRESS_PERCENT: Final = 50
"""An address's percentage of a total, unless the operator sets another."""
_CONNECTION_PERCENT: Final = 5
_LEAST_OF_CONNECTION: Final = 100
_LEAST_BYTES: Final = 64 << 10
_BYTES_OF_CONNECTION_PERCENT: Final = 30
"""Larger than the percentage of the number, because one client's entries may well be larger than others'."""
_PART_OF_MEMORY: Final = 16
_ORDINALS: Final = {16: "sixteenth", 8: "eighth", 4: "quarter"}
_NOTHING: Final[Sequence[int]] = (0, 0)
_SHARE_OPTION: Final = "address_share_percent"


class NoRoom(PenstockError):
    """A client wants something kept that is above a limit; the text names the limit and the option that raises it."""


class Owner(Protocol):
    """A client's connection."""

    @property
    def address(self) -> Endpoint: ...


class Divided(Struct, frozen=True):
    """A total, and the maximum of it that one address and one connection may have."""

    total: int
    address: int
    connection: int


def divided(
    total: int,
    address_percent: int = ADDRESS_PERCENT,
    least: int = _LEAST_OF_CONNECTION,
    connection_percent: int = _CONNECTION_PERCENT,
) -> Divided:
    """Split a total into the parts for an address and a connection; each is at least ``least`` if the total allows.

    >>> divided(10_000)
    Divided(total=10000, address=5000, connection=500)
    >>> divided(50)
    Divided(total=50, address=50, connection=50)
    """
    of_address = max(total * address_percent // 100, 2 * least)
    of_connection = max(total * connection_percent // 100, least)
    return Divided(total, min(total, of_address), min(total, of_address, of_connection))


class Shares(Generic[K]):
    """Counts things that are kept for clients: by key, each with an owner, a number and a size in bytes.

    ``what`` names the things in refusals, ``option`` names the option that sets the total, and ``most`` limits their
    number. Sizes are estimates; they count as ``memory``, and all of them together may take one ``part``th of it.

    The owner is a connection for things that end with it, and an address (its host) for things that outlive
    connections. Things without an owner, such as those found in a log, are checked against the totals only.
    """

    def __init__(
        self,
        what: str,
        option: str,
        most: int,
        memory: Memory = UNLIMITED,
        address_percent: int = ADDRESS_PERCENT,
        part: int = _PART_OF_MEMORY,
    ) -> None:
        self._what = what
        self._option = option
        self._memory = memory
        self._part = part
        self._count = divided(most, address_percent)
        self._bytes = divided(memory.limit // part, address_percent, _LEAST_BYTES, _BYTES_OF_CONNECTION_PERCENT)
        self._kept: dict[K, tuple[Owner | str | None, int, int]] = {}
        self._of: dict[object, list[int]] = {}
        self._number = 0
        self._size = 0

    def __len__(self) -> int:
        return self._number

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[K]:
        return iter(self._kept)

    @property
    def size(self) -> int:
        """Bytes that all of them take."""
        return self._size

    def put(self, key: K, owner: Owner | str | None, size: int, number: int = 1) -> str | None:
        """Keep ``key`` for ``owner``, replacing what it had. If refused, return the reason and change nothing."""
        if key in self._kept:
            why = self.refusal(key, owner, size, number)
            if why is None:
                self.take(key, owner, size, number)
        else:
            why = self._why_not(owner, size, number)
            if why is None:
                self._keep(key, owner, size, number)
        return why

    def refusal(self, key: K, owner: Owner | str | None, size: int, number: int = 1) -> str | None:
        """Return why `put` would refuse this; None if it would not. Keeping no more than before is always allowed."""
        before = self._kept.get(key)
        if before is None:
            return self._why_not(owner, size, number)
        if before[0] == owner:
            size, number = size - before[1], number - before[2]
            return self._why_not(owner, size, number) if size > 0 or number > 0 else None
        self._forget(key, before)
        try:
            return self._why_not(owner, size, number)
        finally:
            self._keep(key, *before)

    def take(self, key: K, owner: Owner | str | None, size: int, number: int = 1) -> None:
        """Keep it whatever the limits are, because it exists already."""
        before = self._kept.get(key)
        if before is None:
            self._keep(key, owner, size, number)
        elif before[0] == owner:
            if size != before[1] or number != before[2]:
                self._kept[key] = owner, size, number
                self._add(owner, number - before[2], size - before[1])
        else:
            self._forget(key, before)
            self._keep(key, owner, size, number)

    def shrink(self, key: K, size: int) -> None:
        """Lower the size of ``key`` to ``size`` bytes; a smaller size stays."""
        found = self._kept.get(key)
        if found is not None and found[1] > size:
            self.take(key, found[0], size, found[2])

    def drop(self, key: K) -> None:
        """Stop keeping ``key``; nothing happens if it is not kept."""
        found = self._kept.get(key)
        if found is not None:
            self._forget(key, found)

    def _why_not(self, owner: Owner | str | None, size: int, number: int) -> str | None:
        count, room = self._count, self._bytes
        if self._number + number > count.total:
            return f"{self._number} {self._what}, {_more(number)} ({self._option})"
        if self._size + size > room.total:
            part = _ORDINALS[self._part]
            return f"{self._what} take {self._size} bytes, and {size} more are too many (a {part} of memory_bytes)"
        if owner is None:
            return None
        if isinstance(owner, str):
            host = owner
        else:
            has, takes = self._of.get(owner, _NOTHING)
            if has + number > count.connection:
                share = f"its share of {count.total} ({self._option})"
                return f"{has} {self._what} over this connection, {share}; {_more(number)}"
            if takes + size > room.connection:
                return (
                    f"{self._what} over this connection take {takes} bytes, and {size} more are above its share, "
                    f"which is {room.connection} (of memory_bytes)"
                )
            host = owner.address.host
        has, takes = self._of.get(host, _NOTHING)
        if has + number > count.address:
            share = f"its share of {count.total} ({self._option}, {_SHARE_OPTION})"
            return f"{has} {self._what} from {host.lstrip('/')}, {share}; {_more(number)}"
        if takes + size > room.address:
            return (
                f"{self._what} from {host.lstrip('/')} take {takes} bytes, and {size} more are above its share, "
                f"which is {room.address} (memory_bytes, {_SHARE_OPTION})"
            )
        return None

    def _keep(self, key: K, owner: Owner | str | None, size: int, number: int) -> None:
        self._kept[key] = owner, size, number
        self._add(owner, number, size)

    def _forget(self, key: K, found: tuple[Owner | str | None, int, int]) -> None:
        del self._kept[key]
        self._add(found[0], -found[2], -found[1])

    def _add(self, owner: Owner | str | None, count: int, size: int) -> None:
        self._number += count
        self._size += size
        self._memory.keep(size)
        if owner is None:
            return
        if not isinstance(owner, str):
            self._add_of(owner, count, size)
            owner = owner.address.host
        self._add_of(owner, count, size)

    def _add_of(self, owner: Owner | str, count: int, size: int) -> None:
        of = self._of.get(owner)
        if of is None:
            self._of[owner] = [count, size]
            return
        of[0] += count
        of[1] += size
        if not of[0]:
            del self._of[owner]


def _more(number: int) -> str:
    return "more are not taken" if number <= 1 else f"{number} more are not taken"
