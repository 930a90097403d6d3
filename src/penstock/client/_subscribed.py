"""What is subscribed: topics by name, and by pattern, which stands for those that there are at a time.

A pattern matches from a name's first letter on, as Python's ``re.match`` does, and so kafka-python, aiokafka and
librdkafka's ``^…``. Internal topics are matched by none. A `SubscriptionPattern` is not looked at here: the group's
servers match it.

What must not live here: when topics are asked for (`_topics`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from penstock._dataclasses import dataclass
from penstock.client._arguments import TopicNames
from penstock.errors import ConfigError, UsageError
from penstock.model import TopicInfo

__all__ = ["PatternLike", "Subscribed", "SubscriptionPattern", "TopicsLike", "of_address", "subscribed_to"]


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A pattern that a group's servers match (KIP-848): sent as it is, read as RE2, and fitting whole names of topics.

    For `Consumer.subscribe`, in groups of ``group_protocol="consumer"``, whose servers tell members of topics that come
    and go. All other patterns the consumer looks up itself.

    >>> SubscriptionPattern("orders-.*").pattern
    'orders-.*'
    """

    pattern: str

    def __post_init__(self) -> None:
        given: object = self.pattern
        if not isinstance(given, str):
            raise UsageError(f"a subscription pattern is {given!r:.60}, wanted is text")
        if not given:
            raise UsageError("a subscription pattern is empty", hint='Every topic is meant by ".*"')


PatternLike: TypeAlias = str | re.Pattern[str] | SubscriptionPattern
"""A regular expression over names of topics."""
TopicsLike: TypeAlias = (
    Collection[str | re.Pattern[str] | SubscriptionPattern] | str | re.Pattern[str] | SubscriptionPattern
)
"""Names of topics, and patterns: compiled ones, those for servers, and text that begins with ``^``, as no name does."""
_SIGN: Final = "^"
_ONE: Final = (str, bytes, bytearray, re.Pattern, SubscriptionPattern)


class Subscribed:
    """``topics`` are those that names and patterns stand for now; who hears of topics tells it by ``choose``.

    ``for_servers`` is what only they can match: they say what it stands for by what they assign.
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
        """Whether both mean the same topics, whichever there are."""
        mine, others = ((each.names, set(each.patterns), each.for_servers) for each in (self, other))
        return mine == others

    def means(self, topic: str) -> bool:
        """Whether a topic is subscribed, if there is one of that name; where servers match, whether it may be."""
        return self.for_servers is not None or topic in self.names or self._matched(topic)

    def choose(self, there: Mapping[str, TopicInfo]) -> frozenset[str]:
        """Of all the topics there are those that are meant; ``topics`` from now on."""
        found = {name for name, info in there.items() if not info.internal and self._matched(name)}
        self._looked = True
        self.topics = self.names | found
        return self.topics

    async def looked_up(self, ask: Callable[[], Awaitable[Mapping[str, TopicInfo]]]) -> frozenset[str]:
        """``topics``, once ``ask`` or somebody else has told which ones there are. Raises what ``ask`` raises."""
        if not self._looked:
            self.choose(await ask())
        return self.topics

    def _matched(self, name: str) -> bool:
        return any(pattern.match(name) for pattern in self.patterns)


def of_address(topics: Collection[str]) -> Subscribed:
    """What an address's path, or an option, names. Raises ConfigError for what begins with ``^`` and is no pattern."""
    try:
        patterns = [_compiled(topic) for topic in topics if _is_pattern(topic)]
    except UsageError as error:
        raise ConfigError(error.message, hint=error.hint) from None
    return Subscribed(frozenset(topic for topic in topics if not _is_pattern(topic)), patterns)


def subscribed_to(names: TopicNames, topics: object, pattern: object = None) -> Subscribed:
    """What a caller named. Raises UsageError for what is neither a name nor a pattern, and for nothing at all."""
    given = [topics] if isinstance(topics, _ONE) else topics
    if topics is None and pattern is not None:
        given = []
    if not isinstance(given, Iterable):
        return Subscribed(names.some(given))
    listed: list[object] = list(given)
    named = [each for each in listed if not _is_pattern(each)]
    told = [*filter(_is_pattern, listed), *([] if pattern is None else [pattern])]
    for_servers = _for_servers(told)
    patterns = [] if for_servers else [_compiled(each) for each in told]
    return Subscribed(names.some(named) if named or not told else frozenset(), patterns, for_servers)


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
        raise UsageError(f"a pattern is {given!r:.60}, wanted is text, or what re.compile() makes of text")
    try:
        return re.compile(given)
    except (re.error, OverflowError, RecursionError) as error:
        hint = "It is read as Python's re module reads it; a topic's name never begins with ^"
        raise UsageError(f"the pattern {given!r:.80} is no regular expression: {error}", hint=hint) from None
