"""Requests and responses on a connection: 4-byte sizes, headers, and the request and response class of each API key."""

from __future__ import annotations

import functools
import importlib
import struct
from functools import partial
from typing import Final, NamedTuple, TypeVar

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.channel import Outgoing
from penstock.interfaces.framing import Buffer, Buffers, Frame, Pieces, SizedBodies, not_ours, spoken
from penstock.interfaces.wire import AS_JAVA, MOST_ELEMENTS, Reader, Writer
from penstock.protocols.kafka.wire import codec
from penstock.protocols.kafka.wire.codec_generator import skip_tags
from penstock.protocols.kafka.wire.declarations import Api

__all__ = ["Template"]

# A frame is a 4-byte size and that many bytes. Requests and responses have the same framing.
#
# A size that is negative or above the limit (``socket.request.max.bytes`` on a broker) closes the connection before
# anything is allocated for it. Source: Kafka protocol guide, "Protocol Primitive Types / The size".

_CORRELATION = struct.Struct(">i")

MAX_FRAME_BYTES = 104_857_600
"""Kafka's default of socket.request.max.bytes."""

_LEAST = {True: 4, False: 8}
"""Fewest bytes of a response (True: correlation id) and of a request (False: key, version, correlation id)."""


class KafkaFraming:
    """Splits received bytes into frames: responses for a client (``answers`` True), requests for a server (False)."""

    __slots__ = ("_answers", "_bodies", "_whole", "need")

    def __init__(self, *, answers: bool, limit: int = MAX_FRAME_BYTES) -> None:
        self._answers = answers
        self._bodies = SizedBodies("Kafka", partial(_foreign, answers), least=_LEAST[answers], limit=limit)
        self.need = self._bodies.need
        self._whole = self._bodies.whole

    def feed(self, chunk: memoryview) -> Frame | None:
        body = self._bodies.feed(chunk)
        if body is None:
            return None
        at = 0 if self._answers else 4
        correlation = int.from_bytes(body[at : at + 4], "big", signed=True)
        return Frame(correlation, self._answers, body)

    def whole(self, view: memoryview, most: int) -> Frame | int:
        """Implements ``penstock.interfaces.framing.TakesWhole``."""
        body = self._whole(view, most)
        if isinstance(body, int):
            return body
        return Frame(_CORRELATION.unpack_from(body, 0 if self._answers else 4)[0], self._answers, body)


def _foreign(answers: bool, head: bytes) -> ProtocolViolation | None:
    from penstock.protocols import greetings  # imported late: the registry imports this folder

    said = spoken(head, greetings())
    return not_ours(said, "Kafka", "Give the port of a Kafka broker" if answers else "") if said else None


# The API keys: name, and the module that declares the request and the response.
#
# Declaring a message takes time, so a module is imported when one of its keys is first used. Messages that the same
# clients need are in one module. A client that only fetches does not import the others.

API_VERSIONS = 18

