"""CommitUnderWay: a commit whose request is written, and for whose answer no task waits.

It is told of what its first attempt came to. What is left to do then, if anything, goes on in a task of whoever asked,
and others' commits wait behind it. What must not live here: who may commit, and in which order (`_committer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from penstock.client.errors import CommitFailed
from penstock.errors import ErrorKind, ServerError
from penstock.seams import CommitHeard, CommitRest

__all__ = ["JOINS_AGAIN", "CommitUnderWay", "GiveUp", "as_member"]

JOINS_AGAIN = "Its partitions may belong to others by now; poll() joins again"

GiveUp: TypeAlias = Callable[[], None]
"""Nobody waits for it any more. Once it is over, or given up, this does nothing."""


class CommitUnderWay:
    """``stored`` is called when it is, ``leave`` once it is over, and before ``heard`` where that hears None."""

    __slots__ = ("_heard", "_leave", "_stored", "_waiting")

    def __init__(self, stored: Callable[[], None], leave: Callable[[], None], heard: CommitHeard) -> None:
        self._stored = stored
        self._leave: Callable[[], None] | None = leave
        self._heard = heard
        self._waiting = True

    def told(self, rest: CommitRest | None) -> None:
        """The first attempt is over. Raises nothing."""
        if not self._waiting:
            return
        self._waiting = False
        if rest is not None:
            self._heard(partial(self._go_on, rest))
            return
        self._stored()
        self._end()
        self._heard(None)

    def give_up(self) -> None:
        """`GiveUp`."""
        self._waiting = False
        self._end()

    async def _go_on(self, rest: CommitRest) -> None:
        try:
            with as_member():
                await rest()
            self._stored()
        finally:
            self._end()

    def _end(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


@contextmanager
def as_member() -> Iterator[None]:
    """Who has not heard yet that he lost everything hears it of his commit."""
    try:
        yield
    except ServerError as error:
        if error.kind is not ErrorKind.NOT_A_MEMBER:
            raise
        raise CommitFailed(f"this consumer cannot commit: {error.message}", hint=JOINS_AGAIN) from error
