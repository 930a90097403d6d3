"""TubeMQ's rules for names, and the texts that name filters and start offsets.

Separators are split naively by every client and server, so a name must not contain one.
Source: Apache InLong TubeMQ 2.x, client and master parameter checks (``TStringUtils``, ``TBaseConstants``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.errors import ConfigError

__all__ = ["check_consumer_id", "check_group", "check_topic", "parse_filters", "parse_start_offsets"]

_TOPIC: Final = re.compile(r"[a-zA-Z]\w+", re.ASCII)
_GROUP: Final = re.compile(r"[a-zA-Z][\w-]+", re.ASCII)
_CONSUMER_ID: Final = re.compile(r"[\w.-]+", re.ASCII)
_SEPARATORS: Final = frozenset("#:,@=;&")
_MOST_ITEMS: Final = 500


def check_topic(name: str) -> str:
    """The name. Raises ConfigError for one that no TubeMQ topic can have."""
    if len(name) > 64 or not _TOPIC.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no topic's name", hint="A letter, then at least one letter, digit or '_'; at most 64 in all"
        )
    return name


def check_group(name: str, what: str = "group") -> str:
    """The name. Raises ConfigError for one that no TubeMQ group can have."""
    if len(name) > 1_024 or not _GROUP.fullmatch(name):
        raise ConfigError(
            f"{what} is {name!r}, which is no group's name",
            hint="A letter, then at least one letter, digit, '_' or '-'; at most 1,024 in all",
        )
    return name


def check_consumer_id(name: str) -> str:
    """The id. Raises ConfigError for one that servers would take apart."""
    if len(name) > 1_024 or not _CONSUMER_ID.fullmatch(name):
        raise ConfigError(
            f"consumer_id is {name!r}, which is no consumer's id",
            hint="Letters, digits, '_', '-' and '.'; at most 1,024 in all",
        )
    return name


def parse_filters(text: str) -> Mapping[str, tuple[str, ...]]:
    """``topic@item,item;topic2@item`` by topic; items without a topic stand under "": for every topic.

    >>> parse_filters("clicks@red,blue;views@red")
    {'clicks': ('red', 'blue'), 'views': ('red',)}
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in text.split(";") if text.strip() else ():
        topic, at, items = part.rpartition("@")
        topic = check_topic(topic.strip()) if at else ""
        if topic in found:
            raise ConfigError(f"filters name {topic or 'no topic'!r} twice", hint="Separate items by commas")
        found[topic] = tuple(_item(item.strip(), text) for item in items.split(","))
        if len(found[topic]) > _MOST_ITEMS:
            raise ConfigError(f"filters have {len(found[topic])} items for {topic!r}, allowed are {_MOST_ITEMS}")
    return found


def parse_start_offsets(text: str) -> Mapping[tuple[str, str, int], int]:
    """``broker:topic:partition=offset,…`` by (broker, topic, partition).

    >>> parse_start_offsets("1:clicks:0=280")
    {('1', 'clicks', 0): 280}
    """
    found: dict[tuple[str, str, int], int] = {}
    for part in text.split(",") if text.strip() else ():
        match = re.fullmatch(r"\s*(\d{1,10}):([^:=]+):(\d{1,10})=(\d{1,18})\s*", part, re.ASCII)
        if match is None:
            raise ConfigError(
                f"start_offsets has {part!r}", hint="Write broker:topic:partition=offset, offset 0 or more"
            )
        key = (match[1], check_topic(match[2]), int(match[3]))
        if key in found:
            raise ConfigError(f"start_offsets name {match[1]}:{match[2]}:{match[3]} twice")
        found[key] = int(match[4])
    return found


def _item(item: str, text: str) -> str:
    if not item or len(item) > 256 or _SEPARATORS & set(item) or any(letter.isspace() for letter in item):
        raise ConfigError(
            f"filters {text!r} have the item {item!r}",
            hint="Write topic@item,item;topic2@item; items have 1 to 256 characters, no blank, none of # : , @ = ; &",
        )
    return item
