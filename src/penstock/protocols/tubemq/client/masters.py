"""Masters: the list of masters, the one that answers, and the way from it to the next.

A call goes to the current master. When its connection fails, it does not answer in time, it speaks something else, or
says that it is on standby, starting or stopping, the next one in the ring becomes the current one; no call asks any
master twice. Other errors are the caller's.
Source: Apache InLong TubeMQ 2.x, ``MasterService`` over ``BaseRpcServiceFactory`` (failover of the Java client).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from penstock.errors import ConfigError, ConnectionLost, ProtocolViolation, RequestTimeout
from penstock.model import Endpoint
from penstock.protocols.tubemq.client.calls import Calls
from penstock.protocols.tubemq.error_codes import Code, error_of
from penstock.protocols.tubemq.messages.declare import Message
from penstock.protocols.tubemq.methods import Method
from penstock.protocols.tubemq.rpc import Standby, Stopping, Unready

__all__ = ["Masters"]

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

_MOMENT_S = 1.0
"""How long a master may take to be connected to while there is another one to ask."""


class Masters:
    """All masters of a cluster; exactly one of them is active."""

    def __init__(self, calls: Calls, masters: Sequence[Endpoint]) -> None:
        if not masters:
            raise ConfigError("no master is named", hint="Write tubemq://HOST:PORT")
        self._calls = calls
        self._masters = tuple(dict.fromkeys(masters))
        self._current = 0

    @property
    def current(self) -> Endpoint:
        """Whom the next call goes to."""
        return self._masters[self._current]

    @property
    def all(self) -> Sequence[Endpoint]:
        """As they were named."""
        return self._masters

    async def ask(self, method: Method[Request, Answer], message: Request) -> Answer:
        """The active master's answer, whatever its code. Raises ConnectionLost, RequestTimeout, Standby, Unready
        or Stopping of the last master asked when none would answer; ProtocolViolation, RpcFailure."""
        begun = self._current
        for attempt in range(len(self._masters)):
            at = (begun + attempt) % len(self._masters)
            try:
                within_s = None if attempt == len(self._masters) - 1 else _MOMENT_S
                answer = await self._calls.call(self._masters[at], method, message, within_s=within_s)
            except (ConnectionLost, ProtocolViolation, RequestTimeout, Standby, Unready, Stopping):
                # Others may have moved on meanwhile; only who failed at the current one moves it.
                if self._current == at:
                    self._current = (at + 1) % len(self._masters)
                if attempt == len(self._masters) - 1:
                    raise
            else:
                self._current = at
                return answer
        raise AssertionError("there is at least one master")

    async def call(self, method: Method[Request, Answer], message: Request) -> Answer:
        """As `ask`, but raises ServerError for every code that is not success."""
        answer = await self.ask(method, message)
        code, text = answer.err_code, answer.err_msg  # type: ignore[attr-defined]
        if code != Code.SUCCESS:
            raise error_of(code, text, node=str(self.current))
        return answer
