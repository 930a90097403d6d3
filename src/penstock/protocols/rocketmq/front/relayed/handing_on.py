"""A request goes on to a broker, and its answer comes back: both with a new number, and their bodies untouched.

What is written at once costs no task (`begin`), everything else is waited for (`finish`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.errors import PenstockError, UpstreamLost
from penstock.protocols.rocketmq.command import RemotingCommand, framed
from penstock.protocols.rocketmq.enode.brokers import Broker
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.front.call import Line
from penstock.protocols.rocketmq.front.faults import Refused, refusal
from penstock.protocols.rocketmq.front.relayed.around import Around
from penstock.protocols.rocketmq.rpc import refusal as refused
from penstock.seams.framing import Buffers, Frame
from penstock.seams.later import Later

__all__ = ["Plan", "begin", "finish", "with_number"]

_log = logging.getLogger("penstock.node")
_HELD_BYTES: Final = 4_000
"""Of one request that is kept at a broker, about."""

Seen = Callable[[RemotingCommand | None], None]
"""Is shown the answer on its way back; None where there is none."""


class Plan(NamedTuple):
    """What goes to which broker, over which connection; ``held_s``: for how long it may keep the answer on purpose.

    ``api`` is what was asked for, where another request is made of it. ``writes``: what is not answered in time may
    be stored yet, so that nobody may be invited to send it again.
    """

    command: RemotingCommand
    broker: Broker
    lane: str
    held_s: float = 0.0
    seen: Seen | None = None
    api: int = -1
    writes: bool = False


def begin(around: Around, line: Line, plan: Plan) -> Later[Buffers] | None:
    """Write it now, if that is possible; its answer comes later. Raises Refused where too much is under way."""
    _check(around)
    later: Later[Buffers] = Later(around.services.runtime.promise)
    # Only what the answer needs: a request that waits for it holds no body.
    opaque, compact, fields = plan.command.opaque, plan.command.compact, plan.command.fields
    seen, traffic, held, began = plan.seen, around.traffic, plan.held_s > 0, around.meter.now()
    api = plan.command.code if plan.api < 0 else plan.api

    _hold(around, line, plan, later)

    def told(came: Frame | PenstockError) -> None:
        around.held.drop(later)
        traffic.under_way -= 1
        traffic.held -= held
        answer = _answer(opaque, came, seen, compact=compact)
        around.count(api, began, answer, line, fields)
        later.give(answer)

    if not around.relay.begin(
        plan.broker, framed(plan.command), told, lane=plan.lane, held_s=plan.held_s, writes=plan.writes
    ):
        around.held.drop(later)
        return None
    traffic.under_way += 1
    traffic.held += held
    return later


async def finish(around: Around, line: Line, plan: Plan) -> Buffers | Later[Buffers] | None:
    """Write it when its turn has come: its answer, which may come later, or None where it has none. Raises Refused."""
    _check(around)
    command, relay = plan.command, around.relay
    around.traffic.under_way += 1
    try:
        if not command.is_one_way:
            await relay.open(plan.broker, plan.lane)
            later = begin(around, line, plan)
            if later is not None:
                return later
            _hold(around, line, plan, plan)
            try:
                came = await relay.ask(
                    plan.broker, framed(command), lane=plan.lane, held_s=plan.held_s, writes=plan.writes
                )
            finally:
                around.held.drop(plan)
            return _answer(command.opaque, came, plan.seen, compact=command.compact)
        await relay.tell(plan.broker, framed(command), lane=plan.lane)
    except UpstreamLost as error:
        if not command.is_one_way:
            return _answer(command.opaque, error, plan.seen, compact=command.compact)
        _log.info("a request %d that nobody waits for is lost: %s", command.code, error)
    finally:
        around.traffic.under_way -= 1
    return None


def with_number(command: RemotingCommand, opaque: int) -> Buffers:
    """An answer as it came, for whoever asked under that number. Raises UsageError."""
    return framed(command)(opaque)


def _answer(opaque: int, came: Frame | PenstockError, seen: Seen | None, *, compact: bool) -> Buffers:
    if isinstance(came, PenstockError):
        if seen is not None:
            seen(None)
        said = refusal(came)
        return refused(RemotingCommand(0, opaque, compact=compact), said.code, said.message)
    command = command_of(came)
    try:
        if seen is not None:
            seen(command)
        return with_number(command, opaque)
    except PenstockError as error:
        to = RemotingCommand(0, opaque, compact=compact)
        return refused(to, Code.SYSTEM_ERROR, f"a broker's answer cannot be handed on: {error.message}")


def _hold(around: Around, line: Line, plan: Plan, key: object) -> None:
    """Count what a broker keeps on purpose; whoever calls drops ``key``. Raises Refused where it is too much."""
    if plan.held_s > 0 and (full := around.held.put(key, line, _HELD_BYTES)) is not None:
        raise Refused(Code.SYSTEM_BUSY, full)


def _check(around: Around) -> None:
    traffic = around.traffic
    if traffic.under_way >= traffic.most:
        raise Refused(
            Code.SYSTEM_BUSY, f"{traffic.under_way} requests are under way to brokers, more are not taken: try again"
        )
