"""What concerns a member that another Snode has goes on to that Snode, and from there no further."""

from __future__ import annotations

from typing import Final

from penstock.model import Endpoint
from penstock.protocols.rocketmq.command import RemotingCommand, framed
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.front.call import Reply
from penstock.protocols.rocketmq.front.relayed.around import Around
from penstock.seams.framing import Buffer

__all__ = ["came_from_a_snode", "elsewhere", "everywhere_else", "hand_over"]

_FROM: Final = "penstockSnode"
"""A field that says that a Snode asks, which has asked all that are concerned."""
_PATIENCE_S: Final = 10.0


def came_from_a_snode(asked: RemotingCommand) -> bool:
    """Whether it is not to go on to other Snodes."""
    return _FROM in asked.fields


async def elsewhere(around: Around, asked: RemotingCommand, group: str, member: str, body: Buffer) -> Reply | None:
    """The answer of a member that is connected to another Snode; None where it is at none that can be asked.

    Raises UpstreamLost."""
    if came_from_a_snode(asked) or around.clients.line_of(group, member) is not None:
        return None
    home = around.peers.home_of(group, member)
    if home is None:
        return None
    said = await hand_over(around, home, asked._replace(body=body))
    return Reply(None, said.body, said.code, said.remark, said.fields)


async def everywhere_else(around: Around, asked: RemotingCommand, group: str) -> list[RemotingCommand]:
    """The answers of the other Snodes that have members of a group. Raises UpstreamLost where one does not answer."""
    if came_from_a_snode(asked):
        return []
    homes = around.peers.homes_of(group)
    answers = await around.relay.gather([hand_over(around, home, asked) for home in homes])
    for each in answers:
        if isinstance(each, BaseException):
            raise each
    return answers


async def hand_over(around: Around, home: Endpoint, asked: RemotingCommand) -> RemotingCommand:
    """The answer of the Snode there, which asks no further one. Raises UpstreamLost where it does not answer."""
    marked = asked._replace(fields={**asked.fields, _FROM: around.peers.union.own.id})
    return command_of(await around.relay.ask_snode(home, framed(marked), held_s=_PATIENCE_S))
