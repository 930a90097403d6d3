"""FaultLatency: which brokers a producer leaves alone for a while. A pure table with the clock passed in.

| what happened | left alone for |
| --- | --- |
| a broker refused, broke off or kept silent | ``avoid_failed_ms`` |
| it took long to answer (with ``avoid_slow_brokers``) | by how long it took, as in the table below |

Another broker than the one that failed is what Java's producers try next, too. Who has only one goes on with it.
Source: Apache RocketMQ 5.4, ``MQFaultStrategy``.
"""

from __future__ import annotations

import bisect
from typing import Final

__all__ = ["FaultLatency"]

_LATENCY_S: Final = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
_REST_S: Final = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)


class FaultLatency:
    """One producer's. Times are seconds of a clock that never goes back; brokers go by their names."""

    def __init__(self, *, failed_s: float, by_latency: bool) -> None:
        self._failed_s = failed_s
        self._by_latency = by_latency
        self._until: dict[str, float] = {}

    def avoids(self, broker: str, now: float) -> bool:
        """Whether it is better to send elsewhere now."""
        return now < self._until.get(broker, now)

    def answered(self, broker: str, took_s: float, now: float) -> None:
        """It stored something; how long that took."""
        rest_s = self.rest_s(took_s) if self._by_latency else 0.0
        if rest_s:
            self._until[broker] = now + rest_s
        else:
            self._until.pop(broker, None)

    def failed(self, broker: str, now: float) -> None:
        """It refused for a reason of its own, or nothing was heard."""
        self._until[broker] = now + self._failed_s

    @staticmethod
    def rest_s(took_s: float) -> float:
        """For how long a broker rests that took so long: by the largest threshold that was reached."""
        place = bisect.bisect_right(_LATENCY_S, took_s) - 1
        return _REST_S[place] if place >= 0 else 0.0
