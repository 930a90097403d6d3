"""Subscriptions by name and by pattern, the topics that they mean, and warnings of missing topics and partitions.

A pattern matches from the beginning of a name, as Python's ``re.match`` does, and so do kafka-python, aiokafka and
librdkafka's ``^…``. No pattern matches internal topics. A `SubscriptionPattern` is not evaluated here: the group's
servers match it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from penstock.client.arguments import TopicNames
from penstock.client.runtime.background_loop import CoalescingTimer
from penstock.config import ClientConfig
from penstock.config.client import ClientLog
from penstock.errors import ConfigError, FirstContactTimeout, PenstockError, UsageError
from penstock.interfaces import LogClient
from penstock.interfaces.channel import Backoff
from penstock.model import Partition, TopicInfo, Value

__all__ = [
    "MissingPartitionWarnings",
    "PatternLike",
    "Subscribed",
    "SubscriptionPattern",
    "Topics",
    "TopicsLike",
    "of_address",
    "subscribed_to",
]


class SubscriptionPattern(Value, frozen=True):
    """A pattern that a group's servers match (KIP-848): sent unchanged, in RE2 syntax, against whole topic names.

    For `Consumer.subscribe`, in groups of ``group_protocol="consumer"``, whose servers notify members of new and
    deleted topics. The consumer itself looks up all other patterns.

    >>> SubscriptionPattern("orders-.*").pattern
    'orders-.*'
    """

    pattern: str

    def __post_init__(self) -> None:
        given: object = self.pattern
        if not isinstance(given, str):
            raise UsageError(f"a subscription pattern must be a string, got {given!r:.60}")
        if not given:
            raise UsageError("a subscription pattern is empty", hint='Every topic is meant by ".*"')


PatternLike: TypeAlias = str | re.Pattern[str] | SubscriptionPattern
"""A regular expression for topic names."""
TopicsLike: TypeAlias = (
    Collection[str | re.Pattern[str] | SubscriptionPattern] | str | re.Pattern[str] | SubscriptionPattern
)
"""Topic names and patterns: compiled ones, those for servers, and texts that begin with ``^``, as no name does."""
_SIGN: Final = "^"
_ONE: Final = (str, bytes, bytearray, re.Pattern, SubscriptionPattern)


class Subscribed:
    """A subscription. ``topics`` are its present topics; ``choose`` updates them after each look at all topics.

    ``for_servers`` is a pattern that only servers match; the partitions that they assign show its topics.
    """

    def __init__(
        self,
        names: frozenset[str],
        patterns: Collection[re.Pattern[str]] = (),
        for_servers: SubscriptionPattern | None = None,
    ) -> None:
        self.names = names
        self.patterns = tuple(patterns)
        self.for_servers = for_servers
        self.topics = names
        self._looked = not patterns

    def same(self, other: Subscribed) -> bool:
        """Whether both always mean the same topics."""
        mine, others = ((each.names, set(each.patterns), each.for_servers) for each in (self, other))
        return mine == others

    def means(self, topic: str) -> bool:
        """Whether a topic of that name is subscribed; where servers match, whether it may be."""
        return self.for_servers is not None or topic in self.names or self._matched(topic)

    def choose(self, there: Mapping[str, TopicInfo]) -> frozenset[str]:
        """The subscribed topics among all existing ones; they become ``topics``."""
        found = {name for name, info in there.items() if not info.internal and self._matched(name)}
        self._looked = True
        self.topics = self.names | found
        return self.topics

    async def looked_up(self, ask: Callable[[], Awaitable[Mapping[str, TopicInfo]]]) -> frozenset[str]:
        """``topics``; with patterns, after ``ask`` or an earlier call has found the existing ones.

        Raises the errors of ``ask``.
        """
        if not self._looked:
            self.choose(await ask())
        return self.topics

    def _matched(self, name: str) -> bool:
        return any(pattern.match(name) for pattern in self.patterns)


def of_address(topics: Collection[str]) -> Subscribed:
    """The subscription in an address's path or an option. Raises ConfigError for an invalid pattern after ``^``."""
    try:
        patterns = [_compiled(topic) for topic in topics if _is_pattern(topic)]
    except UsageError as error:
        raise ConfigError(error.message, hint=error.hint) from None
    return Subscribed(frozenset(topic for topic in topics if not _is_pattern(topic)), patterns)


def subscribed_to(names: TopicNames, topics: object, pattern: object = None) -> Subscribed:
    """The subscription in a caller's arguments. Raises UsageError for anything else, and for none at all."""
    given = [topics] if isinstance(topics, _ONE) else topics
    if topics is None and pattern is not None:
        given = []
    if not isinstance(given, Iterable):
        return Subscribed(names.some(given))
    listed: list[object] = list(given)
    named = [each for each in listed if not _is_pattern(each)]
    patterns_given = [*filter(_is_pattern, listed), *([] if pattern is None else [pattern])]
    for_servers = _for_servers(patterns_given)
    patterns = [] if for_servers else [_compiled(each) for each in patterns_given]
    return Subscribed(names.some(named) if named or not patterns_given else frozenset(), patterns, for_servers)


def _for_servers(patterns: Collection[object]) -> SubscriptionPattern | None:
    found = {each for each in patterns if isinstance(each, SubscriptionPattern)}
    if not found:
        return None
    if len(found) > 1:
        raise UsageError("servers match one SubscriptionPattern a member", hint="Join them to one: 'a-.*|b-.*'")
    if not all(isinstance(each, SubscriptionPattern) for each in patterns):
        raise UsageError(
            "a SubscriptionPattern is matched by servers, other patterns by this consumer, and it is one or the other",
            hint="Give all as one SubscriptionPattern: 'a-.*|b-.*'",
        )
    return found.pop()


