"""Subscriptions as brokers are told them: what a group wants of a topic. Pure.

Source: Apache RocketMQ 4.9 and 5.4, ``FilterAPI``, ``SubscriptionData``.
"""

from __future__ import annotations

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.records.ids import java_hash

__all__ = ["subscription", "tags_of"]


def subscription(topic: str, expression: str, kind: str, version_ms: int) -> m.SubscriptionData:
    """What is wanted of one topic, as of a time: a later version wins."""
    tags = tags_of(expression) if kind == "TAG" else ()
    return m.SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=tags,
        code_set=tuple(map(java_hash, tags)),
        sub_version=version_ms,
        expression_type=kind,
    )


def tags_of(expression: str) -> tuple[str, ...]:
    """The tags of ``TagA || TagB``; none for ``*``, which is all.

    >>> tags_of("TagA || TagB")
    ('TagA', 'TagB')
    """
    if expression.strip() in ("", "*"):
        return ()
    return tuple(dict.fromkeys(tag.strip() for tag in expression.split("||") if tag.strip()))
