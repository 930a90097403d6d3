"""How a test's client asks again: as its protocol tells it to, and only where a call of the node's enode was lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.concurrency.runtime import Runtime
from penstock.errors import UpstreamLost
from penstock.interfaces.enode import Enode
from tests.late_enode import lost_by

A = TypeVar("A")
_ATTEMPTS = 40
_PAUSE_S = 0.1


class Again:
    """For the clients of one node; ``enode`` as the node sees it."""

    def __init__(self, enode: Enode, runtime: Runtime) -> None:
        self._enode = enode
        self._runtime = runtime

    async def until_right(self, ask: Callable[[], Awaitable[A]], try_again: Callable[[A], bool]) -> A:
        """What is answered: the first answer that need not be asked for again, or that no loss explains."""
        for _ in range(_ATTEMPTS):
            before = lost_by(self._enode)
            answer = await ask()
            if lost_by(self._enode) == before or not try_again(answer):
                return answer
            await self._runtime.sleep(_PAUSE_S)
        raise AssertionError(f"after {_ATTEMPTS} attempts the answer is still {answer}")

    async def until_done(self, work: Callable[[], Awaitable[A]]) -> A:
        """What the node does by itself, and tries again later where its enode was lost."""
        for _ in range(_ATTEMPTS):
            before = lost_by(self._enode)
            try:
                return await work()
            except UpstreamLost:
                assert lost_by(self._enode) > before, "a loss that there was not"
            await self._runtime.sleep(_PAUSE_S)
        raise AssertionError(f"not done after {_ATTEMPTS} attempts")
