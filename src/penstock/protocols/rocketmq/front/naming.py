"""What RocketMQ calls a topic and what the log does. Pure text.

The log's names have no ``%``, with which RocketMQ begins those of a group's own topics and parts namespaces from names:
``%RETRY%g`` is kept as ``rocketmq.RETRY.g``, ``n%t`` as ``rocketmq-ns.n.t``. RocketMQ's names have no dots, so that the
way back is plain.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused

__all__ = ["is_hidden", "log_name", "rocket_name"]

_GROUPS: Final = "rocketmq."
_NAMESPACES: Final = "rocketmq-ns."
_OWN: Final = "__"


def log_name(topic: str) -> str:
    """What the log calls a topic. Raises Refused for a name that no topic can have.

    >>> log_name("%RETRY%readers"), log_name("flights")
    ('rocketmq.RETRY.readers', 'flights')
    """
    if "%" not in topic:
        return topic
    if "." in topic or "|" in topic:
        raise Refused(Code.SYSTEM_ERROR, f"The specified topic contains illegal characters: {topic[:200]!r}")
    named = topic.replace("%", ".")
    return _GROUPS + named[1:] if topic[0] == "%" else _NAMESPACES + named


def rocket_name(name: str) -> str:
    """What RocketMQ's clients call a topic of the log.

    >>> rocket_name("rocketmq.RETRY.readers"), rocket_name("my.flights")
    ('%RETRY%readers', 'my.flights')
    """
    if name.startswith(_GROUPS):
        return "%" + name.removeprefix(_GROUPS).replace(".", "%")
    if name.startswith(_NAMESPACES):
        return name.removeprefix(_NAMESPACES).replace(".", "%")
    return name


def is_hidden(name: str) -> bool:
    """Whether it is a topic of the node itself, which clients are not told of."""
    return name.startswith(_OWN)
