"""A Snode between a client and a broker that both send any bytes: the client is answered or hung up on, others go on.

An input is what one connection sends from its beginning, then `END`, then what the broker answers with, an answer a
piece. Nothing beside these two may fail, and nothing may be under way in the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from penstock.protocols.rocketmq.server.relayed.session import WAYS
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, encode
from penstock.protocols.rocketmq.wire.messages import write_body
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import Server, World, ok, run_world

END = b"\xff--\xff"
_MOST = 100_000
_LATEST_S = 100.0
"""Pulls are held for a minute at most, and somebody who is silent is given up soon after."""
_SEND = {"n": "b", "a": "p", "b": "t", "e": "0"}


def run(data: bytes) -> str:
    """Send and answer ``data``, and see that the next client is served."""
    said, _, answers = data[:_MOST].partition(END)
    return run_world(lambda world: _serve(world, said, deque(answers.split(END))))


async def _serve(world: World, said: bytes, answers: deque[bytes]) -> str:
    def lies(server: Server, asked: RemotingCommand) -> RemotingCommand | None:
        if answers:
            server.by[-1].raw(answers.popleft())
            return None
        return ok()

    world.serve(lies, "a:0", "a:1")
    client = await world.client(hears=False)
    client.end.raw(said)
    await passing(_LATEST_S)
    heard = "hung up on" if client.end.lost else "answered"
    client.end.hang_up()
    await passing(_LATEST_S)
    assert world.front.around.traffic.under_way == 0
    other = await world.client()
    assert (await other.ask(310, b"body", **_SEND)).code == 0
    assert len(asyncio.all_tasks()) < 50
    return heard


def seeds() -> Iterator[bytes]:
    """Requests of each way a request can go, and two answers."""
    answers = [b"".join(encode(RemotingCommand(code, 1, 1, {"suggestWhichBrokerId": "1"}, b"x"))) for code in (0, 19)]
    beat = m.HeartbeatData(
        client_id="c",
        producer_data_set=(m.ProducerData(group_name="p"),),
        consumer_data_set=(
            m.ConsumerData(group_name="g", subscription_data_set=(m.SubscriptionData(topic="t", sub_string="A"),)),
        ),
    )
    fields = {"bname": "a", "n": "a", "b": "t", "topic": "t", "queueId": "0", "consumerGroup": "g", "group": "g"}
    pull = {"queueOffset": "0", "sysFlag": "3", "suspendTimeoutMillis": "1000", "maxMsgNums": "1", "commitOffset": "1"}
    first = b"".join(encode(RemotingCommand(34, 1, body=write_body(beat))))
    for code in WAYS:
        asked = RemotingCommand(code, 2, fields={**fields, **pull, "timestamp": "1", "isForce": "true"})
        yield END.join([first + b"".join(encode(asked)), *answers])
