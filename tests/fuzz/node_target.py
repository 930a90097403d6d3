"""Any bytes from a client: a node answers, or hangs up on that client; it serves the others on, in bounded memory.

Each input meets a fresh node with two topics, in virtual time: what waits is waited for to the end.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from penstock.errors import PenstockError
from penstock.protocols.kafka.server.front import TABLE
from penstock.protocols.kafka.wire.framing import api_of, read_header, read_response
from tests.fuzz.memory_taken import no_more_memory
from tests.fuzz.node_conversations import CONVERSATIONS, TOPIC, Talk, batch, fetched, produced, requests
from tests.fuzz.node_in_memory import World, errors_noted, in_virtual_time

_NEARLY = 64
_LONGER_THAN_ANY_TIMEOUT_S = 3_600


def run(data: bytes) -> str:
    """Send ``data``, nearly half of the time hang up early, and look at what comes of it."""
    chance = zlib.crc32(data)
    if chance % 4:
        data = _resized(data)
    answers, hung_up = meet(data, leaves=bool(chance & 4))
    return ", ".join(answers + ["hung up"] * hung_up)


def meet(data: bytes, *, leaves: bool = False) -> tuple[list[str], bool]:
    """Send ``data``; what kinds of answers came, and whether the node hung up within a second.

    Raises AssertionError for answers, logged errors, memory or a node that are not as they should be.
    """
    bugs: list[BaseException] = []
    with no_more_memory(), errors_noted(bugs):
        found = in_virtual_time(_meet(data, bugs, leaves=leaves))
    if bugs:
        raise AssertionError(f"{len(bugs)} errors were only logged") from bugs[0]
    return found


async def _meet(data: bytes, bugs: list[BaseException], *, leaves: bool) -> tuple[list[str], bool]:
    world = World(bugs)
    async with world.node:
        for name in (TOPIC, "events"):
            await world.node.enode.create_topic(name, 2, {})
        line = await world.line()
        line.send(data)
        await asyncio.sleep(1)
        hung_up = line.lost
        if leaves:  # while something may still wait for its sake
            line.hang_up()
        await asyncio.sleep(_LONGER_THAN_ANY_TIMEOUT_S)
        found = _answers(data, bytes(line.received))
        await _serves(world)
    return found, hung_up


async def _serves(world: World) -> None:
    """Another client can write and read."""
    await world.node.enode.create_topic("others", 1, {})
    line = await world.line()
    records = batch(b"still here")
    (stored,) = (await world.ask(line, produced(records, "others"), 9)).responses
    assert [(part.error_code, part.base_offset) for part in stored.partition_responses] == [(0, 0)]
    (read,) = (await world.ask(line, fetched("others"), 12)).responses
    (part,) = read.partitions
    assert part.error_code == 0
    assert bytes(part.records)[61:] == records[61:]


def _answers(data: bytes, received: bytes) -> list[str]:
    """What came back, as kinds: every answer is whole, readable, and the next in turn."""
    asked = _requests(data)
    kinds = []
    position = 0
    while position < len(received):
        (size,) = struct.unpack_from(">i", received, position)
        body = received[position + 4 : position + 4 + size]
        assert 4 <= size == len(body), "an answer that is not whole"
        position += 4 + size
        correlation = body[:4]
        for request in asked:
            if request[4:8] == correlation:  # those in between wanted no answer
                kinds.append(_kind(request, body))
                break
        else:
            raise AssertionError(f"an answer to nothing that was asked, or out of turn: {correlation.hex()}")
    return kinds


def _resized(data: bytes) -> bytes:
    """With the size that one frame has, where it was nearly right: a wrong one hides what else is wrong."""
    size = int.from_bytes(data[:4], "big", signed=True)
    return (
        (len(data) - 4).to_bytes(4, "big") + data[4:]
        if len(data) > 4 and abs(size + 4 - len(data)) <= _NEARLY
        else data
    )


def _requests(data: bytes) -> Iterator[bytes]:
    """Whole frames."""
    position = 0
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if size < 8 or position + 4 + size > len(data):
            return
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


def _kind(request: bytes, answer: bytes) -> str:
    """Name, and the error codes in the answer."""
    header, _ = read_header(request)
    pair = api_of(header.api_key)
    assert pair is not None
    served = TABLE[header.api_key]
    version = header.api_version if served.lowest <= header.api_version <= served.highest else 0
    told = read_response(pair.response, version, answer)
    return f"{pair.name} {sorted(set(_codes(told)))}"


def _codes(message: Any) -> Iterator[int]:
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, list | tuple):
            for each in value:
                yield from _codes(each)


def seeds() -> Iterator[bytes]:
    """Requests one by one, and conversations."""
    yield from requests()
    for conversation in CONVERSATIONS:
        bugs: list[BaseException] = []
        talked = in_virtual_time(_talk(conversation, bugs))
        if bugs:
            raise PenstockError("a good conversation failed") from bugs[0]
        yield talked


async def _talk(conversation: Any, bugs: list[BaseException]) -> bytes:
    world = World(bugs)
    async with world.node:
        await world.node.enode.create_topic(TOPIC, 2, {})
        talk = Talk(world)
        await conversation(talk)
    return talk.said
