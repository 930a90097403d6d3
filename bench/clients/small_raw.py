"""The same request over and over, over some connections at once: what the server spends on it, whoever the client is.

Bytes are made once and answers are not looked at, so that a server is measured that never waits for its client. What
must not live here: starting servers, counting their CPU.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["CASES", "RawJob", "run"]

_VALUE: Final = b"x" * 100
_WITHIN_S: Final = 30.0
_SIZE: Final = struct.Struct(">i")
_TUBEMQ_HEAD: Final = struct.Struct(">Iiii")


class RawJob(NamedTuple):
    """``count`` requests in all over ``connections``, each of which waits for its answer."""

    host: str
    port: int
    topic: str
    connections: int
    count: int


def produce(topic: str) -> bytes:
    """One record, in the version that librdkafka sends."""
    from penstock.columnar.few import FewRows, encode_few
    from penstock.protocols.kafka.messages import request
    from penstock.protocols.kafka.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic

    records = bytes(encode_few(FewRows([None], [_VALUE], [time.time_ns() // 1_000_000])))
    topics = [ProduceRequestTopic(name=topic, partition_data=[ProduceRequestPartition(index=0, records=records)])]
    return b"".join(request(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), 10, "bench")(1))


def fetch(topic: str) -> bytes:
    """The first record; there has to be one."""
    from penstock.protocols.kafka.messages import request
    from penstock.protocols.kafka.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic

    part = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    message = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchRequestTopic(topic=topic, partitions=[part])],
    )
    return b"".join(request(message, 11, "bench")(1))


def send(topic: str) -> bytes:
    """One message of TubeMQ's."""
    from penstock.protocols.tubemq import rpc
    from penstock.protocols.tubemq.messages.broker import SendMessageRequestP2B
    from penstock.protocols.tubemq.methods import METHODS
    from penstock.protocols.tubemq.records.single import checksum

    message = SendMessageRequestP2B(
        client_id="bench",
        topic_name=topic,
        partition_id=0,
        data=_VALUE,
        flag=0,
        check_sum=checksum(_VALUE),
        sent_addr=0,
    )
    return b"".join(rpc.request(METHODS[13], message, timeout_ms=10_000)(1))


def _kafka_answer(connection: socket.socket) -> None:
    _exactly(connection, _SIZE.unpack(_exactly(connection, _SIZE.size))[0])


def _tubemq_answer(connection: socket.socket) -> None:
    _, _, blocks, size = _TUBEMQ_HEAD.unpack(_exactly(connection, _TUBEMQ_HEAD.size))
    assert blocks == 1
    _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = connection.recv(count)
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the server hung up")
        data += piece
    return data


CASES: Mapping[str, tuple[Callable[[str], bytes], Callable[[socket.socket], None]]] = {
    "produce": (produce, _kafka_answer),
    "fetch": (fetch, _kafka_answer),
    "TubeMQ send": (send, _tubemq_answer),
}


def run(case: str, job: RawJob) -> float:
    """Seconds that the requests took."""
    make, answered = CASES[case]
    data = make(job.topic)
    connections = [socket.create_connection((job.host, job.port), _WITHIN_S) for _ in range(job.connections)]
    for each in connections:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begun = time.perf_counter()
    for _ in range(job.count // job.connections):
        _one_each(connections, data, answered)
    seconds = time.perf_counter() - begun
    for each in connections:
        each.close()
    return seconds


def _one_each(connections: Sequence[socket.socket], data: bytes, answered: Callable[[socket.socket], None]) -> None:
    for each in connections:
        each.sendall(data)
    for each in connections:
        answered(each)