_MODULES: dict[int, tuple[str, str]] = {
    0: ("Produce", "produce"),
    1: ("Fetch", "fetch"),
    2: ("ListOffsets", "metadata"),
    3: ("Metadata", "metadata"),
    8: ("OffsetCommit", "offsets"),
    9: ("OffsetFetch", "offsets"),
    10: ("FindCoordinator", "offsets"),
    11: ("JoinGroup", "groups"),
    12: ("Heartbeat", "groups"),
    13: ("LeaveGroup", "groups"),
    14: ("SyncGroup", "groups"),
    15: ("DescribeGroups", "coordinator_admin"),
    16: ("ListGroups", "coordinator_admin"),
    17: ("SaslHandshake", "configs"),
    18: ("ApiVersions", "metadata"),
    19: ("CreateTopics", "topics"),
    20: ("DeleteTopics", "topics"),
    21: ("DeleteRecords", "topics"),
    22: ("InitProducerId", "produce"),
    23: ("OffsetForLeaderEpoch", "fetch"),
    24: ("AddPartitionsToTxn", "produce"),
    25: ("AddOffsetsToTxn", "produce"),
    26: ("EndTxn", "produce"),
    27: ("WriteTxnMarkers", "produce"),
    28: ("TxnOffsetCommit", "produce"),
    29: ("DescribeAcls", "configs"),
    32: ("DescribeConfigs", "configs"),
    33: ("AlterConfigs", "configs"),
    34: ("AlterReplicaLogDirs", "cluster"),
    35: ("DescribeLogDirs", "cluster"),
    36: ("SaslAuthenticate", "configs"),
    37: ("CreatePartitions", "topics"),
    42: ("DeleteGroups", "coordinator_admin"),
    43: ("ElectLeaders", "cluster"),
    44: ("IncrementalAlterConfigs", "configs"),
    45: ("AlterPartitionReassignments", "cluster"),
    46: ("ListPartitionReassignments", "cluster"),
    47: ("OffsetDelete", "coordinator_admin"),
    48: ("DescribeClientQuotas", "configs"),
    49: ("AlterClientQuotas", "configs"),
    50: ("DescribeUserScramCredentials", "configs"),
    55: ("DescribeQuorum", "cluster"),
    60: ("DescribeCluster", "cluster"),
    61: ("DescribeProducers", "coordinator_admin"),
    65: ("DescribeTransactions", "coordinator_admin"),
    66: ("ListTransactions", "coordinator_admin"),
    68: ("ConsumerGroupHeartbeat", "groups"),
    69: ("ConsumerGroupDescribe", "groups"),
    71: ("GetTelemetrySubscriptions", "cluster"),
    74: ("ListConfigResources", "configs"),
    75: ("DescribeTopicPartitions", "cluster"),
    76: ("ShareGroupHeartbeat", "groups"),
}


class Pair(NamedTuple):
    """One API: its name and its request and response classes."""

    name: str
    request: type
    response: type


def name_of(key: int) -> str | None:
    """The name of an API key; None if it is not declared."""
    row = _MODULES.get(key)
    return None if row is None else row[0]


def known() -> frozenset[int]:
    """All declared API keys."""
    return frozenset(_MODULES)


@functools.cache
def api_of(key: int) -> Pair | None:
    """The messages of an API key; None if it is not declared."""
    if key not in _MODULES:
        return None
    name, module = _MODULES[key]
    found = importlib.import_module(f"penstock.protocols.kafka.wire.{module}")
    return Pair(name, getattr(found, f"{name}Request"), getattr(found, f"{name}Response"))


def versions(key: int) -> tuple[int, int]:
    """Lowest and highest declared version of an API key. Raises KeyError for an unknown one."""
    pair = api_of(key)
    if pair is None:
        raise KeyError(key)
    api: Api = pair.request.API  # type: ignore[attr-defined]
    return api.lowest, api.highest


# Headers, and whole messages with their headers.
#
# A flexible body has a header with tagged fields: v2 for requests, v1 for responses. ``client_id`` is never compact.
# An ApiVersions response always has header v0, so that a client can read it before it knows the broker's versions
# (KIP-511). Source: Kafka protocol guide, "Request and Response Headers".

M = TypeVar("M")

_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_LONGEST_CLIENT_ID = 0x7FFF
_LARGEST_FRAME = 0x7FFFFFFF
_NO_TAGS: Final = b"\0"
_BEGIN: Final = struct.Struct(">ii")
"""A response's size and correlation id."""
_SIZE_BYTES: Final = 4
_SMALL = 64 * 1024
"""Frames up to this size are joined into one piece: the copy costs less than giving the transport a second piece."""
_HEADER_TAGS = 100
"""The most tagged fields accepted in a request header. Kafka declares none there."""


