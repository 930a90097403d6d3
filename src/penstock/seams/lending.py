"""Lending: a read that is under way goes into the hands of the thread that waits for its records, and back.

What must not live here: connections (`channel.LentConnection`), and who has the hold (`hold`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from penstock.model import Node
from penstock.seams.client import Fetched, ReadFrom
from penstock.seams.hold import Hold

__all__ = ["LendsReads", "LentRead"]


class LentRead(Protocol):
    """A read that is under way, in the hands of the thread that waits for its records. But for ``over`` everything is
    called by who has the hold. What it cannot go on with itself it gives back, and the loop goes on: whoever asked by
    ``read_again`` then hears of the read, unless its answer was heard here.
    """

    @property
    def fileno(self) -> int:
        """What to wait for until something comes; not to be touched otherwise."""
        ...

    @property
    def over(self) -> bool:
        """It was given back, or its connection has ended. May be asked at any time."""
        ...

    def receive(self) -> Sequence[Fetched] | None:
        """An answer in which nothing is unusual; None where none has come yet, or another one, for which it was given
        back."""
        ...

    def ask(self, moved: Sequence[ReadFrom]) -> bool:
        """Once more, after an answer: ``ReadsAgain.read_again``. False where that cannot be, and nothing was asked."""
        ...

    def give_back(self, then: Callable[[], None] | None = None) -> None:
        """The loop goes on; where an answer was heard and nothing asked after it, by ``then``, unless the connection
        ends before. Does nothing where it is over."""
        ...

    def forget(self) -> None:
        """It is over, and nobody waits for its descriptor any more."""
        ...

    def break_off(self) -> None:
        """Something went wrong on the way, nobody knows how far it is: its connection is ended."""
        ...


@runtime_checkable
class LendsReads(Protocol):
    """A LogClient whose reads, once asked again, can be received by the thread that waits for records."""

    def lend_read(self, node: Node, hold: Hold) -> LentRead | None:
        """The node's read that is under way; None where only the loop can receive it. Called on the loop."""
        ...
