"""A stream of TubeMQ frames from either side: cut, envelopes read, the message inside decoded, strings parsed."""

from collections.abc import Iterator

from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.wire import record_columns, records, strings
from penstock.protocols.tubemq.wire.messages import SendMessageRequestP2B
from penstock.protocols.tubemq.wire.protobuf import decode
from penstock.protocols.tubemq.wire.rpc import (
    GET_MESSAGE,
    MAX_FRAME_BYTES,
    METHODS,
    TubeFraming,
    read_answer,
    read_call,
    read_payload,
)
from tests.vectors.tubemq_frames.recorded import files, recorded


def run(data: bytes) -> str | None:
    """The last byte says which side is listening, and as whose answer a frame is taken."""
    if not data:
        return None
    answers, number = bool(data[-1] & 1), sorted(METHODS)[(data[-1] >> 1) % len(METHODS)]
    framing, at, seen = TubeFraming(answers=answers), 0, ""
    while len(data) - at >= framing.need():
        size = framing.need()
        assert 0 < size <= MAX_FRAME_BYTES + 4
        found = framing.feed(memoryview(data)[at : at + size])
        at += size
        if found is not None:
            seen += _answer(found, number) if answers else _call(found)
    return seen


def _call(frame: Frame) -> str:
    call = read_call(frame.body)
    if call.method not in METHODS:
        return "unknown method"
    message = decode(METHODS[call.method].request, call.payload)
    if isinstance(message, SendMessageRequestP2B):
        records.unpack(message.data, message.flag)
    for name in ("partition_info", "subscribe_info"):
        for text in getattr(message, name, ()):
            strings.parse_located(text) if name == "partition_info" else strings.parse_held(text)
    return f"call {call.method}"


def _answer(frame: Frame, number: int) -> str:
    if number == GET_MESSAGE.number:
        messages = records.read_messages(read_payload(GET_MESSAGE, frame))
        found = record_columns.decode(messages, filters={"blue"} if frame.correlation & 1 else ())
        found.batch.validate(full=True)
        assert found.batch.num_rows + found.corrupt + found.filtered == messages.count
        return f"messages {found.batch.num_rows} {found.corrupt} {found.filtered}"
    message = read_answer(METHODS[number], frame)
    for text in getattr(message, "failure_info", ()):
        strings.parse_failure(text)
    return f"answer {number}"


def seeds() -> Iterator[bytes]:
    """Recorded frames up to 2,000 bytes, with the byte that makes each one read as what it is."""
    for name in files():
        waiting: dict[tuple[int, bytes], int] = {}
        for frame in recorded(name):
            place = frame.connection, frame.wire[4:8]
            if frame.is_request:
                body = memoryview(frame.wire)[16:]
                waiting[place] = read_call(body).method if frame.wire[11] == 1 else 13
                last = 0
            else:
                method = waiting.pop(place)
                last = 1 | 2 * (sorted(METHODS).index(method) if method in METHODS else 0)
            if len(frame.wire) <= 2_000:
                yield frame.wire + bytes([last])
