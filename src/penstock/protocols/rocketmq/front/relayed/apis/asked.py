"""One request's circumstances where the node has a part in it itself, and what brokers say to the node's own."""

from __future__ import annotations

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.front.call import OfConnected
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.around import Around, RelayedLine
from penstock.seams.framing import Frame

__all__ = ["RelayedCall", "agreed"]


@dataclass(frozen=True, slots=True)
class RelayedCall(OfConnected):
    """``line`` is the connection of whoever asks."""

    shared: Around
    line: RelayedLine


def agreed(frame: Frame) -> RemotingCommand:
    """The answer to a question of the node's own. Raises Refused in the words of whoever refused it."""
    command = command_of(frame)
    if command.code != Code.SUCCESS:
        raise Refused(command.code, command.remark or "")
    return command
