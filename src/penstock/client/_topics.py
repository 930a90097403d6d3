"""Topics: keeps what is known of the wanted topics fresh, one request at a time, and says so when it was renewed.

Whoever misses a leader calls ``refresh``, again with every renewal that has brought none: that is what keeps asking,
with growing pauses, until there is one or nobody wants it any more.

What must not live here: partitions' positions, groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from penstock.client._alarm import Alarm
from penstock.client._subscribed import Subscribed
from penstock.client._surroundings import Backoff
from penstock.config import ClientConfig
from penstock.errors import FirstContactTimeout, PenstockError
from penstock.model import TopicInfo
from penstock.seams import LogClient

__all__ = ["Topics"]

_TRIES_A_PAUSE = 20
"""Answers that help nobody before pauses double: who waits for a leader waits a twentieth longer than it takes."""


class Topics:
    """``wanted`` are the topics to know about; ``known`` those that exist. ``renewed`` runs after each refresh.

    ``trouble`` is what the last question met, None if it was answered.
    """

    def __init__(
        self,
        client: LogClient,
        config: ClientConfig,
        backoff: Backoff,
        renewed: Callable[[], Awaitable[None]],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._client = client
        self._config = config
        self._backoff = backoff
        self._renewed = renewed
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._alarm = Alarm(self._loop, self._begin)
        self._not_before = 0.0
        self._failures = 0
        self._again = False
        self._in_vain = 0
        self._absent = 0
        self._asked: frozenset[str] = frozenset()
        self._patterns: Subscribed | None = None
        self.wanted: frozenset[str] = frozenset()
        self.trouble: PenstockError | None = None
        self.known: Mapping[str, TopicInfo] = {}

    def want(self, topics: frozenset[str]) -> None:
        """Know about these from now on."""
        if topics != self.wanted or self._patterns is not None:
            self.wanted, self._patterns = topics, None
            self._not_before = 0.0
            self.refresh()

    def follow(self, subscribed: Subscribed) -> None:
        """Know about what is subscribed from now on: where there are patterns, all topics are asked for."""
        self.want(subscribed.topics)
        if subscribed.patterns:
            self._patterns = subscribed
            self.refresh()

    def refresh(self) -> None:
        """Ask again soon: at once if the last time is long enough ago.

        While an answer is on its way, once more after it: it may have been given before what makes it wrong happened.
        """
        if self._task is not None:
            self._again = True
        elif self._asks:
            self._arm(max(0.0, self._not_before - self._loop.time()))

    async def close(self) -> None:
        """Stop asking."""
        self.wanted, self._patterns = frozenset(), None
        self._alarm.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _asks(self) -> bool:
        return bool(self.wanted) or self._patterns is not None

    def _arm(self, delay_s: float) -> None:
        self._alarm.ring_by(self._loop.time() + delay_s)

    def _begin(self) -> None:
        if self._task is None and self._asks:
            self._again = False
            self._task = self._loop.create_task(self._refresh(), name="penstock topics")
            self._task.add_done_callback(self._ended)

    async def _refresh(self) -> None:
        asked, patterns = self.wanted, self._patterns
        self._asked = asked
        try:
            known = await self._client.topics(None if patterns is not None else asked, fresh=True)
            if patterns is not None and patterns is self._patterns:
                self.wanted = self._asked = patterns.choose(known)
            self.known = known
            self._failures = 0
            await self._renewed()
            self.trouble = None
        except PenstockError as error:
            self._failures += 1
            self.trouble = error
            if isinstance(error, FirstContactTimeout) or not error.retriable:
                self._failed(error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._failed(error)
        now = self._loop.time()
        self._in_vain = self._in_vain + 1 if self._again else 0
        self._not_before = now + self._backoff.seconds(max(self._failures, 1 + self._in_vain // _TRIES_A_PAUSE))
        self._absent = 0 if self.wanted - self._asked else self._absent
        if self.wanted - self._asked and not self._failures:
            self._arm(0.0)  # wanted while others were asked for
        elif self._failures or self._again or error is not None:
            self._arm(self._not_before - now)
        elif not self.wanted <= set(self.known):
            # A topic that does not exist yet may come at any time, and nobody will tell. A new one comes at once.
            self._absent += 1
            self._arm(self._backoff.seconds(self._absent))
        elif self._asks:
            self._absent = 0
            self._arm(self._config.metadata_max_age_ms / 1_000)
