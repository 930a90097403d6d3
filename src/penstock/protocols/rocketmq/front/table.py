"""Which requests the front serves, and by whom. Said here only.

Not here: 103, 104 and 322, by which brokers join a name server (this node is both).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any, Final

from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.front.call import Handler
from penstock.protocols.rocketmq.front.meanings import is_of_5x, is_snode_pull
from penstock.protocols.rocketmq.methods import METHODS, SNODE_PULL_MESSAGE, Method

__all__ = ["SNODE_PULL", "TABLE", "handler", "meant"]

TABLE: Final[Mapping[int, str]] = {
    10: "sending.send",
    11: "pulling.pull",
    12: "viewing.query",
    14: "offsets.committed",
    15: "offsets.commit",
    17: "topics.create",
    21: "brokers.topic_configs",
    26: "brokers.config",
    28: "brokers.runtime",
    29: "offsets.search",
    30: "offsets.end",
    31: "offsets.start",
    32: "offsets.earliest_time",
    33: "viewing.view",
    34: "membership.heartbeat",
    35: "membership.unregister",
    36: "retries.send_back",
    37: "transactions.end",
    38: "membership.members",
    41: "membership.lock",
    42: "membership.unlock",
    43: "offsets.all_committed",
    46: "membership.check",
    100: "kv.put",
    101: "kv.get",
    102: "kv.delete",
    105: "routes.route",
    106: "routes.brokers",
    200: "groups.create",
    201: "groups.settings",
    202: "topics.stats",
    203: "groups.connections",
    204: "groups.producers",
    206: "routes.topics",
    207: "groups.delete",
    208: "groups.stats",
    215: "topics.delete",
    216: "topics.forget",
    219: "kv.listed",
    222: "groups.reset",
    224: "routes.topics_of_cluster",
    300: "groups.readers",
    307: "relaying.running",
    309: "relaying.consume",
    310: "sending.send",
    320: "sending.send",
    350: "snodes.register",
    351: "brokers.topic_config",
    352: "groups.setting",
    353: "snodes.known",
    354: "snodes.of_cluster",
    355: "snodes.retry_topic",
    361: "pulling.pull",
}
"""Codes, and "module.function" below `apis`, imported with its first request."""

SNODE_PULL: Final = "pulling.snode_pull"
"""What 351 is where it reads."""


def meant(asked: RemotingCommand) -> tuple[Method[Any, Any], Handler] | None:
    """What a request is and who serves it; None for one that nobody does."""
    if is_snode_pull(asked):
        return SNODE_PULL_MESSAGE, handler(SNODE_PULL)
    if asked.code not in TABLE or is_of_5x(asked):
        return None
    return METHODS[asked.code], handler(TABLE[asked.code])


@functools.cache
def handler(name: str) -> Handler:
    """The handler of a name in the table."""
    module, function = name.split(".")
    found: Handler = getattr(importlib.import_module(f"penstock.protocols.rocketmq.front.apis.{module}"), function)
    return found
