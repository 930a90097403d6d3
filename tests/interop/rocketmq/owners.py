"""Who holds which queue of a topic, looked at ten times a second: whether a queue has two owners, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from tools.peers.java_driver import Driver

__all__ = ["Owners"]

_EVERY_S = 0.1


class Owners:
    """Watches from entering the block to its end. ``others`` say what further members, not Java's, hold."""

    def __init__(self, topic: str, drivers: Sequence[Driver], others: Sequence[Callable[[], set[str]]] = ()) -> None:
        self._topic = topic
        self._drivers = drivers
        self._others = others
        self._since: dict[str, float] = {}
        self._overlaps: list[tuple[str, float]] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def count(self, driver: Driver) -> int:
        """How many of the topic's queues a member holds."""
        return len(self.held(driver))

    def held(self, driver: Driver) -> set[str]:
        """Those."""
        return {name for name in driver.holding if name.startswith(f"{self._topic}:")}

    def settled(self) -> list[tuple[str, float]]:
        """Which queues had two owners since this was last asked, and for how many seconds each."""
        with self._lock:
            found, self._overlaps = self._overlaps, []
            now = time.monotonic()
            found += [(queue, now - since) for queue, since in self._since.items()]
            self._since.clear()
        return found

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            held = [*map(self.held, self._drivers), *(each() for each in self._others)]
            every = [queue for each in held for queue in each]
            twice = {queue for queue in every if every.count(queue) > 1}
            now = time.monotonic()
            with self._lock:
                for queue in twice - self._since.keys():
                    self._since[queue] = now
                for queue in self._since.keys() - twice:
                    self._overlaps.append((queue, now - self._since.pop(queue)))

    def __enter__(self) -> Owners:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        self._over.set()
        self._thread.join()
