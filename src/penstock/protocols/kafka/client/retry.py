"""The one retry policy of this client: exponential backoff with jitter, until a deadline.

    retry = Retry(channel, options)
    while True:
        try:
            return await attempt()
        except PenstockError as error:
            await retry.after(error)

Time and dice are the channel's. What is safe to try again is the error's own knowledge (``retriable``). A topic that
nobody knows is waited for more briefly than a leader: it may be new, but more often its name is misspelt.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError, ServerError
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.seams.channel import Channel

__all__ = ["Retry"]

_JITTER = 0.2
_UNKNOWN_TOPIC_OR_PARTITION = 3


class Retry:
    """Counts the attempts of one operation; ``api_timeout_ms`` after its making, ``after`` gives up."""

    def __init__(self, channel: Channel[Any], options: KafkaOptions, *, timeout_s: float | None = None) -> None:
        self._channel = channel
        self._backoff_s = options.retry_backoff_ms / 1_000
        self._backoff_max_s = options.retry_backoff_max_ms / 1_000
        now = channel.monotonic()
        self._deadline = now + (options.api_timeout_ms / 1_000 if timeout_s is None else timeout_s)
        self._unknown_deadline = min(self._deadline, now + options.unknown_topic_patience_ms / 1_000)
        self.attempts = 0

    def left_s(self) -> float:
        """Seconds until the deadline, not below 0."""
        return max(0.0, self._deadline - self._channel.monotonic())

    async def after(self, error: PenstockError) -> None:
        """Wait before the next attempt; raises ``error`` if it is final or there is no time left."""
        if not error.retriable:
            raise error
        await self.pause(error)

    async def pause(self, error: PenstockError) -> None:
        """As ``after``, for errors that the caller knows to pass even where they say otherwise."""
        delay = min(self._backoff_max_s, self._backoff_s * 2 ** min(self.attempts, 30))
        delay *= 1 - _JITTER + 2 * _JITTER * self._channel.random()
        self.attempts += 1
        unknown = isinstance(error, ServerError) and error.code == _UNKNOWN_TOPIC_OR_PARTITION
        if self._channel.monotonic() + delay >= (self._unknown_deadline if unknown else self._deadline):
            if error.hint is None:
                error.hint = f"Gave up after {self.attempts} attempts."
            raise error
        await self._channel.sleep(delay)
