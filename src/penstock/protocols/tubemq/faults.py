"""How TubeMQ says no, for fault injection in tests; nothing else runs it.

APIs are methods by their names in `methods` ("send message"). Errors are codes by their names, or what a server that
does not take the call throws in an answer's place. TubeMQ's refusals carry nothing but code and text, so a spoilt
answer is the same as a refusal. HTTP requests on the listener have no name, and no error: their connection ends.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import ProtocolViolation
from penstock.interfaces.framing import Buffers, Frame, Pieces
from penstock.interfaces.front import Handle, check_name
from penstock.protocols.tubemq.error_codes import Code, rows
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.table import TABLE, refused
from penstock.protocols.tubemq.methods import METHODS
from penstock.protocols.tubemq.rpc import STANDBY_EXCEPTION, Call, Status, answer, failure, java_name, read_call

__all__ = ["TubeWording"]

_APIS: Final = {METHODS[number].name for number in TABLE}
_CODES: Final = {row.name: row.code for row in rows() if row.code != Code.SUCCESS}
_EXCEPTIONS: Final = "org.apache.inlong.tubemq.corerpc.exception."
_THROWN: Final = {
    "StandbyException": (STANDBY_EXCEPTION, Status.ERROR),
    "ServerNotReadyException": (f"{_EXCEPTIONS}ServerNotReadyException", Status.FATAL),
    "ServiceStoppingException": (f"{_EXCEPTIONS}ServiceStoppingException", Status.ERROR),
}
_HTTP: Final = (b"GET ", b"POST", b"HEAD")
_TEXT: Final = "an injected fault"


class TubeWording:
    """``penstock.interfaces.front.Wording``."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name that TubeMQ does not have, or that no node serves."""
        if api:
            check_name("TubeMQ", "method", api, _APIS)
        if error:
            check_name("TubeMQ", "error", error, {*_CODES, *_THROWN})

    def api_of(self, frame: Frame) -> str:
        """The method's name, "" for a request that cannot be read, that nobody serves, or that is HTTP."""
        call = _served(frame)
        return METHODS[call.method].name if call else ""

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """An answer with ``error`` and no effect."""
        del handle
        return _refusal(frame, error)

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """A refusal in place of the true answer, which stands where there can be none."""
        said = _refusal(frame, error)
        return answer if said is None else said


def _refusal(frame: Frame, error: str) -> Buffers | None:
    call = _served(frame)
    if call is None:
        return None
    if error in _THROWN:
        name, status = _THROWN[error]
        return failure(status, java_name(name, call.version), _TEXT, frame.correlation)
    return answer(call.method, refused(call.method, Refused(_CODES[error], _TEXT)), frame.correlation)


def _served(frame: Frame) -> Call | None:
    if bytes(frame.body[:4]) in _HTTP:
        return None
    try:
        call = read_call(frame.body)
    except ProtocolViolation:
        return None
    return call if call.method in TABLE else None
