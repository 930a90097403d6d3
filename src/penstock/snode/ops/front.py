"""The operators' page: ``/metrics``, ``/healthz``, ``/readyz``. A front like others, so its clients are bounded, too.

What must not live here: what is counted, and where.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from http import HTTPStatus
from typing import Final

from penstock.net.options import ListenerOptions
from penstock.seams.framing import Frame
from penstock.seams.front import Peer
from penstock.seams.runtime import Runtime
from penstock.snode.ops.exposition import CONTENT_TYPE, text
from penstock.snode.ops.http import Answer, HttpFraming, path_of, written
from penstock.snode.ops.readiness import Readiness
from penstock.snode.ops.readings import readings
from penstock.snode.ops.watched import Stage, Watched

__all__ = ["LISTENER", "OpsFront"]

LISTENER: Final = ListenerOptions(
    max_connections=32, idle_timeout_s=10.0, write_limit_bytes=8 << 20, concurrent_frames=1, backlog=32
)
"""A handful of probes and scrapers; who is slow is hung up on."""

_TICK_S: Final = 1.0
_TICKS: Final = 60


class OpsFront:
    """``penstock.seams.front.Front``."""

    scheme = "http"

    def __init__(self, node: Watched, runtime: Runtime) -> None:
        self._node = node
        self._runtime = runtime
        self._readiness = Readiness(node, runtime.monotonic)
        self._late: deque[float] = deque(maxlen=_TICKS)
        self._started_s = time.time()

    async def start(self) -> None:
        """Begin to watch how late the loop is."""
        self._runtime.spawn(self._watch_lag(), "see how late timers are")

    def session(self, peer: Peer) -> _Session:
        return _Session(self, peer)

    async def stop(self) -> None:
        """Ask the cluster behind no more."""
        self._readiness.stop()

    async def answer(self, path: str | None) -> Answer:
        """What is said to who asks for that."""
        if path is None:
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, "GET or HEAD\n")
        if path == "/metrics":
            ready = await self._readiness.why_not() is None
            lag_s = max(self._late, default=0.0)
            return Answer(
                HTTPStatus.OK,
                text(readings(self._node, ready=ready, lag_s=lag_s, started_s=self._started_s)),
                CONTENT_TYPE,
            )
        if path == "/healthz":
            failed = self._node.stage is Stage.FAILED
            return _verdict(str(Stage.FAILED) if failed else None, "alive")
        if path == "/readyz":
            why_not = await self._readiness.why_not()
            return _verdict(why_not, "ready", self._readiness.but())
        return Answer(HTTPStatus.NOT_FOUND, "/metrics, /healthz and /readyz are served here\n")

    async def _watch_lag(self) -> None:
        now = asyncio.get_running_loop().time  # the node's own clock leaves out just what is looked for here
        while True:
            due = now() + _TICK_S
            await self._runtime.sleep(_TICK_S)
            self._late.append(max(0.0, now() - due))


class _Session:
    """``penstock.seams.front.Session``."""

    ordered = True
    at_once = False

    def __init__(self, front: OpsFront, peer: Peer) -> None:
        self._front = front
        self._peer = peer

    def framing(self) -> HttpFraming:
        return HttpFraming()

    async def handle(self, frame: Frame) -> None:
        """Answer, and hang up."""
        path, head_only = path_of(bytes(frame.body))
        self._peer.push(written(await self._front.answer(path), head_only=head_only))
        self._peer.hang_up()

    def lost(self) -> None:
        """Nothing waits here."""


def _verdict(why_not: str | None, well: str, but: str = "") -> Answer:
    if why_not is None:
        return Answer(HTTPStatus.OK, f"{well}\n{but}")
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{why_not}\n")
