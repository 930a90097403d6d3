"""Numbers that mean two things: to the first Snode's branch, and to 5.x, which gave them out anew. Their fields tell.

351 pulls where it says an offset, else it asks for a topic's settings. 353 to 355 are the Snode's unless they have a
field that only 5.x's requests have (forbid a group a topic, how far a queue was rewritten, export settings).
Source: the Snode of 2018 and 2019, and Apache RocketMQ 5.4, ``RequestCode``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.protocols.rocketmq.command import RemotingCommand

__all__ = ["is_of_5x", "is_snode_pull"]

_SNODE_PULL: Final = 351
_OFFSET: Final = "queueOffset"
_ONLY_IN_5X: Final[Mapping[int, frozenset[str]]] = {
    353: frozenset({"group", "topic", "readable"}),
    354: frozenset({"topic", "checkStoreTime"}),
    355: frozenset({"configType"}),
}


def is_snode_pull(asked: RemotingCommand) -> bool:
    """Whether it reads, as the first Snode's clients do."""
    return asked.code == _SNODE_PULL and _OFFSET in asked.fields


def is_of_5x(asked: RemotingCommand) -> bool:
    """Whether it has the number of a Snode's request and is another one, which nobody serves here."""
    only = _ONLY_IN_5X.get(asked.code)
    return only is not None and not only.isdisjoint(asked.fields)
