"""Calls of the front's HTTP interface: a request's bytes in, status and JSON out."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.errors import Code
from tests.unit.tubemq_front.kit import Client, Kit


async def fetch(kit: Kit, request: bytes) -> tuple[int, str]:
    """Status and body of the answer to any bytes that are one HTTP request."""
    client = kit.client()
    await client.send(request)
    assert client.hung_up
    head, _, body = client.pushed.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode()


async def call(kit: Kit, method: str, **parameters: object) -> dict[str, Any]:
    """One administrative call, with the token; scripts make it again where the node cannot say what became of it."""

    async def once() -> dict[str, Any]:
        return await _call(kit, method, **parameters)

    return await kit.again.until_right(
        once, lambda answer: f'"errCode": {Code.SERVICE_UNAVAILABLE}' in json.dumps(answer)
    )


async def _call(kit: Kit, method: str, **parameters: object) -> dict[str, Any]:
    query = urlencode({"method": method, "confModAuthToken": "abc", **parameters})
    status, body = await fetch(kit, f"GET /webapi.htm?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert status == 200
    found: dict[str, Any] = json.loads(body)
    return found


def feed(client: Client, data: bytes) -> Frame | None:
    """What the connection's framing makes of ``data``."""
    framing, view, frame = client.session.framing(), memoryview(data), None
    while view and len(view) >= (need := framing.need() or len(view)):
        frame, view = framing.feed(view[:need]) or frame, view[need:]
    return frame
