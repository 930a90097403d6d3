"""NameServers: the list of name servers, the one that answers, and the way from it to the next.

Name servers do not talk to each other; each hears of brokers by itself, so that any will do. A call goes to the current
one. When its connection fails, it does not answer in time or speaks something else, the next one in the ring becomes
the current one; no call asks any of them twice. What an answer's code says is the caller's business.
Source: Apache RocketMQ 4.9 and 5.4, ``NettyRemotingClient`` (choice of a name server).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from penstock.errors import ConfigError, ConnectionLost, ProtocolViolation, RequestTimeout
from penstock.model import Endpoint
from penstock.protocols.rocketmq.client.calls import Calls
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.methods import Method
from penstock.protocols.rocketmq.rpc import Answered

__all__ = ["NameServers"]

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_MOMENT_S = 1.0
"""How long one may take to be connected to while there is another one to ask."""


class NameServers:
    """All name servers of a cluster."""

    def __init__(self, calls: Calls, names: Sequence[Endpoint]) -> None:
        if not names:
            raise ConfigError("no name server is named", hint="Write rocketmq://HOST:PORT")
        self._calls = calls
        self._names = tuple(dict.fromkeys(names))
        self._current = int(calls.channel.random() * len(self._names))

    @property
    def all(self) -> Sequence[Endpoint]:
        """As they were named."""
        return self._names

    async def call(
        self, method: Method[Request, Answer], header: Request, *, accept: Collection[int] = (Code.SUCCESS,)
    ) -> Answered[Answer]:
        """The answer. Raises ConnectionLost, RequestTimeout or ProtocolViolation of the last one asked when none would
        answer; ServerError for a code that is not in ``accept``."""
        begun = self._current
        for attempt in range(len(self._names)):
            at = (begun + attempt) % len(self._names)
            last = attempt == len(self._names) - 1
            within_s = None if last else _MOMENT_S
            try:
                answer = await self._calls.call(self._names[at], method, header, accept=accept, within_s=within_s)
            except (ConnectionLost, ProtocolViolation, RequestTimeout):
                # Others may have moved on meanwhile; only who failed at the current one moves it.
                if self._current == at:
                    self._current = (at + 1) % len(self._names)
                if last:
                    raise
            else:
                self._current = at
                return answer
        raise AssertionError("there is at least one name server")
