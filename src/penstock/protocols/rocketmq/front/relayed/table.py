"""Which requests go on to name servers and brokers, in which way, and which the node answers itself. Said here only.

Why each goes its way stands in ``enode/README.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from penstock.protocols.rocketmq.methods import ASK_PEER

__all__ = ["WAYS", "Way"]


class Way(Enum):
    """Where a request goes. What ``apis`` serve is said as "module.function"."""

    WRITE = "to the master of the broker that it names, as it came; the answer goes back as it came, too"
    READ = "the same, and to a standby where no name server knows a master"
    PULL = "the same, with its group's subscription, and held there"
    POP = "the same, to the master, and held there for as long as it asks"
    TURN = "the same; who names no broker and asks again is answered by the next one"
    EVERYWHERE = "to the master that it names, or to all"
    NAMES = "to a name server, as it came"
    ALL_NAMES = "to every name server, as it came"
    HEARTBEAT = "membership.heartbeat"
    UNREGISTER = "membership.unregister"
    MEMBERS = "membership.members"
    CONNECTIONS = "membership.connections"
    PRODUCERS = "membership.producers"
    READERS = "membership.readers"
    RUNNING = "asking.running"
    CONSUME = "asking.consume"
    END = "transactions.end"
    CHECK = "filters.check"
    REPLY = "replies.reply"
    RESET = "resets.reset"
    ROUTE = "routes.route"
    CLUSTER = "routes.cluster"
    TELL = "peers.tell"
    SNODE = "snodes.register"
    SNODES = "snodes.known"
    SNODES_OF = "snodes.of_cluster"
    RETRY_TOPIC = "snodes.retry_topic"


WAYS: Final[Mapping[int, Way]] = {
    10: Way.WRITE,
    11: Way.PULL,
    12: Way.TURN,
    14: Way.READ,
    15: Way.READ,
    17: Way.EVERYWHERE,
    21: Way.TURN,
    25: Way.EVERYWHERE,
    26: Way.TURN,
    28: Way.TURN,
    29: Way.READ,
    30: Way.READ,
    31: Way.READ,
    32: Way.READ,
    33: Way.READ,
    34: Way.HEARTBEAT,
    35: Way.UNREGISTER,
    36: Way.WRITE,
    37: Way.END,
    38: Way.MEMBERS,
    41: Way.WRITE,
    42: Way.WRITE,
    43: Way.TURN,
    46: Way.CHECK,
    100: Way.ALL_NAMES,
    101: Way.NAMES,
    102: Way.ALL_NAMES,
    105: Way.ROUTE,
    106: Way.CLUSTER,
    200: Way.EVERYWHERE,
    201: Way.TURN,
    202: Way.TURN,
    203: Way.CONNECTIONS,
    204: Way.PRODUCERS,
    205: Way.ALL_NAMES,
    206: Way.NAMES,
    207: Way.EVERYWHERE,
    208: Way.TURN,
    215: Way.EVERYWHERE,
    216: Way.ALL_NAMES,
    219: Way.NAMES,
    222: Way.RESET,
    224: Way.NAMES,
    300: Way.READERS,
    303: Way.TURN,
    304: Way.NAMES,
    305: Way.TURN,
    306: Way.EVERYWHERE,
    307: Way.RUNNING,
    309: Way.CONSUME,
    310: Way.WRITE,
    311: Way.NAMES,
    312: Way.NAMES,
    313: Way.NAMES,
    314: Way.EVERYWHERE,
    315: Way.TURN,
    316: Way.EVERYWHERE,
    317: Way.TURN,
    318: Way.ALL_NAMES,
    319: Way.NAMES,
    320: Way.WRITE,
    321: Way.READ,
    324: Way.REPLY,
    325: Way.REPLY,
    327: Way.ALL_NAMES,
    329: Way.EVERYWHERE,
    350: Way.SNODE,
    351: Way.PULL,  # the first Snode's; without an offset it is 5.x's "get topic config"
    352: Way.TURN,
    353: Way.SNODES,
    354: Way.SNODES_OF,
    355: Way.RETRY_TOPIC,
    361: Way.PULL,
    370: Way.WRITE,
    907: Way.TURN,
    200050: Way.POP,
    200051: Way.WRITE,
    200052: Way.READ,
    200053: Way.WRITE,
    200054: Way.POP,
    200055: Way.READ,
    200151: Way.WRITE,
    ASK_PEER.code: Way.TELL,
}
