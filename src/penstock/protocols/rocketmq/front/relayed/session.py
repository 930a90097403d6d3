"""One client's connection to a front over real brokers: table, broker, answer. Requests are served side by side.

A request that goes on and can be written at once costs no task. Everything that has to wait does so in one, and ends in
an answer: a refusal, where a broker does not answer in time.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.protocols.rocketmq.command import RemotingCommand, framed
from penstock.protocols.rocketmq.enode.brokers import MASTER, Broker
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.framing import RocketFraming, command_of
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.faults import Refused, refusal, unreadable
from penstock.protocols.rocketmq.front.meanings import is_of_5x, is_snode_pull
from penstock.protocols.rocketmq.front.relayed import pulling
from penstock.protocols.rocketmq.front.relayed.apis.asked import RelayedCall
from penstock.protocols.rocketmq.front.relayed.apis.transactions import broker_of_end
from penstock.protocols.rocketmq.front.relayed.around import Around, RelayedLine
from penstock.protocols.rocketmq.front.relayed.everywhere import all_masters, all_names
from penstock.protocols.rocketmq.front.relayed.handing_on import Plan, begin, finish, with_number
from penstock.protocols.rocketmq.front.relayed.table import WAYS, Way
from penstock.protocols.rocketmq.front.relayed.targets import broker_for, lane_of, looked_up, meant_by, next_broker
from penstock.protocols.rocketmq.methods import METHODS
from penstock.protocols.rocketmq.rpc import answer, read_request
from penstock.protocols.rocketmq.rpc import refusal as refused
from penstock.seams.framing import Buffers, Frame
from penstock.seams.front import Peer
from penstock.seams.later import Later
from penstock.seams.meters import OTHER

__all__ = ["RelayedSession"]

_GO_ON: Final = frozenset({Way.WRITE, Way.READ, Way.PULL, Way.POP, Way.TURN, Way.END})
_AT_ONCE: Final = _GO_ON - {Way.TURN}
"""A turn is taken once."""
_STANDBY_DOES: Final = frozenset({Way.READ, Way.TURN})
_WRITES: Final = frozenset({Way.WRITE, Way.END})
_TWO_MEANINGS: Final = 351
_NOT_YET: Final = frozenset({Code.SUBSCRIPTION_NOT_EXIST, Code.SUBSCRIPTION_NOT_LATEST})
_HEARTBEAT_S: Final = 1.0
"""A pull may come before the heartbeat that says what it is for."""
_LOOK_S: Final = 0.05


class RelayedSession:
    """``penstock.seams.front.Session``."""

    def __init__(
        self,
        around: Around,
        number: int,
        peer: Peer,
        ended: Callable[[RelayedSession], None],
        broker: str | None = None,
    ) -> None:
        self._around = around
        self._ended = ended
        self.line = RelayedLine(number, peer.address, peer.push, peer.hang_up, broker)

    @property
    def ordered(self) -> bool:
        return False

    @property
    def at_once(self) -> bool:
        return True

    def framing(self) -> RocketFraming:
        return RocketFraming(answers=False)

    async def handle(self, frame: Frame) -> Buffers | Later[Any] | None:
        """Serve one request."""
        asked, no = command_of(frame), unreadable(frame)
        if asked.is_answer:
            heard = self.line.asked.get(asked.opaque)
            if heard is not None:  # to most of what is pushed nobody waits for an answer
                heard(asked if no is None else None)
            return None
        around, api = self._around, asked.code if asked.code in WAYS else OTHER
        began = around.meter.now()
        try:
            if no is not None:
                raise no
            if self._around.admission is not None:
                self._around.admission.check(asked, self._around.now)
            later = self._at_once(asked)
            if later is not None:
                return later
            await around.task()
            found = await self._in_time(asked)
        except PenstockError as error:
            said = refusal(error)
            found = refused(asked, said.code, said.message)
        if found is None:
            around.meter.answered(api, around.meter.now() - began)
        elif not isinstance(found, Later):
            around.count(api, began, found, self.line, asked.fields)
        return None if asked.is_one_way else found

    def lost(self) -> None:
        """Its places in groups are gone, and so is what waits for its sake."""
        self.line.release()
        self._around.clients.lost(self.line)
        self._around.snodes.lost(self.line)
        self._ended(self)

    # What goes on as it came.

    def _at_once(self, asked: RemotingCommand) -> Later[Buffers] | None:
        """Written already; None for what has to wait for something first. Raises Refused."""
        if (
            asked.is_one_way
            or (asked.code == _TWO_MEANINGS and not is_snode_pull(asked))
            or WAYS.get(asked.code) not in _AT_ONCE
            or not self._around.made_groups.serves(asked)
        ):
            return None
        try:
            plan = self._planned(asked)
        except Refused as no:
            if no.code in _NOT_YET:
                return None
            raise
        return None if plan is None else begin(self._around, self.line, plan)

    def _planned(self, asked: RemotingCommand) -> Plan | None:
        """Where it goes; None where that has to be looked up. Raises Refused, ProtocolViolation."""
        way, around, line = WAYS[asked.code], self._around, self.line
        said = meant_by(around, line, asked)
        if way is Way.END and (asker := broker_of_end(around, asked)) is not None:
            said = asker
        if way is Way.PULL:
            if pulling.is_pull(asked):
                return None if said is None else pulling.planned(around, line, asked, said)
            way = Way.TURN  # 351 as 5.x means it
        if way is Way.POP:
            return None if said is None else pulling.popped(around, line, asked, said)
        if said is None and way is Way.TURN:
            return Plan(asked, next_broker(around, line, asked), lane_of(line, "ask"))
        broker = None if said is None else broker_for(around, said, number=MASTER, standby=way in _STANDBY_DOES)
        return None if broker is None else _plan(line, way, asked, broker)

    async def _gone_on(self, asked: RemotingCommand) -> Buffers | Later[Buffers] | None:
        """The same with time. Raises Refused, UpstreamLost."""
        around, line = self._around, self.line
        way = WAYS[asked.code]
        await around.made_groups.check(asked)
        plan = self._planned(asked)
        if plan is None:
            broker = await looked_up(around, asked, meant_by(around, line, asked), standby=way not in _WRITES)
            if way is Way.PULL and pulling.is_pull(asked):
                plan = pulling.planned(around, line, asked, broker.name)
            elif way is Way.POP:
                plan = pulling.popped(around, line, asked, broker.name)
            plan = plan or _plan(line, way, asked, broker)
        return await finish(around, line, plan)

    # Everything else.

    async def _in_time(self, asked: RemotingCommand) -> Buffers | Later[Buffers] | None:
        """Raises Refused; waits a moment for a heartbeat that says what a pull is for."""
        until = self._around.now + _HEARTBEAT_S
        while True:
            try:
                return await self._served(asked)
            except Refused as no:
                if no.code not in _NOT_YET or self._around.now >= until or self.line.over:
                    raise
            await self._around.services.runtime.sleep(_LOOK_S)

    async def _served(self, asked: RemotingCommand) -> Buffers | Later[Buffers] | None:
        way = WAYS.get(asked.code)
        if way is None or is_of_5x(asked):
            raise Refused(Code.REQUEST_CODE_NOT_SUPPORTED, f" request type {asked.code} not supported")
        if way in _GO_ON or (way is Way.EVERYWHERE and meant_by(self._around, self.line, asked) is not None):
            return await self._gone_on(asked)
        if way is Way.EVERYWHERE:
            return await all_masters(self._around, asked)
        if way is Way.NAMES:
            return with_number(command_of(await self._around.relay.ask_names(framed(asked))), asked.opaque)
        if way is Way.ALL_NAMES:
            return await all_names(self._around, asked)
        header = read_request(METHODS[asked.code], asked)
        said: Reply = await _handler(way)(RelayedCall(self._around, self.line, asked), header)
        return answer(asked, said.header, said.body, code=said.code, remark=said.remark, extra=said.extra or None)


def _plan(line: RelayedLine, way: Way, asked: RemotingCommand, broker: Broker) -> Plan:
    writes = way in _WRITES
    return Plan(asked, broker, lane_of(line, "send" if writes else "ask"), writes=writes)


@cache
def _handler(way: Way) -> Any:
    module, function = way.value.split(".")
    return getattr(importlib.import_module(f"penstock.protocols.rocketmq.front.relayed.apis.{module}"), function)
