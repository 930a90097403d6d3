"""A node's RocketMQ front: whatever bytes a client sends are answered or are our error, and nothing beside it fails.

An input is what one connection sends from its beginning: frames one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from penstock.interfaces.framing import Frame
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.server.dispatch import TABLE
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import command_of
from penstock.protocols.rocketmq.wire.rpc import SEND_MESSAGE_V2, request
from tests.fuzz.feeding import frames
from tests.unit.rocketmq_front.kit import Client, Kit, serving, unframed
from tests.vectors.rocketmq_frames.recorded import command, files, recorded

_OPTIONS = RocketFrontOptions(max_clients=20, max_hold_ms=1, delay_scale=0.0)
_MOST_FRAMES = 100
_LONGEST_SEED = 6_000


def run(data: bytes) -> str:
    """Send ``data``, look at every answer, and see that the next client is served."""
    return asyncio.run(_serve(data))


async def _serve(data: bytes) -> str:
    async with serving(_OPTIONS) as kit:
        await kit.put(b"a")
        client = kit.client()
        try:
            answers = [await _answer(client, frame) for frame in frames(client.session.framing(), data, _MOST_FRAMES)]
        finally:
            client.session.lost()
            kit.front.expire()
            await kit.front.shared.transactions.check()
            await _still_serves(kit)
    return ", ".join(sorted(set(answers)))


async def _answer(client: Client, frame: Frame) -> str:
    asked = command_of(frame)
    buffers = await client.session.handle(frame)
    if buffers is None:
        assert asked.is_one_way or asked.is_answer
        return "nothing"
    found = command_of(unframed(b"".join(buffers)))
    assert (found.opaque, found.is_answer, found.compact) == (asked.opaque, True, asked.compact)
    return f"{asked.code if asked.code in TABLE else 'unknown'} {found.code}"


async def _still_serves(kit: Kit) -> None:
    if await kit.enode.topic("demo") is not None:
        await kit.client().put(b"next")


def seeds() -> Iterator[bytes]:
    """One small recorded request of each code in each form of a header, a send to a topic that is there, and more."""
    seen = set()
    for name in files():
        for frame in recorded(name):
            said = command(frame)
            form = (said.code, said.compact)
            if frame.by_client and not said.is_answer and form not in seen and len(frame.wire) < _LONGEST_SEED:
                seen.add(form)
                yield frame.wire
    header = m.SendMessage(producer_group="p", topic="demo", queue_id=0, sys_flag=0, born_timestamp=1)
    sends = [b"".join(request(SEND_MESSAGE_V2, header, b"body", compact=bool(row % 2))(row)) for row in range(4)]
    yield b"".join(sends)
