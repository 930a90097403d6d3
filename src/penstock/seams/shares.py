"""Shares: what clients make a node keep, with a limit over all, for each address, and for each connection.

A total that one client can use up is no limit: it would shut all others out. So one address may have a part of each
total only, and one connection a small part. Small totals are not divided.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

from penstock._dataclasses import dataclass
from penstock.model import Endpoint
from penstock.seams.memory import UNLIMITED, Memory

__all__ = ["ADDRESS_PERCENT", "Divided", "Owner", "Shares", "divided"]

K = TypeVar("K", bound=Hashable)

ADDRESS_PERCENT: Final = 50
"""Of a total, where an operator does not say."""
_CONNECTION_PERCENT: Final = 5
_LEAST_OF_CONNECTION: Final = 100
_LEAST_BYTES: Final = 64 << 10
_BYTES_OF_CONNECTION_PERCENT: Final = 30
"""More than of their number: what one client keeps may well be larger than what others do."""
_PART_OF_MEMORY: Final = 16


class Owner(Protocol):
    """A client's connection."""

    @property
    def address(self) -> Endpoint: ...


@dataclass(frozen=True, slots=True)
class Divided:
    """A total, and the most of it that one address and one connection may have."""

    total: int
    address: int
    connection: int


def divided(
    total: int,
    address_percent: int = ADDRESS_PERCENT,
    least: int = _LEAST_OF_CONNECTION,
    connection_percent: int = _CONNECTION_PERCENT,
) -> Divided:
    """A total with its parts; neither part is below ``least``, as far as the total has so much.

    >>> divided(10_000)
    Divided(total=10000, address=5000, connection=500)
    >>> divided(50)
    Divided(total=50, address=50, connection=50)
    """
    of_address = max(total * address_percent // 100, 2 * least)
    of_connection = max(total * connection_percent // 100, least)
    return Divided(total, min(total, of_address), min(total, of_address, of_connection))


class Shares(Generic[K]):
    """Things that are kept for clients, by key: whose they are, how many bytes they take.

    ``what`` names them in refusals, ``option`` names the total. ``most`` bounds their number. Their bytes, which are
    estimates, count as ``memory``, and all of them may have a sixteenth of that.
    """

    def __init__(
        self,
        what: str,
        option: str,
        most: int,
        memory: Memory = UNLIMITED,
        address_percent: int = ADDRESS_PERCENT,
    ) -> None:
        self._what = what
        self._option = option
        self._memory = memory
        self._count = divided(most, address_percent)
        self._bytes = divided(
            memory.limit // _PART_OF_MEMORY, address_percent, _LEAST_BYTES, _BYTES_OF_CONNECTION_PERCENT
        )
        self._kept: dict[K, tuple[Owner | None, int]] = {}
        self._of: dict[object, tuple[int, int]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes that all of them take."""
        return self._size

    def put(self, key: K, owner: Owner | None, size: int) -> str | None:
        """Keep ``key`` for ``owner``, instead of what is kept under it. Why not, in a sentence: nothing changed then.

        Without an owner only the totals are looked at.
        """
        before = self._kept.get(key)
        if before is not None and before[0] is owner and before[1] == size:
            return None
        if before is not None:
            self._forget(key, before)
        why = self._why_not(owner, size)
        if why is None:
            self._keep(key, owner, size)
        elif before is not None:
            self._keep(key, *before)
        return why

    def drop(self, key: K) -> None:
        """It is kept no more; nothing happens if it is not kept."""
        found = self._kept.get(key)
        if found is not None:
            self._forget(key, found)

    def _why_not(self, owner: Owner | None, size: int) -> str | None:
        what, option, count, room = self._what, self._option, self._count, self._bytes
        if len(self._kept) >= count.total:
            return f"{len(self._kept)} {what}, more are not taken ({option})"
        if self._size + size > room.total:
            return f"{what} take {self._size} bytes, and {size} more are too many (a sixteenth of memory_bytes)"
        if owner is None:
            return None
        for whose, most, bytes_most, words in (
            (owner, count.connection, room.connection, "over this connection"),
            (owner.address.host, count.address, room.address, f"from {owner.address.host}"),
        ):
            has, takes = self._of.get(whose, (0, 0))
            if has >= most:
                return f"{has} {what} {words}, its share of {count.total} ({option}); more are not taken"
            if takes + size > bytes_most:
                return f"{what} {words} take {takes} bytes, and {size} more are above its share, which is {bytes_most}"
        return None

    def _keep(self, key: K, owner: Owner | None, size: int) -> None:
        self._kept[key] = owner, size
        self._add(owner, 1, size)

    def _forget(self, key: K, found: tuple[Owner | None, int]) -> None:
        del self._kept[key]
        self._add(found[0], -1, -found[1])

    def _add(self, owner: Owner | None, count: int, size: int) -> None:
        self._size += size
        self._memory.keep(size)
        for whose in () if owner is None else (owner, owner.address.host):
            has, takes = self._of.get(whose, (0, 0))
            if has + count:
                self._of[whose] = has + count, takes + size
            else:
                del self._of[whose]
