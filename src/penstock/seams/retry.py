"""The one retry policy of all clients: exponential backoff with jitter, until a deadline.

    retry = Retry(channel, options)
    while True:
        try:
            return await attempt()
        except PenstockError as error:
            await retry.after(error)

Time and dice are the channel's. What is safe to try again is the error's own knowledge (``retriable``). What stays with
a protocol, in its options: how long each kind of error is worth waiting for.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.errors import FirstContactTimeout, PenstockError
from penstock.seams.channel import Channel

__all__ = ["Retry", "RetryLimits"]

_JITTER = 0.2


class RetryLimits(Protocol):
    """What a client's options say of attempts and of the pauses between them."""

    @property
    def retry_backoff_ms(self) -> int:
        """The first pause, give or take a fifth; each is twice the one before."""
        ...

    @property
    def retry_backoff_max_ms(self) -> int:
        """The longest pause."""
        ...

    @property
    def api_timeout_ms(self) -> int:
        """How long an operation may take with all its attempts."""
        ...

    def patience_ms(self, error: PenstockError) -> int:
        """How long an operation goes on that ends in this error: ``api_timeout_ms``, or less where waiting seldom
        helps."""
        ...


class Retry:
    """Counts the attempts of one operation; gives up ``timeout_ms`` (None: ``api_timeout_ms``) after its making, or
    after ``begun`` (seconds of the channel's clock)."""

    def __init__(
        self,
        channel: Channel[Any],
        limits: RetryLimits,
        *,
        timeout_ms: float | None = None,
        begun: float | None = None,
    ) -> None:
        self._channel = channel
        self._limits = limits
        self._timeout_ms = limits.api_timeout_ms if timeout_ms is None else timeout_ms
        self._begun = channel.monotonic() if begun is None else begun
        self.attempts = 0

    async def after(self, error: PenstockError) -> None:
        """Wait before the next attempt; raises ``error`` if it is final or there is no time left."""
        if not error.retriable:
            raise error
        await self.pause(error)

    async def pause(self, error: PenstockError, *, seconds: float | None = None) -> None:
        """As ``after``, for errors that the caller knows to pass; ``seconds`` is for who knows how long that takes.

        That no server has answered in time ends everything that waits: it is raised whatever the caller knows.
        """
        if isinstance(error, FirstContactTimeout):
            raise error
        delay = self._backoff_s() if seconds is None else seconds
        self.attempts += 1
        patience_s = min(self._timeout_ms, self._limits.patience_ms(error)) / 1_000
        if self._channel.monotonic() + delay >= self._begun + patience_s:
            if error.hint is None:
                error.hint = f"Gave up after {self.attempts} attempts."
            raise error
        await self._channel.sleep(delay)

    def _backoff_s(self) -> float:
        delay_ms = min(self._limits.retry_backoff_max_ms, self._limits.retry_backoff_ms * 2.0 ** min(self.attempts, 30))
        return delay_ms / 1_000 * (1 - _JITTER + 2 * _JITTER * self._channel.random())
