"""The toy's words on a connection: one question and its answer, errors, and notices that are pushed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import ServerError
from penstock.interfaces import Buffer, Buffers, Channel, Connection, Frame
from penstock.model import Endpoint
from tests.toy.framing import REQUEST, ToyFraming, pack, unpack

Said = dict[str, Any]
TIMEOUT_S = 10.0


class ToyDialect:
    """Collects the groups whose members have changed, as nodes say; or ``heard`` is told of it, if there is one."""

    def __init__(self) -> None:
        self.noticed: set[str] = set()
        self.heard: Callable[[Connection, Frame], Buffers | None] | None = None

    def framing(self) -> ToyFraming:
        return ToyFraming()

    async def greet(self, connection: Connection) -> None:
        return

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        if self.heard is not None:
            return self.heard(connection, frame)
        said, _ = unpack(frame)
        self.noticed.add(said["group"])
        return None


async def asked(
    channel: Channel[None],
    node: Endpoint,
    said: Said,
    raw: Buffer = b"",
    *,
    lane: str = "",
    timeout_s: float = TIMEOUT_S,
    held_s: float = 0.0,
) -> tuple[Said, memoryview]:
    """Ask a node. Raises ServerError for what it refuses, ConnectionLost, RequestTimeout."""
    link = await channel.link(node, lane)
    frame = await link.connection.call(
        lambda number: pack(REQUEST, number, said, raw), timeout_s=timeout_s, held_s=held_s
    )
    answer, body = unpack(frame)
    if "error" in answer:
        raise ServerError(answer["text"], code=1, name=answer["error"], retriable=answer["retriable"])
    return answer, body
