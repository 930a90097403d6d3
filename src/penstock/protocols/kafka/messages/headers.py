"""Request and response headers, and whole messages with them: what goes between two frame borders.

Kafka protocol guide, "Request and Response Headers": header v2/v1 with tagged fields when the body is flexible;
``client_id`` is never compact; an ApiVersions answer always has header v0, so that it can be read before it is known
what the broker speaks (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.kafka.messages import codec
from penstock.protocols.kafka.messages.catalog import API_VERSIONS, api_of
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Buffer, Buffers, Pieces, Stretch
from penstock.wire import MOST_ELEMENTS, Reader, Writer

M = TypeVar("M")
P = TypeVar("P", Buffer, Buffer | Stretch)

_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_LONGEST_CLIENT_ID = 0x7FFF
_LARGEST_FRAME = 0x7FFFFFFF
_SMALL = 64 * 1024
"""A frame up to this many bytes goes to the transport as it is: to copy it takes less than a second piece."""
_HEADER_TAGS = 100
"""Kafka has declared none in requests."""


class RequestHeader(NamedTuple):
    """Who asks what: API key and version, the id the answer must carry, the client's own name."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_header(data: Buffer) -> tuple[RequestHeader, Reader]:
    """The header of a request and a reader that stands at its body.

    For an API or version that is not declared the reader stands behind ``client_id``. Raises ProtocolViolation.
    """
    reader = Reader(data)
    key, version, correlation, size = reader.fixed(_HEAD)
    client = None if size == -1 else reader.text(size)
    pair = api_of(key)
    if pair is not None and codec.declared(pair.request).is_flexible(version):
        reader.room = _HEADER_TAGS
        codec.skip_tags(reader)
        reader.room = MOST_ELEMENTS
    return RequestHeader(key, version, correlation, client), reader


def request(message: object, version: int, client_id: str | None) -> Outgoing:
    """A request ready for a connection, which chooses the correlation id.

    The body is encoded here, so that UsageError (a value or a version that cannot be written) reaches the caller and
    not a connection that others share.
    """
    api = codec.declared(type(message))
    name = None if client_id is None else client_id.encode()
    if name is not None and len(name) > _LONGEST_CLIENT_ID:
        raise UsageError(f"a client id of {len(name)} bytes; {_LONGEST_CLIENT_ID} are allowed")
    body = codec.encode(message, version)

    def frame(correlation: int) -> Buffers:
        writer = Writer()
        writer.i16(api.key)
        writer.i16(version)
        writer.i32(correlation)
        writer.i16(-1 if name is None else len(name))
        writer.raw(name or b"")
        if api.is_flexible(version):
            writer.uvarint(0)
        return sized([*writer.parts(), *body])

    return frame


def response(message: object, version: int, correlation: int) -> Pieces:
    """An answer, framed; records that stay where they are stand in it as they do in ``message``."""
    api = codec.declared(type(message))
    writer = Writer()
    writer.i32(correlation)
    if api.is_flexible(version) and api.key != API_VERSIONS:
        writer.uvarint(0)
    codec.write(message, version, writer)
    return sized(writer.pieces())


def read_response(message: type[M], version: int, data: Buffer) -> M:
    """The answer in a frame's body (which begins with the correlation id). Raises ProtocolViolation."""
    reader = Reader(data)
    reader.i32()
    api = codec.declared(message)
    if api.is_flexible(version) and api.key != API_VERSIONS:
        codec.skip_tags(reader)
    return codec.decode(message, version, reader)


def read_request(data: Buffer) -> tuple[RequestHeader, object]:
    """Header and body of a request. Raises ProtocolViolation, also for an API that is not declared."""
    header, reader = read_header(data)
    pair = api_of(header.api_key)
    if pair is None:
        raise ProtocolViolation(f"API key {header.api_key} is unknown")
    api = codec.declared(pair.request)
    if not api.lowest <= header.api_version <= api.highest:
        raise ProtocolViolation(f"{pair.name} has versions {api.lowest} to {api.highest}, not {header.api_version}")
    return header, codec.decode(pair.request, header.api_version, reader)


def sized(parts: Sequence[P]) -> list[P | bytes]:
    """``parts`` with their 4-byte size before them, all in one piece where that is small, as most answers are.

    Raises UsageError for more than a size can say.
    """
    size = sum(map(len, parts))
    if size > _LARGEST_FRAME:
        raise UsageError(f"a frame of {size} bytes; {_LARGEST_FRAME} are allowed")
    head = size.to_bytes(4, "big")
    if size <= _SMALL and len(parts) == 1 and isinstance(only := parts[0], bytearray):
        return [head + only]
    framed: list[P | bytes] = [head]
    framed.extend(parts)
    return framed
