"""A node's TubeMQ front: whatever bytes a client sends are answered or are our error, and nothing beside it fails.

An input is what one connection sends from its beginning: frames one after the other, or a request of HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from penstock.concurrency.runtime import arrived
from penstock.errors import PenstockError
from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.server.context import TubeFrontOptions
from penstock.protocols.tubemq.wire.rpc import METHODS, SEND_MESSAGE, RpcFailure, read_answer, read_call
from tests.fuzz.feeding import frames
from tests.unit.tubemq_front.kit import Client, Kit, sent, serving, unframed
from tests.vectors.tubemq_frames.conversations import exchanges
from tests.vectors.tubemq_frames.recorded import files

_OPTIONS = TubeFrontOptions(max_partitions=20, max_clients=20, max_bookings=20)
_MOST_FRAMES = 200
_LONGEST_SEED = 8_000
_WEB = (
    "admin_get_methods",
    "admin_add_topic_deploy_info&topicName=made&brokerId=1&numPartitions=2&createUser=me",
    "admin_modify_topic_info&topicName=demo&brokerId=1&acceptPublish=false&acceptSubscribe=false&modifyUser=me",
    "admin_remove_topic_info&topicName=demo&brokerId=1&modifyUser=me",
    "admin_query_topic_info",
    "admin_query_offset",
    "admin_query_pubinfo&topicName=demo",
    "admin_set_offset&groupName=g&manualSet=true&modifyUser=me&offsetJsonInfo={%221:demo:0%22:28}",
    "admin_set_def_flow_control_rule&statusId=1&createUser=me&flowCtrlInfo="
    "[{%22type%22:1,%22rule%22:[{%22zeroCnt%22:3,%22freqInMs%22:300}]}]",
    "admin_snapshot_message&topicName=demo&partitionId=0",
)


def run(data: bytes) -> str:
    """Send ``data``, look at every answer, and see that the next client is served."""
    return asyncio.run(_serve(data))


async def _serve(data: bytes) -> str:
    async with serving(_OPTIONS) as kit:
        await kit.put(b"a", b"b")
        client = kit.client()
        try:
            answers = [await _answer(client, frame) for frame in frames(client.session.framing(), data, _MOST_FRAMES)]
        finally:
            client.session.lost()
            await kit.front.balance()
            await _still_serves(kit)
    return ", ".join(sorted(set(answers)))


async def _answer(client: Client, frame: Frame) -> str:
    client.session.framing().alone = bool(frame.correlation & 1)  # some are served as those that come by themselves
    buffers = await arrived(await client.session.handle(frame))
    if buffers is None:
        assert client.hung_up
        return "http " + client.pushed.split(b" ")[1].decode()
    found = unframed(b"".join(buffers))
    assert found.correlation == frame.correlation
    try:
        call = read_call(frame.body)
        message = read_answer(METHODS[call.method], found)
    except RpcFailure as error:
        return f"failure {error.status}"
    except (PenstockError, KeyError):
        return "failure"  # neither side can say of what
    return f"{call.method} {getattr(message, 'err_code', 0)}"


async def _still_serves(kit: Kit) -> None:
    if await kit.front.shared.cluster.topic("demo") is not None and not kit.front.shared.settings.topics:
        assert (await kit.client().ask(SEND_MESSAGE, sent(b"next"))).success


def seeds() -> Iterator[bytes]:
    """One small recorded request of each method, whole short conversations, and calls by HTTP."""
    seen = set()
    for name in files():
        if name == "broker-to-master":
            continue
        conversation = b""
        for exchange in exchanges(name):
            wire = exchange.asked.wire
            if exchange.call.method not in seen and len(wire) < _LONGEST_SEED:
                seen.add(exchange.call.method)
                yield wire
            if len(conversation) + len(wire) < _LONGEST_SEED:
                conversation += wire
        yield conversation
    for query in _WEB:
        yield f"GET /webapi.htm?method={query}&confModAuthToken=abc HTTP/1.1\r\nHost: x\r\n\r\n".encode()
