"""Sends the same request again and again over several connections, to measure the server's CPU without a client's.

The bytes are encoded once. Only the first response is decoded, and must be a success, so that the server never waits
for the client.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bench.clients import small_messages
from bench.clients.small_messages import Asked
from bench.servers import Server

__all__ = [
    "AT_END",
    "CASES",
    "HEARTBEAT",
    "TUBEMQ_SEND",
    "RawJob",
    "Used",
    "connected",
    "one_each",
    "run",
    "settled",
]

AT_END: Final = "fetch at the end"
HEARTBEAT: Final = "Heartbeat"
TUBEMQ_SEND: Final = "TubeMQ send"

_WITHIN_S: Final = 30.0
_AGAIN_S: Final = 0.2
_OFFSET: Final = struct.Struct(">q")
_SIZE: Final = struct.Struct(">i")
_TUBEMQ_HEAD: Final = struct.Struct(">Iiii")
_ARRIVING_S: Final = (0.001, 0.0002)
"""Seconds until a fetch waits at the server, and for each further one."""


class RawJob(NamedTuple):
    """``count`` requests in all over ``connections``, each of which waits for its response.

    ``pid``: the server's process, whose CPU is measured; ``end``: the end offset of the topic's partition.
    """

    host: str
    port: int
    topic: str
    connections: int
    count: int
    pid: int
    end: int = 0


class Used(NamedTuple):
    """For all requests: wall-clock seconds, and the server's CPU seconds."""

    seconds: float
    server_s: float


def _kafka_answer(connection: socket.socket) -> bytes:
    return _exactly(connection, _SIZE.unpack(_exactly(connection, _SIZE.size))[0])


def _tubemq_answer(connection: socket.socket) -> bytes:
    _, _, blocks, size = _TUBEMQ_HEAD.unpack(_exactly(connection, _TUBEMQ_HEAD.size))
    assert blocks == 1
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = connection.recv(count)
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the server hung up")
        data += piece
    return data


_Answered = Callable[[socket.socket], bytes]


def settled(connection: socket.socket, asked: Asked, answered: _Answered = _kafka_answer) -> bytes:
    """Repeat a request until it succeeds, while the server opens topics and groups; returns the response.

    Raises RuntimeError.
    """
    until = time.monotonic() + _WITHIN_S
    while True:
        connection.sendall(asked.data)
        body = answered(connection)
        trouble = asked.trouble(body)
        if not trouble:
            return body
        if time.monotonic() > until:
            raise RuntimeError(trouble)
        time.sleep(_AGAIN_S)


def _plain(case: str) -> Callable[[socket.socket, str], Asked]:
    """A request that needs no member; offset requests first look up the coordinator, and commit an offset."""

    def prepared(connection: socket.socket, topic: str) -> Asked:
        first = ("FindCoordinator", "OffsetCommit") if case.startswith("Offset") else ()
        for each in first:
            settled(connection, small_messages.KAFKA[each](topic))
        asked = small_messages.KAFKA[case](topic)
        settled(connection, asked)
        return asked

    return prepared


def _beating(connection: socket.socket, topic: str) -> Asked:
    """Heartbeats of the only member of a new group."""
    group = f"{topic}-{time.time_ns()}"
    settled(connection, small_messages.KAFKA["FindCoordinator"](group))
    member, generation = small_messages.read_joined(settled(connection, small_messages.join(group)))
    settled(connection, small_messages.sync(group, member, generation))
    asked = small_messages.heartbeat(group, member, generation)
    settled(connection, asked)
    return asked


def _sending(connection: socket.socket, topic: str) -> Asked:
    asked = small_messages.tubemq_send(topic)
    settled(connection, asked, _tubemq_answer)
    return asked


CASES: Mapping[str, tuple[Callable[[socket.socket, str], Asked], _Answered]] = {
    **{case: (_plain(case), _kafka_answer) for case in small_messages.KAFKA},
    HEARTBEAT: (_beating, _kafka_answer),
    TUBEMQ_SEND: (_sending, _tubemq_answer),
}


def run(case: str, job: RawJob) -> Used:
    """Send the requests; returns their cost. Raises RuntimeError if the server refuses one."""
    connections = [connected(job) for _ in range(job.connections)]
    if case == AT_END:
        used = _at_end(job, connections)
    else:
        prepare, answered = CASES[case]
        data = prepare(connections[0], job.topic).data
        used = _used(job, lambda: one_each(connections, data, answered), job.count // job.connections)
    for each in connections:
        each.close()
    return used


def connected(job: RawJob) -> socket.socket:
    """A new connection to the server."""
    connection = socket.create_connection((job.host, job.port), _WITHIN_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _used(job: RawJob, turn: Callable[[], None], turns: int) -> Used:
    server = Server("", "", job.pid)
    spent, begun = server.cpu_s(), time.perf_counter()
    for _ in range(turns):
        turn()
    return Used(time.perf_counter() - begun, server.cpu_s() - spent)


def one_each(connections: Sequence[socket.socket], data: bytes, answered: _Answered) -> None:
    """Send the request over every connection, then read every response."""
    for each in connections:
        each.sendall(data)
    for each in connections:
        answered(each)


def _at_end(job: RawJob, readers: Sequence[socket.socket]) -> Used:
    """All connections wait at the end of the partition; each record that is sent answers all of them."""
    with connected(job) as writer:
        produce = small_messages.KAFKA["produce"](job.topic)
        settled(writer, produce)
        asked = bytearray(small_messages.fetch_at(job.topic, small_messages.OFFSET_MARK).data)
        place = asked.index(_OFFSET.pack(small_messages.OFFSET_MARK))
        first, more = _ARRIVING_S
        offset = job.end + 1  # after the record that was just sent

        def turn() -> None:
            nonlocal offset
            _OFFSET.pack_into(asked, place, offset)
            for each in readers:
                each.sendall(asked)
            time.sleep(first + more * len(readers))
            writer.sendall(produce.data)
            _kafka_answer(writer)
            for each in readers:
                if small_messages.VALUE not in _kafka_answer(each):
                    raise RuntimeError(f"a fetch at {offset} came back without the record that was sent")
            offset += 1

        return _used(job, turn, job.count // len(readers))
