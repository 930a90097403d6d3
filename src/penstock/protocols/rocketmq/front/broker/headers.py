"""Headers that stand for what a message has beside properties, where that is not 0."""

from __future__ import annotations

from typing import Final

__all__ = ["FLAG", "NUMBERS", "PREPARED", "RECONSUMED", "SYS_FLAG"]

FLAG: Final = "rocketmq.flag"
RECONSUMED: Final = "rocketmq.reconsume_times"
SYS_FLAG: Final = "rocketmq.sys_flag"
PREPARED: Final = "rocketmq.prepared_transaction_offset"

NUMBERS: Final = frozenset({FLAG, RECONSUMED, SYS_FLAG, PREPARED})
