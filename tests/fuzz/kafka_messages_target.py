"""Requests and answers of every API, and the formats inside them. What was read can be written and is read the same."""

from collections.abc import Iterator

from penstock.protocols.kafka.wire.codec import decode, encode
from penstock.protocols.kafka.wire.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from penstock.protocols.kafka.wire.framing import api_of, known, read_request, read_response, versions
from penstock.protocols.kafka.wire.stored_records import read_group_value, read_key, read_offset_value
from tests.vectors.kafka_frames.recorded import files, recorded

_REQUEST, _ANSWER, _SUBSCRIPTION, _ASSIGNMENT, _KEY, _OFFSET, _GROUP = range(7)
_KEYS = sorted(known())
_LONGEST_SEED = 1_000


def run(data: bytes) -> None:
    """The first byte says what the rest is; for an answer two more say of which API and version."""
    what, rest = data[:1], data[1:]
    match int.from_bytes(what, "big") % 7:
        case 0:
            header, message = read_request(rest)
            _write_and_read(message, header.api_version)
        case 1 if len(rest) > 1:
            key = _KEYS[rest[0] % len(_KEYS)]
            low, high = versions(key)
            version = low + rest[1] % (high - low + 1)
            pair = api_of(key)
            assert pair is not None
            _write_and_read(read_response(pair.response, version, rest[2:]), version)
        case 2:
            subscription = read_subscription(rest)
            assert read_subscription(write_subscription(subscription)) == subscription
        case 3:
            assignment = read_assignment(rest)
            assert read_assignment(write_assignment(assignment)) == assignment
        case 4:
            read_key(rest)
        case 5:
            read_offset_value(rest)
        case 6:
            read_group_value(rest)


def _write_and_read(message: object, version: int) -> None:
    assert decode(type(message), version, b"".join(encode(message, version))) == message


def seeds() -> Iterator[bytes]:
    """Small recorded frames, one of each API, version and direction."""
    seen = set()
    for name in files():
        for frame in recorded(name):
            kind = (frame.api_key, frame.version, frame.is_request)
            if kind not in seen and len(frame.wire) <= _LONGEST_SEED:
                seen.add(kind)
                lowest = versions(frame.api_key)[0]
                head = bytes([_ANSWER, _KEYS.index(frame.api_key), frame.version - lowest])
                yield (bytes([_REQUEST]) if frame.is_request else head) + frame.body
    yield bytes([_SUBSCRIPTION]) + bytes.fromhex("0003 00000001 0001 61 ffffffff 00000000 00000001 ffff")
    yield bytes([_ASSIGNMENT]) + bytes.fromhex("0000 00000001 0001 61 00000001 00000002 ffffffff")
    yield bytes([_KEY]) + bytes.fromhex("0001 0001 67 0001 74 00000003")
    yield bytes([_OFFSET]) + bytes.fromhex("0003 0000000000000007 00000005 0001 6d 0000000000000009")
    yield bytes([_GROUP]) + bytes.fromhex("0003 0001 63 00000000 ffff ffff 0000000000000009 00000000")
