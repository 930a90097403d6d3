"""A Snode whose peer answers with any bytes: its own clients are served, nothing grows, nobody is asked too often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import write_body
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import Server, ok
from tests.unit.rocketmq_relayed.several import FIRST, Snodes, run_with

END = b"\xff--\xff"
_MOST = 100_000
_ASKED = 5_264_212
_FOR_S = 8.0


def run(data: bytes) -> str:
    """What the peer answers with, body by body; then with the last one for ever."""
    bodies = data[:_MOST].split(END)
    return run_with(lambda world: _heard(world, bodies))


async def _heard(world: Snodes, bodies: list[bytes]) -> str:
    def says(server: Server, asked: RemotingCommand) -> RemotingCommand | None:
        if asked.code != _ASKED:
            return ok()
        return ok(bodies[min(len(server.of(_ASKED)), len(bodies)) - 1])

    world.serve(says)
    node = await world.snode(FIRST, others="broker-a:10911", finds=False)
    first = await world.member(FIRST, "a")
    await passing(_FOR_S)
    union = world.front_of(node).around.peers.union
    assert len(union.others) <= 256
    assert len(world.brokers["a:0"].of(_ASKED)) < 10 * _FOR_S
    assert "a" in await first.members()
    assert len(asyncio.all_tasks()) < 40
    return f"{len(union.others)} heard of"


def seeds() -> Iterator[bytes]:
    """A peer that comes, changes, and says nonsense; one that tells of others."""
    member = m.PeerMember(client_id="b", language="JAVA", version=1, address="x:1")
    wanted = m.SubscriptionData(topic="t", sub_string="A", tags_set=("A",), code_set=(65,), sub_version=1)
    group = m.PeerGroup(kind="consumer", name="g", version=1, members=(member,), subscriptions=(wanted,))
    words = m.PeerWords(id="p", name="p:1", beat=1, version=1, whole=True, groups=(group,))
    later = m.PeerWords(
        id="p", name="p:1", beat=2, version=2, groups=(m.PeerGroup(kind="consumer", name="g", version=2, left=("b",)),)
    )
    of_another = m.PeerWords(id="q", name="q:1", beat=1, version=1, silent_ms=500, whole=True, groups=(group,))
    tells = [m.TellPeer(id="p", words=each) for each in [(words,), (later, of_another), ()]]
    yield END.join([*map(write_body, tells), b"{}"])
    yield END.join([write_body(tells[1]), write_body(tells[0]), b"[]", b""])
