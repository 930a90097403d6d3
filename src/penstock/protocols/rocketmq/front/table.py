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

__all__ = ["REFUSED", "SNODE_PULL", "TABLE", "handler", "meant"]

TABLE: Final[Mapping[int, str]] = {
    10: "sending.send",
    11: "pulling.pull",
    12: "viewing.query",
    14: "offsets.committed",
    15: "offsets.commit",
    17: "topics.create",
    18: "topics.create_all",
    21: "brokers.topic_configs",
    25: "brokers.set_config",
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
    205: "brokers.wipe_write_perm",
    206: "routes.topics",
    207: "groups.delete",
    208: "groups.stats",
    215: "topics.delete",
    216: "topics.forget",
    219: "kv.listed",
    222: "groups.reset",
    224: "routes.topics_of_cluster",
    225: "groups.create_all",
    300: "groups.readers",
    304: "brokers.system_topics_of_names",
    305: "brokers.system_topics",
    307: "relaying.running",
    309: "relaying.consume",
    310: "sending.send",
    315: "groups.counted",
    317: "groups.all_stats",
    319: "brokers.names_config",
    320: "sending.send",
    324: "relaying.reply",
    325: "relaying.reply",
    327: "brokers.add_write_perm",
    328: "groups.all_producers",
    350: "snodes.register",
    351: "brokers.topic_config",
    352: "groups.setting",
    353: "snodes.known",
    354: "snodes.of_cluster",
    355: "snodes.retry_topic",
    361: "pulling.pull",
}
"""Codes, and "module.function" below `apis`, imported with its first request."""

REFUSED: Final[Mapping[int, str]] = {
    45: "delayed messages wait by their level; where each stands is not shown",
    50: "accounts are the node's option rocketmq_accounts",
    51: "accounts are the node's option rocketmq_accounts",
    52: "accounts are the node's option rocketmq_accounts",
    53: "accounts are the node's option rocketmq_accounts",
    217: "topics are made at the broker (17), which is the name server, too",
    223: "ask how far the group is (208), or a member how it is (307)",
    303: "ask how far the group is (208)",
    306: "there are no consume queues: what is deleted takes no room",
    311: "there are no units",
    312: "there are no units",
    313: "there are no units",
    314: "commit the offsets in the other group's name (15)",
    316: "a topic that is deleted takes no room",
    318: "the name server is the node, whose options are given at its start",
    321: "there are no consume queues: read the messages (11)",
    323: "a producer is asked again by itself until it has decided",
    329: "messages are deleted by the topic's retention.ms and retention.bytes",
    343: "ask which groups read a topic (300)",
    345: "ask for the group's connections and subscriptions (203)",
    353: "a group may read all topics, or none (consumeEnable)",
    354: "there are no consume queues",
    355: "there is no RocksDB: settings are in the node's own log",
    370: "delayed messages cannot be called back",
    400: "a group's members share its queues out by themselves (clientRebalance)",
    401: "groups pull: POP is not served",
    **dict.fromkeys(range(901, 909), "there are no standby brokers"),
    **dict.fromkeys(range(1_001, 1_014), "there is no controller, and there are no standby brokers"),
    **dict.fromkeys(range(2_001, 2_007), "reads are not slowed down by their age"),
    **dict.fromkeys(range(3_001, 3_011), "accounts are the node's option rocketmq_accounts"),
    **dict.fromkeys(
        (200_050, 200_051, 200_052, 200_053, 200_054, 200_055, 200_056, 200_151), "POP is not served: pull"
    ),
}
"""Codes that RocketMQ's tools and clients send and that are not served; why, or what to do instead. 353 to 355 are what
5.x means with them."""

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
