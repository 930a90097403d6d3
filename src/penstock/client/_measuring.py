"""Measuring: what a client measured, told to a function of the application every so often.

A synchronous client's function runs in a thread of its own, so that it is called while nobody polls or sends; an
asynchronous one's on the user's loop. What must not live here: what is measured (`metrics`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar, cast

from penstock.client._callbacks import Callbacks, LoopCallbacks, Told
from penstock.client.metrics import ConsumerMetrics, ProducerMetrics
from penstock.errors import ConfigError

__all__ = ["Measuring", "MetricsHook"]

M = TypeVar("M", ConsumerMetrics, ProducerMetrics)

MetricsHook: TypeAlias = Callable[[M], object]
"""What ``on_metrics`` takes."""


class Measuring(Generic[M]):
    """Of one client: from its first use to its end. ``callbacks`` says where the function runs.

    What it raises is told, as of any callback. While it is still at one snapshot, others are left out, not kept.
    Raises ConfigError for what cannot be called.
    """

    def __init__(self, hook: object, interval_ms: int, told: Told) -> None:
        if hook is not None and not callable(hook):
            raise ConfigError(
                f"on_metrics is {hook!r:.60}, wanted is a function of one snapshot, as metrics() makes it"
            )
        self.callbacks: Callbacks = LoopCallbacks(told)
        self._hook: MetricsHook[M] | None = cast("MetricsHook[M] | None", hook if interval_ms else None)
        self._interval_s = interval_ms / 1_000
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, snapshot: Callable[[], M]) -> None:
        """Call it an interval from now, and so on. On the client's loop."""
        if self._hook is not None:
            self._arm(asyncio.get_running_loop(), self._hook, snapshot)

    def end(self) -> None:
        """Call it no more; one that is under way in a thread goes on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.callbacks.close()

    def _arm(self, loop: asyncio.AbstractEventLoop, hook: MetricsHook[M], snapshot: Callable[[], M]) -> None:
        self._timer = loop.call_later(self._interval_s, self._tell, loop, hook, snapshot)

    def _tell(self, loop: asyncio.AbstractEventLoop, hook: MetricsHook[M], snapshot: Callable[[], M]) -> None:
        self._arm(loop, hook, snapshot)
        if self.callbacks.idle:
            self.callbacks.put(loop, hook, snapshot())
