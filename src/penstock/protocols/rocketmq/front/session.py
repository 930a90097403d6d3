"""One RocketMQ client's connection: header, table, handler, answer. Requests are served side by side.

A request that cannot be read, or that nobody serves, gets an answer that says so; the connection goes on. It ends only
where the number that an answer must have cannot be read either.
Source: Apache RocketMQ 4.9 and 5.x, ``NettyRemotingAbstract``.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.protocols.rocketmq.command import RemotingCommand, code_of
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.framing import RocketFraming, command_of
from penstock.protocols.rocketmq.front.apis.single import SINGLE
from penstock.protocols.rocketmq.front.apis.single import send as single
from penstock.protocols.rocketmq.front.call import Call, Line, Reply, Shared
from penstock.protocols.rocketmq.front.faults import refusal, unreadable
from penstock.protocols.rocketmq.front.table import REFUSED, TABLE, meant
from penstock.protocols.rocketmq.front.telling import tell
from penstock.protocols.rocketmq.rpc import answer, read_request
from penstock.protocols.rocketmq.rpc import refusal as refused
from penstock.seams.framing import Buffers, Frame
from penstock.seams.front import Peer
from penstock.seams.meters import OTHER

__all__ = ["RocketSession"]


class RocketSession:
    """``penstock.seams.front.Session``."""

    def __init__(self, shared: Shared, peer: Peer, ended: Callable[[RocketSession], None]) -> None:
        self._shared = shared
        self._ended = ended
        self.line = Line(peer.address, peer.push, peer.hang_up)

    @property
    def ordered(self) -> bool:
        return False

    @property
    def at_once(self) -> bool:
        return self._shared.enode.near

    def framing(self) -> RocketFraming:
        return RocketFraming(answers=False)

    async def handle(self, frame: Frame) -> Buffers | None:
        """Serve one request."""
        command, no = command_of(frame), unreadable(frame)
        if command.is_answer:
            heard = self.line.asked.get(command.opaque)
            if heard is not None:  # to most of what is pushed nobody waits for an answer
                heard(command if no is None else None)
            return None
        meter = self._shared.meter
        began = meter.now()
        found = await self._answer(command) if no is None else refused(command, no.code, no.message)
        api = command.code if command.code in TABLE else OTHER
        meter.answered(api, meter.now() - began)
        if code := code_of(found):
            meter.refused(api, code)
            tell(meter, self._shared.clients, self.line, api, command.fields, code, found)
        return None if command.is_one_way else found

    def lost(self) -> None:
        """Its places in groups are gone, and so is what waits for its sake."""
        self.line.release()
        self._shared.clients.lost(self.line)
        self._shared.snodes.lost(self.line)
        self._ended(self)

    async def _answer(self, asked: RemotingCommand) -> Buffers:
        found = meant(asked)
        if found is None:
            why = f": {REFUSED[asked.code]}" if asked.code in REFUSED else ""
            return refused(asked, Code.REQUEST_CODE_NOT_SUPPORTED, f" request type {asked.code} not supported{why}")
        shared = self._shared
        try:
            if shared.admission is not None:
                shared.admission.check(asked, shared.now)
            if asked.code == SINGLE and (packed := await single(self._shared, asked, self.line.born_host)) is not None:
                return (packed,)
            method, serve = found
            header = read_request(method, asked)
            said = await serve(Call(self._shared, self.line, asked), header)
        except PenstockError as error:
            no = refusal(error)
            return refused(asked, no.code, no.message)
        if isinstance(said, bytes):
            return (said,)
        return _framed(asked, said)


def _framed(asked: RemotingCommand, said: Reply) -> Buffers:
    return answer(asked, said.header, said.body, code=said.code, remark=said.remark, extra=said.extra or None)
