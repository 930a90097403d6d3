"""What a node's log keeps of a message beside key, value and time, and what not: names of headers. Loads nothing.

What must not live here: how properties are read and written.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FLAG", "NOT_KEPT", "NUMBERS", "PREPARED", "RECONSUMED", "SYS_FLAG"]

FLAG: Final = "rocketmq.flag"
RECONSUMED: Final = "rocketmq.reconsume_times"
SYS_FLAG: Final = "rocketmq.sys_flag"
PREPARED: Final = "rocketmq.prepared_transaction_offset"

NUMBERS: Final = frozenset({FLAG, RECONSUMED, SYS_FLAG, PREPARED})
"""Headers that stand for what a message has beside properties, where that is not 0."""

NOT_KEPT: Final = frozenset(
    {"CLUSTER", "CONSUME_START_TIME", "KEYS", "MAX_OFFSET", "MIN_OFFSET", "MSG_REGION", "TRACE_ON", "WAIT"}
)
"""What brokers and clients add anew, or mean for one send; and the key, which has a place of its own."""
