"""JSON as RocketMQ's servers and clients write it, which is not always JSON.

Java's fastjson writes keys of maps as they are: numbers without quotes (``{0:"a"}``), objects as objects
(``{{"queueId":0}:5}``). Here both are put into quotes; an object becomes the text it was written as. Standard JSON goes
no way round. What must not live here: what bodies mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from penstock.errors import ProtocolViolation

__all__ = ["MAX_JSON_BYTES", "parse"]

MAX_JSON_BYTES: Final = 4 << 20
"""Python's objects take some twenty times of what the shortest JSON does."""

_DEEPEST: Final = 100
_TOKEN: Final = re.compile(r'\s*+("(?:[^"\\]++|\\.)*+"|[][{},:]|[^][{},:"\s]++)', re.DOTALL)


def parse(data: bytes | bytearray | memoryview, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Return what some JSON says, with every key a text. Raises ProtocolViolation."""
    if len(data) > max_bytes:
        raise ProtocolViolation(f"a body of {len(data)} bytes of JSON; {max_bytes} are allowed")
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"a body of {len(data)} bytes is not UTF-8") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _loads("".join(_standard(text)))


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation(f"a body of {len(text)} letters is no JSON: {str(error)[:200]}") from error


def _standard(text: str) -> Iterator[str]:
    """Yield the text piece by piece, with its keys in quotes."""
    within: list[str] = []  # "{" where a key comes next, ":" where a value does, "["
    at, end = 0, len(text.rstrip())
    while at < end:
        token, after = _token(text, at)
        if within and within[-1] == "{" and token not in {"}", ","}:
            if token == "{":
                after = _object_end(text, after)
                token = json.dumps(text[at:after].strip(), ensure_ascii=False)
            elif token[0] != '"':
                token = json.dumps(token, ensure_ascii=False)
            within[-1] = ":"
        elif token in {"{", "["}:
            if len(within) == _DEEPEST:
                raise ProtocolViolation(f"a body is deeper than {_DEEPEST} objects and lists")
            within.append(token)
        elif token in {"}", "]"}:
            if not within:
                raise ProtocolViolation("a body ends more objects than it begins")
            within.pop()
        elif token == "," and within and within[-1] == ":":
            within[-1] = "{"
        yield token
        at = after


def _object_end(text: str, at: int) -> int:
    """Return where the object ends whose brace is before ``at``."""
    depth = 1
    while depth:
        token, at = _token(text, at)
        depth += (token in {"{", "["}) - (token in {"}", "]"})
    return at


def _token(text: str, at: int) -> tuple[str, int]:
    found = _TOKEN.match(text, at)
    if found is None:
        raise ProtocolViolation(f"a body of {len(text)} letters breaks off after {at}")
    return found[1], found.end()
