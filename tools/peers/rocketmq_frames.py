"""RocketMQ's remoting protocol as far as the peers need it: one request, one response, no client.

Tests inspect real servers with it. It must not use penstock, so that these checks do not depend on the code under test.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Codes of requests; the response's code is 0 on success.
CREATE_TOPIC, BROKER_FACTS, CREATE_GROUP = 17, 28, 200
END, BEGIN, COMMITTED, MEMBERS = 30, 31, 43, 38
ROUTE, CLUSTER, TOPICS = 105, 106, 21
TIMEOUT_S = 10.0

Account = tuple[str, str]
"""Name and key with which requests are signed."""

_NUMBER_AS_KEY = re.compile(rb"([{,])(-?\d+):")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its code, the server's error text, its fields, and its body."""

    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes

    def table(self) -> dict[str, Any]:
        """The body as JSON. Servers write numbers as keys, which JSON parsers refuse; here they become strings."""
        found: dict[str, Any] = json.loads(_NUMBER_AS_KEY.sub(rb'\1"\2":', self.body))
        return found


def ask(
    port: int,
    code: int,
    fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    timeout_s: float = TIMEOUT_S,
    account: Account | None = None,
) -> Answer:
    """Send one request with a JSON header on its own connection; returns the response. Raises OSError."""
    words = {"code": code, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0}
    given = {name: str(value) for name, value in (fields or {}).items()}
    said = {**words, "extFields": given if account is None else _signed(given, body, account)}
    header = json.dumps(said).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        with connection.makefile("rb") as stream:
            size, kind_and_size = struct.unpack(">ii", _read(stream.read, 8))
            rest = _read(stream.read, size - 4)
    head, answered = rest[: kind_and_size & 0xFFFFFF], rest[kind_and_size & 0xFFFFFF :]
    found: dict[str, Any] = json.loads(head)
    if found["opaque"] != 1 or not found["flag"] & 1:
        raise OSError(f"no answer to our request: {found}")
    return Answer(found["code"], found.get("remark") or "", found.get("extFields") or {}, answered)


def _signed(fields: dict[str, str], body: bytes, account: Account) -> dict[str, str]:
    """The fields with a signature over their values, in the order of their names, and the body."""
    user, secret = account
    fields["AccessKey"] = user
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.digest(secret.encode(), content, "sha1")
    return {**fields, "Signature": base64.b64encode(digest).decode()}


def agreed(port: int, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Answer:
    """The same as ``ask``, but a refusal raises RuntimeError with the server's text. Raises OSError."""
    answer = ask(port, code, fields, body)
    if answer.code:
        raise RuntimeError(f"request {code} {dict(fields or {})}: {answer}")
    return answer


def _read(read: Callable[[int], bytes], count: int) -> bytes:
    found = read(count)
    if len(found) < count:
        raise OSError("the server hung up")
    return found
