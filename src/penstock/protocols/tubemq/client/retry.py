"""The one retry policy of this client: exponential backoff with jitter, until ``api_timeout_ms`` are over.

    retry = Retry(channel, options)
    while True:
        try:
            return await attempt()
        except PenstockError as error:
            await retry.after(error)

Time and dice are the channel's. What is safe to try again is the error's own knowledge (``retriable``).
"""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.seams.channel import Channel

__all__ = ["Retry"]

_JITTER = 0.2


class Retry:
    """Counts the attempts of one operation; gives up ``timeout_ms`` (None: ``api_timeout_ms``) after its making."""

    def __init__(self, channel: Channel[Any], options: TubeOptions, *, timeout_ms: int | None = None) -> None:
        self._channel = channel
        self._backoff_s = options.retry_backoff_ms / 1_000
        self._backoff_max_s = options.retry_backoff_max_ms / 1_000
        patience_ms = options.api_timeout_ms if timeout_ms is None else timeout_ms
        self._deadline = channel.monotonic() + patience_ms / 1_000
        self.attempts = 0

    async def after(self, error: PenstockError) -> None:
        """Wait before the next attempt; raises ``error`` if it is final or there is no time left."""
        if not error.retriable:
            raise error
        await self.pause(error)

    async def pause(self, error: PenstockError, *, seconds: float | None = None) -> None:
        """As ``after``, for errors that the caller knows to pass; ``seconds`` is the server's own wish."""
        delay = min(self._backoff_max_s, self._backoff_s * 2 ** min(self.attempts, 30))
        delay *= 1 - _JITTER + 2 * _JITTER * self._channel.random()
        delay = delay if seconds is None else seconds
        self.attempts += 1
        if self._channel.monotonic() + delay >= self._deadline:
            raise error
        await self._channel.sleep(delay)
