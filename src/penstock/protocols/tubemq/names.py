"""What names may look like, and the sizes a message may have. Names are trimmed, as the servers do.

Source: Apache InLong TubeMQ 2.x, ``TBaseConstants`` and ``PBParameterUtils``. What must not live here: the formats that
names are put together in (``strings``).
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import UsageError

__all__ = [
    "HEADER_ALLOWANCE_BYTES",
    "MAX_FILTER_ITEMS",
    "MAX_MESSAGE_BYTES",
    "check_client_id",
    "check_filters",
    "check_group",
    "check_host",
    "check_topic",
    "check_topics",
]

MAX_MESSAGE_BYTES: Final = 1 << 20
"""The clusters' default limit of body and attributes together; a topic's own limit may be up to 20 MiB."""

HEADER_ALLOWANCE_BYTES: Final = 10_240
"""A broker takes a payload that is this much larger than the limit."""

MAX_FILTER_ITEMS: Final = 500

_MAX_CLIENT_ID: Final = 1024
_MAX_GROUP: Final = 1024
_MAX_HOST: Final = 256
_MAX_TOPIC: Final = 64
_MAX_TOPICS: Final = 1024
_MAX_FILTER_ITEM: Final = 256

_TOPIC: Final = re.compile(r"[a-zA-Z]\w+", re.ASCII)
_GROUP: Final = re.compile(r"[a-zA-Z][\w-]+", re.ASCII)
_SEPARATORS: Final = re.compile(r"[#:,@=|;!]")


def check_topic(name: str) -> str:
    """Return a topic's name, trimmed. Raises UsageError."""
    name = _sized("topic", name, _MAX_TOPIC)
    if not _TOPIC.fullmatch(name):
        raise UsageError(f"topic {name!r} is no name", topic=name, hint="A letter, then letters, digits and _")
    return name


def check_topics(names: list[str]) -> list[str]:
    """Return the topics of one client, each once, in order. Raises UsageError."""
    topics = list(dict.fromkeys(map(check_topic, names)))
    if len(topics) > _MAX_TOPICS:
        raise UsageError(f"{len(topics)} topics; a client may have {_MAX_TOPICS}")
    return topics


def check_group(name: str) -> str:
    """Return a group's name, trimmed. Raises UsageError."""
    name = _sized("group", name, _MAX_GROUP)
    if not _GROUP.fullmatch(name):
        raise UsageError(f"group {name!r} is no name", hint="A letter, then letters, digits, _ and -")
    return name


def check_client_id(name: str) -> str:
    """Return a client's id, trimmed: it stands in strings before an @, so it has none of their separators."""
    name = _sized("client id", name, _MAX_CLIENT_ID)
    if found := _SEPARATORS.search(name):
        raise UsageError(f"client id {name!r} contains {found[0]!r}")
    return name


def check_host(name: str) -> str:
    """Return a client's host name, trimmed. Raises UsageError."""
    return _sized("host name", name, _MAX_HOST)


def check_filters(items: list[str]) -> list[str]:
    """Return a topic's filter items, trimmed, sorted, each once. Raises UsageError."""
    found = sorted({_sized("filter item", item, _MAX_FILTER_ITEM) for item in items})
    if len(found) > MAX_FILTER_ITEMS:
        raise UsageError(f"{len(found)} filter items; a topic may have {MAX_FILTER_ITEMS}")
    for item in found:
        if wrong := re.search("[#,=]", item):
            raise UsageError(f"filter item {item!r} contains {wrong[0]!r}")
    return found


def _sized(what: str, name: str, most: int) -> str:
    name = name.strip()
    if not name:
        raise UsageError(f"the {what} is empty")
    if len(name) > most:
        raise UsageError(f"the {what} has {len(name)} characters; {most} are allowed", hint=name[:80])
    return name
