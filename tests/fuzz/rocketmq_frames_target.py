"""A stream of RocketMQ frames from either side: cut, headers read as declared, bodies in JSON and properties read."""

from collections.abc import Iterator

from penstock.protocols.rocketmq.wire.framing import (
    MAX_FRAME_BYTES,
    CommandFrame,
    RemotingCommand,
    RocketFraming,
    decode,
    encode,
)
from penstock.protocols.rocketmq.wire.messages import read_body, read_fields
from penstock.protocols.rocketmq.wire.properties import parse_properties
from penstock.protocols.rocketmq.wire.rpc import METHODS
from tests.vectors.rocketmq_frames.recorded import command, exchanges, files, recorded

_CODES = sorted(METHODS)


def run(data: bytes) -> str | None:
    """The last two bytes say which side is listening, and as whose answer a frame is taken."""
    if len(data) < 2:
        return None
    answers, code = bool(data[-1] & 1), _CODES[data[-2] % len(_CODES)]
    framing, at, seen = RocketFraming(answers=answers), 0, ""
    while len(data) - at >= framing.need():
        size = framing.need()
        assert 0 < size <= MAX_FRAME_BYTES
        found = framing.feed(memoryview(data)[at : at + size])
        at += size
        if found is not None:
            seen += _answer(found, code) if answers else _request(found.command)
            assert decode(memoryview(b"".join(encode(found.command)))[4:]) == found.command
    return seen


def _request(said: RemotingCommand) -> str:
    method = METHODS.get(said.code)
    if method is None:
        return "unknown code"
    header = read_fields(method.request, said.fields, letters=method.letters)
    if properties := getattr(header, "properties", None):
        parse_properties(properties)
    if method.body is not None:
        read_body(method.body, said.body)
    return f"request {said.code}"


def _answer(frame: CommandFrame, code: int) -> str:
    method = METHODS[code]
    read_fields(method.answer, frame.command.fields)
    if method.answer_body is not None:
        read_body(method.answer_body, frame.body)
    return f"answer {code} {frame.command.code}"


def seeds() -> Iterator[bytes]:
    """Recorded frames up to 1,500 bytes, a few of each kind, with the bytes that make each one read as what it is."""
    seen: dict[object, int] = {}
    for name in files():
        asked = {(one.by_client, one.request.opaque): one.request.code for one in exchanges(name)}
        for frame in recorded(name):
            said = command(frame)
            code = asked.get((not frame.by_client, said.opaque), 0) if said.is_answer else said.code
            kind = (code, said.is_answer, said.code, said.compact)
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] <= 2 and len(frame.wire) <= 1_500:
                which = _CODES.index(code) if code in METHODS else 0
                yield frame.wire + bytes([which, said.is_answer])