def _is_pattern(given: object) -> bool:
    return isinstance(given, re.Pattern | SubscriptionPattern) or (isinstance(given, str) and given.startswith(_SIGN))


def _compiled(given: object) -> re.Pattern[str]:
    if isinstance(given, re.Pattern) and isinstance(given.pattern, str):
        return given
    if not isinstance(given, str):
        raise UsageError(f"a pattern must be a string or a compiled expression, got {given!r:.60}")
    try:
        return re.compile(given)
    except (re.error, OverflowError, RecursionError) as error:
        hint = "It is read as Python's re module reads it; a topic's name never begins with ^"
        raise UsageError(f"the pattern {given!r:.80} is no regular expression: {error}", hint=hint) from None


# Keeps the wanted topics up to date, one request at a time, and reports each renewal.
#
# A caller that lacks a leader calls ``refresh``, again after every renewal without one. This repeats the request, with
# growing pauses, until there is a leader or the topic is no longer wanted.
_TRIES_A_PAUSE = 20
"""Fruitless answers until the pause doubles, so waiting for a leader takes at most a twentieth longer than needed."""


class Topics:
    """``wanted`` are the topics to look up, ``known`` those that exist. ``renewed`` is called after each refresh.

    ``trouble`` is the error of the last request, None if it was answered.
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
        self._alarm = CoalescingTimer(self._loop, self._begin)
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
        """Look these topics up from now on."""
        if topics != self.wanted or self._patterns is not None:
            self.wanted, self._patterns = topics, None
            self._not_before = 0.0
            self.refresh()

    def follow(self, subscribed: Subscribed) -> None:
        """Look the subscribed topics up from now on; patterns require a request for all topics."""
        self.want(subscribed.topics)
        if subscribed.patterns:
            self._patterns = subscribed
            self.refresh()

    def refresh(self) -> None:
        """Ask again soon; at once if the last request is long enough ago.

        While a request is under way, ask once more after it, because its answer may be older than the reason for this
        call.
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
        self._alarm.call_by(self._loop.time() + delay_s)

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
            self._arm(0.0)  # topics were added during the request
        elif self._failures or self._again or error is not None:
            self._arm(self._not_before - now)
        elif not self.wanted <= set(self.known):
            # A topic that does not exist yet may be created at any time, without notice. A new one is found at once.
            self._absent += 1
            self._arm(self._backoff.seconds(self._absent))
        elif self._asks:
            self._absent = 0
            self._arm(self._config.metadata_max_age_ms / 1_000)


# Wanted topics and partitions that the servers do not have are reported once they have been missing for a while.
#
# A topic may be created at any time, and a server may return with its partitions: their absence is a warning. A
# partition number that its topic does not have is an error.
_LOOK_AGAIN_S: Final = 1.0

_LASTING_S: Final = 2.0
"""How long a new topic, or a new partition, may take to be known everywhere."""


class MissingPartitionWarnings:
    """Called after each answer about topics. ``failed`` is called with the error for the next poll."""

    def __init__(self, log: ClientLog, failed: Callable[[BaseException], None]) -> None:
        self._log = log
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._since: dict[str | Partition, float] = {}
        self._warned: set[str | Partition] = set()

    def renewed(self, topics: Topics, partitions: Collection[Partition]) -> None:
        """Warn of missing topics, and fail for a partition that its topic does not have."""
        wrong = self._look(topics.wanted, partitions, topics.known, self._loop.time())
        if wrong is not None:
            self._failed(wrong)
        elif len(self._warned) < len(self._since):
            self._loop.call_later(_LOOK_AGAIN_S, topics.refresh)

    def _look(
        self, topics: Collection[str], partitions: Collection[Partition], known: Mapping[str, TopicInfo], now: float
    ) -> UsageError | None:
        absent: set[str | Partition] = {topic for topic in topics if topic not in known}
        absent.update(each for each in partitions if each.topic in known and not _has(known[each.topic], each))
        self._since = {each: self._since.get(each, now) for each in absent}
        self._warned &= absent
        lasting = sorted((each for each in absent - self._warned if now - self._since[each] >= _LASTING_S), key=str)
        self._warned.update(lasting)
        for topic in lasting:
            if isinstance(topic, str):
                self._log.warning("the servers know no topic %s; it will be read once it is there", topic)
            elif not _is_there(known[topic.topic], topic.node):
                self._log.warning("%s has gone; partition %s will be read once it is back", topic.node, topic)
        wrong = next(
            (each for each in lasting if isinstance(each, Partition) and _is_there(known[each.topic], each.node)), None
        )
        if wrong is None:
            return None
        last = len(known[wrong.topic].partitions) - 1
        return UsageError(
            f"there is no partition {wrong.id}",
            topic=wrong.topic,
            hint=f"The topic has partitions 0 to {last}: assign one of them",
        )


def _has(topic: TopicInfo, partition: Partition) -> bool:
    """Whether the topic has the partition; True while the topic's partitions are unknown."""
    return not topic.partitions or any(info.partition == partition for info in topic.partitions)


def _is_there(topic: TopicInfo, node: str) -> bool:
    """Whether this server has a partition of the topic, where partitions carry a server's name."""
    return not node or any(info.partition.node == node for info in topic.partitions)
