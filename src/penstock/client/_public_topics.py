"""Which topics are shown to who asks for all of them: not those that a log keeps its own state in."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.model import TopicInfo

__all__ = ["public_topics"]


def public_topics(
    found: Mapping[str, TopicInfo], named: Collection[str] | None, *, internal: bool
) -> Mapping[str, TopicInfo]:
    """What was found; of all topics (``named`` is None) without internal ones, unless those are asked for."""
    if internal or named is not None:
        return found
    return {name: topic for name, topic in found.items() if not topic.internal}
