"""What a node's log keeps of a message beside key, value and time, and what not: names of headers. Loads nothing.

What must not live here: how properties are read and written.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BORN", "BORN_HOST", "CLOSE_MS", "FLAG", "NOT_KEPT", "NUMBERS", "PREPARED", "RECONSUMED", "SYS_FLAG"]

BORN: Final = "rocketmq.born_timestamp"
BORN_HOST: Final = "rocketmq.born_host"
"""The address that the message's producer sent it from, as ``host:port``."""
FLAG: Final = "rocketmq.flag"
RECONSUMED: Final = "rocketmq.reconsume_times"
SYS_FLAG: Final = "rocketmq.sys_flag"
PREPARED: Final = "rocketmq.prepared_transaction_offset"

NUMBERS: Final = frozenset({BORN, FLAG, RECONSUMED, SYS_FLAG, PREPARED})
"""Headers that stand for what a message has beside properties, where that is not 0."""

CLOSE_MS: Final = 60_000
"""How far a message's birth may be from now if it is to be its record's time.

A broker deletes by the time at which it stored a message. Retention here goes by the times of records, so a message
from a wrong clock, or from long ago, gets the time at which it is stored, and its birth is kept as a header.
"""

NOT_KEPT: Final = frozenset(
    {"CLUSTER", "CONSUME_START_TIME", "KEYS", "MAX_OFFSET", "MIN_OFFSET", "MSG_REGION", "TRACE_ON", "WAIT"}
)
"""What brokers and clients add anew, or mean for one send; and the key, which has a place of its own."""
