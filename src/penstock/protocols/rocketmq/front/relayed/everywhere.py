"""Requests that concern all brokers, or all name servers: each is asked as it came, and one answer is made of theirs.

It is the first that refuses, else the first. Where one did not answer, the whole is not done: whoever asked asks again,
and what was done already is the same once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.protocols.rocketmq.command import RemotingCommand, framed
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.around import Around
from penstock.protocols.rocketmq.front.relayed.handing_on import with_number
from penstock.seams.framing import Buffers, Frame

__all__ = ["PATIENCE_S", "all_masters", "all_names"]

PATIENCE_S: Final = 8.0
"""Tools wait longer than clients, and what they ask for takes brokers longer."""


async def all_masters(around: Around, asked: RemotingCommand) -> Buffers:
    """Raises Refused, and what kept a broker from answering."""
    masters = around.relay.brokers.masters()
    if not masters:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a master broker now")
    return _one_of(
        await around.relay.gather([around.relay.ask(each, framed(asked), timeout_s=PATIENCE_S) for each in masters]),
        asked,
    )


async def all_names(around: Around, asked: RemotingCommand) -> Buffers:
    """Raises UpstreamLost where none answers."""
    return _one_of(await around.relay.ask_all_names(framed(asked)), asked)


def _one_of(found: Sequence[Frame | BaseException], asked: RemotingCommand) -> Buffers:
    answers: list[RemotingCommand] = []
    for each in found:
        if isinstance(each, Frame):
            answers.append(command_of(each))
        else:
            raise each
    refusing = [each for each in answers if each.code != Code.SUCCESS]
    return with_number((refusing or answers)[0], asked.opaque)
