"""How RocketMQ says no, for fault injection in tests; nothing else runs it.

APIs are requests by their names in `methods` ("SEND_MESSAGE_V2"), errors are codes by theirs. RocketMQ's refusals carry
nothing but code and text, so a spoilt answer is the same as a refusal; what is sent one-way gets none.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq import rpc
from penstock.protocols.rocketmq.error_codes import Code, rows
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.front.table import TABLE
from penstock.protocols.rocketmq.methods import METHODS
from penstock.seams.faults import Handle, check_name
from penstock.seams.framing import Buffers, Frame, Pieces

__all__ = ["RocketWording"]

_APIS: Final = {METHODS[code].name for code in TABLE}
_CODES: Final = {row.name: row.code for row in rows() if row.code != Code.SUCCESS}
_TEXT: Final = "an injected fault"


class RocketWording:
    """``penstock.seams.faults.Wording``."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name that RocketMQ does not have, or that no node serves."""
        if api:
            check_name("RocketMQ", "request", api, _APIS)
        if error:
            check_name("RocketMQ", "error", error, _CODES)

    def api_of(self, frame: Frame) -> str:
        """The request's name, "" for one that nobody serves."""
        code = command_of(frame).code
        return METHODS[code].name if code in TABLE else ""

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """An answer with ``error`` and no effect."""
        del handle
        return _refusal(frame, error)

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """A refusal in place of the true answer."""
        said = _refusal(frame, error)
        return answer if said is None else said


def _refusal(frame: Frame, error: str) -> Buffers | None:
    asked = command_of(frame)
    return None if asked.is_one_way else rpc.refusal(asked, _CODES[error], _TEXT)
