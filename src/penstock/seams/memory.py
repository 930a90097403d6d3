"""Memory: what all connections of a node may hold together, as fronts see it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

__all__ = ["UNLIMITED", "Memory"]


class Memory(Protocol):
    """What all connections of a node may hold together."""

    @property
    def limit(self) -> int:
        """Bytes in all."""
        ...

    @property
    def free(self) -> int:
        """Bytes that are left, 0 at least. An answer takes a part of it, so that there is some for the next one."""
        ...

    def reserved(self, size: int) -> AbstractContextManager[None]:
        """While it is entered, work on somebody's behalf takes ``size`` bytes, whether or not they are left."""
        ...

    def keep(self, change: int) -> None:
        """State that the node keeps for its clients has grown by ``change`` bytes, or shrunk if that is below 0."""
        ...


class _Unlimited:
    limit = free = 1 << 62

    def reserved(self, size: int) -> AbstractContextManager[None]:
        del size
        return nullcontext()

    def keep(self, change: int) -> None:
        del change


UNLIMITED: Final = _Unlimited()