class RequestHeader(NamedTuple):
    """A request's API key and version, the correlation id that its response must repeat, and the client id."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_header(data: Buffer) -> tuple[RequestHeader, Reader]:
    """Read the header of a request. Returns it with a reader positioned at the body.

    If the API is not declared, the reader is positioned after ``client_id``. Raises ProtocolViolation.
    """
    reader = Reader(data)
    key, version, correlation, size = reader.fixed(_HEAD)
    client: str | None
    at = reader.at + size
    if size >= 0 and at <= len(reader.data):
        client = str(reader.data[reader.at : at], "utf-8", AS_JAVA)
        reader.at = at
    else:
        client = None if size == -1 else reader.text(size)
    pair = api_of(key)
    if pair is not None and (flexible := pair.request.API.flexible) is not None and version >= flexible:  # type: ignore[attr-defined]
        at, data = reader.at, reader.data
        if at < len(data) and not data[at]:
            reader.at = at + 1
        else:
            reader.room = _HEADER_TAGS
            skip_tags(reader)
            reader.room = MOST_ELEMENTS
    return RequestHeader(key, version, correlation, client), reader


def request(message: object, version: int, client_id: str | None) -> Outgoing:
    """Encode a request. Returns a function that frames it with the correlation id, which the connection chooses.

    The body is encoded before this returns. A value or version that cannot be written therefore raises UsageError in
    the caller, not in the connection, which other requests share.
    """
    api = codec.declared(type(message))
    name = b"" if client_id is None else client_id.encode()
    if len(name) > _LONGEST_CLIENT_ID:
        raise UsageError(f"a client id of {len(name)} bytes; {_LONGEST_CLIENT_ID} are allowed")
    body = codec.encode(message, version)
    key, length = api.key, -1 if client_id is None else len(name)
    after = name + _NO_TAGS if api.is_flexible(version) else name
    size = _HEAD.size + len(after) + sum(map(len, body))
    if size > _LARGEST_FRAME:
        raise UsageError(f"a frame of {size} bytes; {_LARGEST_FRAME} are allowed")

    def frame(correlation: int) -> Buffers:
        head = b"%b%b%b" % (size.to_bytes(4, "big"), _HEAD.pack(key, version, correlation, length), after)
        return (b"".join((head, *body)),) if size <= _SMALL else (head, *body)

    return frame


def response(message: object, version: int, correlation: int) -> Pieces:
    """Encode and frame a response. Records that are file ranges (`Stretch`) in ``message`` stay file ranges."""
    api = codec.declared(type(message))
    writer = Writer()
    head = writer.tail
    head += _BEGIN.pack(0, correlation)
    if api.flexible is not None and version >= api.flexible and api.key != API_VERSIONS:
        head += _NO_TAGS
    codec.write(message, version, writer)
    pieces: Pieces = (head,) if writer.tail is head else writer.pieces()
    size = sum(map(len, pieces)) - _SIZE_BYTES
    if size > _LARGEST_FRAME:
        raise UsageError(f"a frame of {size} bytes; {_LARGEST_FRAME} are allowed")
    head[:_SIZE_BYTES] = size.to_bytes(_SIZE_BYTES, "big")
    return pieces


def read_response(message: type[M], version: int, data: Buffer) -> M:
    """Decode the response in a frame's body, which begins with the correlation id. Raises ProtocolViolation."""
    reader = Reader(data)
    reader.i32()
    api = codec.declared(message)
    if api.is_flexible(version) and api.key != API_VERSIONS:
        skip_tags(reader)
    return codec.decode(message, version, reader)


def read_request(data: Buffer) -> tuple[RequestHeader, object]:
    """Decode a request's header and body. Raises ProtocolViolation, also for an API that is not declared."""
    header, reader = read_header(data)
    pair = api_of(header.api_key)
    if pair is None:
        raise ProtocolViolation(f"API key {header.api_key} is unknown")
    api = codec.declared(pair.request)
    if not api.lowest <= header.api_version <= api.highest:
        raise ProtocolViolation(f"{pair.name} has versions {api.lowest} to {api.highest}, not {header.api_version}")
    return header, codec.decode(pair.request, header.api_version, reader)


class Template:
    """A response in which only one run of adjacent numbers changes. The codec encodes the rest of it once.

    ``message`` is an example in which the numbers are ``shown``. Their bytes must occur exactly once in it.
    """

    __slots__ = ("_head", "_run", "_size", "_tail")

    def __init__(self, message: object, version: int, run: struct.Struct, shown: tuple[int, ...]) -> None:
        """Raises ValueError if the bytes of ``shown`` do not occur exactly once."""
        whole = b"".join(bytes(piece) for piece in response(message, version, 0))  # type: ignore[arg-type]
        head, *rest = whole.split(run.pack(*shown))
        (self._tail,) = rest
        self._head = head[_BEGIN.size :]
        self._run = run
        self._size = len(whole) - 4

    def packed(self, correlation: int, *numbers: int) -> bytes:
        """The framed response with these numbers."""
        return _BEGIN.pack(self._size, correlation) + self._head + self._run.pack(*numbers) + self._tail
