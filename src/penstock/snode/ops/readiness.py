"""Whether a node can serve clients now, and if not, why, in one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.errors import PenstockError
from penstock.seams.opening import Reachable
from penstock.snode.ops.watched import Stage, Watched

__all__ = ["Readiness"]

_FRESH_S: Final = 5.0
"""For so long an answer of the cluster behind is good for all who ask: probes cost it next to nothing."""
_STALE_S: Final = 15.0
"""What was found out so long ago says nothing of now: nobody has asked since."""
_PATIENCE_S: Final = 0.7
"""Orchestrators wait a second for a probe by default."""
_LONGEST_S: Final = 5.0
_SILENT: Final = "the cluster behind has not answered yet"


class Readiness:
    """Asks the cluster behind now and then, and only while somebody asks here."""

    def __init__(self, node: Watched, now: Callable[[], float]) -> None:
        self._node = node
        self._now = now
        self._looked_s: float | None = None
        self._why: str | None = None
        self._looking: asyncio.Task[None] | None = None

    async def why_not(self) -> str | None:
        """What is in the way; None: it is ready. Takes less than a second: it is what was last found out then."""
        if self._node.stage is not Stage.SERVING:
            return str(self._node.stage)
        enode = _asked_of(self._node.enode)
        if enode is None:
            return None
        if self._looked_s is None or self._now() - self._looked_s >= _FRESH_S:
            # One question for all who ask at once; who cannot wait does not take it from the others.
            self._looking = self._looking or asyncio.ensure_future(self._look(enode))
            await asyncio.wait({self._looking}, timeout=_PATIENCE_S)
        unknown = self._looked_s is None or self._now() - self._looked_s > _STALE_S
        return _SILENT if unknown else self._why

    def but(self) -> str:
        """What a node that is ready cannot serve, one line each: those of its clusters that are away."""
        return "".join(f"but {name} is away: {why}\n" for name, why in self._node.standing.items() if why is not None)

    def stop(self) -> None:
        """Ask no more."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self, enode: Reachable) -> None:
        try:
            async with asyncio.timeout(_LONGEST_S):
                self._why = await enode.unreachable()
        except TimeoutError:
            self._why = f"the cluster behind did not answer within {_LONGEST_S:g} s"
        except PenstockError as error:
            self._why = error.message
        finally:
            self._looked_s, self._looking = self._now(), None


def _asked_of(enode: object) -> Reachable | None:
    """Whom to ask; None where topics are kept here."""
    return enode if isinstance(enode, Reachable) else None
