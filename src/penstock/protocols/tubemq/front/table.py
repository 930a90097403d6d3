"""Which methods the front serves, by whom, and what a refusal carries beside code and text. Said here only.

Not here: 7, 8 and 9, by which brokers join a master (this node is both), and 11, 12, 14 and 19, which nobody serves.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq.front.call import Handler
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.messages.declare import Message
from penstock.protocols.tubemq.methods import METHODS

__all__ = ["TABLE", "Row", "handler", "refused"]


@dataclass(frozen=True, slots=True)
class Row:
    """``handler`` is "module.function" below `apis`, imported with its first request. ``refused``: an answer's fields.

    V2 answers have no ``success``: ``says_success`` False.
    """

    handler: str
    refused: Mapping[str, Any] = field(default_factory=dict)
    says_success: bool = True


_NOWHERE: Final[Mapping[str, Any]] = {"curr_offset": -1}
_NO_MESSAGES: Final[Mapping[str, Any]] = {
    "curr_offset": -1,
    "min_limit_time": 0,
    "esc_flow_ctrl": False,
    "curr_data_dlt": -1,
}

TABLE: Final[Mapping[int, Row]] = {
    1: Row("producers.register", {"broker_check_sum": -1}),
    2: Row("producers.heartbeat", {"broker_check_sum": -1}),
    3: Row("producers.close"),
    4: Row("consumers.register"),
    5: Row("consumers.heartbeat"),
    6: Row("consumers.close"),
    13: Row("sending.send"),
    15: Row("partitions.register", _NOWHERE),
    16: Row("partitions.heartbeat"),
    17: Row("reading.get", _NO_MESSAGES),
    18: Row("reading.commit", _NOWHERE),
    20: Row("balanced.register", says_success=False),
    21: Row("balanced.heartbeat", says_success=False),
    22: Row("balanced.partition_meta", says_success=False),
}


@functools.cache
def handler(method: int) -> Handler:
    """The handler of a method in the table."""
    module, function = TABLE[method].handler.split(".")
    found: Handler = getattr(importlib.import_module(f"penstock.protocols.tubemq.front.apis.{module}"), function)
    return found


def refused(method: int, error: Refused) -> Message:
    """The answer of a method in the table that says no."""
    row = TABLE[method]
    says = {"success": False} if row.says_success else {}
    made: Message = METHODS[method].answer(**says, err_code=error.code, err_msg=error.message, **row.refused)
    return made
