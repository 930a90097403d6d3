"""What fault injection in tests needs of a protocol: which API a request is of, and how an error answer looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from penstock.errors import UsageError
from penstock.seams.framing import Frame, Pieces

__all__ = ["Handle", "Wording", "check_name"]

Handle = Callable[[Frame], Awaitable[Pieces | None]]


class Wording(Protocol):
    """One protocol's part: names of APIs, and answers that say no."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name of an API or of an error that the protocol does not have."""
        ...

    def api_of(self, frame: Frame) -> str:
        """The API's name as the protocol spells it, "" for a request that cannot be read."""
        ...

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """An answer to ``frame`` that carries ``error`` wherever its API can; None where it takes no answer.

        ``handle`` gives the true answer, for requests that have no effect.
        """
        ...

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """The true answer with ``error`` written over its error codes."""
        ...


def check_name(whose: str, what: str, name: str, names: Collection[str]) -> None:
    """Raise UsageError, with the one that was likely meant, for a name that a protocol does not have."""
    if name not in names:
        from difflib import get_close_matches  # nodes have no use for it

        nearest = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"Did you mean {nearest[0]!r}?" if nearest else None
        raise UsageError(f"{whose} has no {what} named {name!r}", hint=hint)
