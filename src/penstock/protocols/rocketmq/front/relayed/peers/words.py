"""A group as it is at this Snode, in the words that others are told."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.front.broker.groups import Clients, Member
from penstock.protocols.rocketmq.front.call import Line
from penstock.protocols.rocketmq.front.relayed.peers.told import CONSUMER, Key

__all__ = ["group_here"]


def group_here(clients: Clients, key: Key) -> m.PeerGroup:
    """Without members where it is not here."""
    if key.kind != CONSUMER:
        return m.PeerGroup(
            kind=key.kind, name=key.name, version=0, members=_members(clients.producers.get(key.name, {}))
        )
    group = clients.consumers.get(key.name)
    if group is None:
        return m.PeerGroup(kind=key.kind, name=key.name, version=0)
    return m.PeerGroup(
        kind=key.kind,
        name=key.name,
        version=0,
        members=_members(group.members),
        subscriptions=tuple(group.subscriptions.values()),
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )


def _members(members: Mapping[Line, Member]) -> tuple[m.PeerMember, ...]:
    found = {
        each.who.client_id: m.PeerMember(
            client_id=each.who.client_id,
            language=each.who.language,
            version=each.who.version,
            address=str(line.address),
        )
        for line, each in members.items()
    }
    return tuple(found.values())
