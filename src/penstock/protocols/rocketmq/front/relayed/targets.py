"""Which broker a request means: as it says, or, of a client too old to say, the one whose port it came to, or the only
one that has the topic.

A name that nobody knows is looked up once; an address counts if it is that of a known broker. Source: Apache RocketMQ
4.9.8 and 5.4 (``n``, ``bname``), the Snode of 2018 (``enodeName``, ``enodeAddr``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from penstock.errors import PenstockError, UsageError
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.command import RemotingCommand, field_of
from penstock.protocols.rocketmq.enode.brokers import MASTER, Broker
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.apis.routes import route_of
from penstock.protocols.rocketmq.front.relayed.around import Around, RelayedLine

__all__ = ["broker_for", "lane_of", "looked_up", "meant_by", "named_or_next", "next_broker"]

_NAMES: Final = ("bname", "enodeName", "enodeAddr", "brokerName")
_SENT_IN_LETTERS: Final = frozenset({310, 320})
_LOCKS: Final = frozenset({41, 42})
_LANES: Final = 2
_AGAIN_S: Final = 1.0


def meant_by(around: Around, line: RelayedLine, asked: RemotingCommand) -> str | None:
    """The broker that a request names, in one way or another, or by where it came. Raises ProtocolViolation.

    An address of this node names the broker whose port it is; the main one names none.
    """
    return _said_by(around, asked) or line.broker


def _said_by(around: Around, asked: RemotingCommand) -> str | None:
    if asked.code in _SENT_IN_LETTERS and (name := field_of(asked, "n")) and (name := _named(around, name)):
        return name
    for field in _NAMES:
        if (name := asked.fields.get(field)) and (name := _named(around, name)):
            return name
    if asked.code in _LOCKS:
        queues = m.read_body(m.LockQueues, asked.body).mq_set
        return queues[0].broker_name if queues else None
    return None


def _named(around: Around, said: str) -> str | None:
    if ":" not in said:
        return said
    here, broker = around.is_here(said)
    return broker if here else said


def broker_for(around: Around, said: str, *, number: int = MASTER, standby: bool) -> Broker | None:
    """The server that serves this; None where it has to be looked up. Raises Refused where it has no master now."""
    name = around.relay.brokers.known(said)
    return None if name is None else _of(around, name, number, standby=standby)


async def looked_up(around: Around, asked: RemotingCommand, said: str | None, *, standby: bool) -> Broker:
    """The same, for a name that is new, or a request that says none. Raises Refused, UpstreamLost."""
    if said is None:
        return _of(around, await _only_home(around, asked), MASTER, standby=standby)
    if not around.relay.looked_within(_AGAIN_S):
        await around.relay.look()
    name = around.relay.brokers.known(said)
    if name is None:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, f"no name server knows a broker {said[:100]!r}")
    return _of(around, name, MASTER, standby=standby)


def next_broker(around: Around, line: RelayedLine, asked: RemotingCommand) -> Broker:
    """Who asks the same again, without a name, asks the next broker: tools ask every address of a cluster once, and all
    of them are this node's. Raises Refused."""
    names = around.relay.brokers.names
    if not names:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, "no name server knows a broker")
    what: Hashable = (asked.code, tuple(sorted(asked.fields.items())))
    turn = line.turns.get(what) or 0
    line.turns.put(what, turn + 1)
    return _of(around, names[turn % len(names)], MASTER, standby=True)


def named_or_next(around: Around, line: RelayedLine, asked: RemotingCommand) -> Broker:
    """The broker that a tool names, else the next one. Raises Refused."""
    said = meant_by(around, line, asked)
    name = None if said is None else around.relay.brokers.known(said)
    return next_broker(around, line, asked) if name is None else _of(around, name, MASTER, standby=False)


def lane_of(line: RelayedLine, what: str) -> str:
    """The connection to a broker that a client's requests of a kind share with those of others."""
    return f"{what}-{line.number % _LANES}"


async def _only_home(around: Around, asked: RemotingCommand) -> str:
    topic = asked.fields.get("b") or asked.fields.get("topic") or asked.fields.get("originTopic")
    names = around.relay.brokers.names
    if len(names) != 1 and topic is not None:
        try:
            names = [each.broker_name for each in (await route_of(around, topic)).broker_datas]
        except PenstockError as error:
            raise Refused(Code.TOPIC_NOT_EXIST, f"no route of topic {topic[:127]!r}: {error.message}") from error
    if len(names) != 1:
        raise Refused(
            Code.VERSION_NOT_SUPPORTED,
            f"the request names no broker (bname), and {len(names)} come into question: clients do so from 4.9.5 and "
            "5.0.1 on; others have to come to a broker's own port (rocketmq_broker_ports)",
        )
    return names[0]


def _of(around: Around, name: str, number: int, *, standby: bool) -> Broker:
    try:
        return around.relay.brokers.of(name, number, standby=standby)
    except UsageError as error:
        raise Refused(Code.SERVICE_NOT_AVAILABLE, error.message) from error
