"""How long to wait before the next connection attempt to an endpoint that failed. Arithmetic only."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.model import Endpoint
from penstock.net.options import TransportOptions

__all__ = ["Backoff"]

_JITTER = 0.2


class Backoff:
    """Per endpoint: doubles with each failure, forgotten with a success. Times are a monotonic clock's seconds."""

    def __init__(self, options: TransportOptions) -> None:
        self._first_s = options.reconnect_backoff_ms / 1_000
        self._most_s = options.reconnect_backoff_max_ms / 1_000
        self._failures: dict[Endpoint, int] = {}
        self._not_before: dict[Endpoint, float] = {}
        self.troubles: dict[Endpoint, PenstockError] = {}
        """What the last attempt has met."""

    def delay(self, endpoint: Endpoint, now: float) -> float:
        """Seconds to wait before connecting."""
        return max(0.0, self._not_before.get(endpoint, 0.0) - now)

    @property
    def anywhere(self) -> bool:
        """Whether there is an endpoint that has to be left alone."""
        return bool(self._not_before)

    def failed(self, endpoint: Endpoint, now: float, dice: float, error: BaseException | None = None) -> None:
        """Another failure; ``dice`` is uniform in [0, 1)."""
        if isinstance(error, PenstockError):
            self.troubles[endpoint] = error
        failures = self._failures.get(endpoint, 0)
        self._failures[endpoint] = failures + 1
        delay = min(self._most_s, self._first_s * 2 ** min(failures, 30))
        self._not_before[endpoint] = now + delay * (1 - _JITTER + 2 * _JITTER * dice)

    def succeeded(self, endpoint: Endpoint) -> None:
        """Connected and greeted."""
        self.troubles.pop(endpoint, None)
        self._failures.pop(endpoint, None)
        self._not_before.pop(endpoint, None)
