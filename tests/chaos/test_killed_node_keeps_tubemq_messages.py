"""SIGKILL under TubeMQ producers and consumers: what was acknowledged or committed is there, at its offset."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.client import Admin, RangeReader
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.protocols.tubemq.framing import TubeFraming
from penstock.protocols.tubemq.messages import (
    CommitOffsetRequestC2B,
    GetMessageRequestC2B,
    Message,
    RegisterRequestC2B,
    SendMessageRequestP2B,
)
from penstock.protocols.tubemq.methods import COMMIT_OFFSET, GET_MESSAGE, REGISTER_PARTITION, SEND_MESSAGE, Method
from penstock.protocols.tubemq.rpc import read_answer, request
from penstock.seams import NewTopic
from penstock.seams.framing import Frame
from penstock.testing import NodeProcess

PRODUCERS = 3
AT_ONCE = 50
MESSAGES = 2_000

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Line:
    """A plain socket that speaks TubeMQ's RPC."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._stream = self._socket.makefile("rb")
        self._framing = TubeFraming(answers=True)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> Frame:
        """Raises OSError at the end of the connection."""
        while True:
            wanted = self._framing.need()
            chunk = self._stream.read(wanted)
            if len(chunk) < wanted:
                raise ConnectionResetError
            frame = self._framing.feed(memoryview(chunk))
            if frame is not None:
                return frame

    def call(self, method: Method[Q, A], message: Q) -> A:
        self.send(b"".join(request(method, message, timeout_ms=10_000)(1)))
        return read_answer(method, self.receive())


class Producer:
    """Sends its own numbers, many at once, until all are acknowledged; again after a broken connection."""

    def __init__(self, number: int, port: int) -> None:
        self.numbers = range(number, MESSAGES, PRODUCERS)
        self.acknowledged: dict[int, int] = {}
        self._port = port

    def run(self) -> None:
        while left := [number for number in self.numbers if number not in self.acknowledged]:
            try:
                with closing(Line(self._port)) as line:
                    for at in range(0, len(left), AT_ONCE):
                        self._send(line, left[at : at + AT_ONCE])
            except OSError:
                continue

    def _send(self, line: Line, numbers: list[int]) -> None:
        framed = (
            part for number in numbers for part in request(SEND_MESSAGE, _message(number), timeout_ms=10_000)(number)
        )
        line.send(b"".join(framed))
        for _ in numbers:
            frame = line.receive()
            answer = read_answer(SEND_MESSAGE, frame)
            assert answer.success, answer.err_msg
            self.acknowledged[frame.correlation] = answer.append_offset // 28


def _message(number: int) -> SendMessageRequestP2B:
    return SendMessageRequestP2B(
        client_id="p", topic_name="t", partition_id=0, data=b"%d" % number, flag=0, check_sum=-1, sent_addr=0
    )


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    port = _free_port()
    with NodeProcess(tmp_path / "store", arguments=("--listen", f"tubemq://127.0.0.1:{port}")) as node:
        with Admin(node.address) as admin:
            admin.create_topics([NewTopic("t", 1)])
        producers = [Producer(number, port) for number in range(PRODUCERS)]
        threads = [threading.Thread(target=producer.run) for producer in producers]
        for thread in threads:
            thread.start()
        for share in sorted(dice.sample(range(1, 10), 2)):
            while sum(len(producer.acknowledged) for producer in producers) < MESSAGES * share // 10:
                threads[0].join(0.001)
            node.kill()
            node.start()
        for thread in threads:
            thread.join(120)
        stored = dict(_read_all(node))
        for producer in producers:
            assert set(producer.acknowledged) == set(producer.numbers)
            for number, offset in producer.acknowledged.items():
                assert stored[offset] == number
        assert _commits_survive(node, port, len(stored))


def _read_all(node: NodeProcess) -> Iterator[tuple[int, int]]:
    """Offset and number of everything in the log, through Kafka."""
    with RangeReader(node.address) as reader:
        partition = Partition("t", 0)
        end = reader.offsets({partition: OffsetSpec(name=Offset.LATEST)})[partition].offset
        for batch in reader.read(LogRange("t", 0, 0, end)):
            for record in batch:
                yield record.offset, int(record.value or b"-1")


def _commits_survive(node: NodeProcess, port: int, total: int) -> bool:
    """Read and confirm batches, kill the node after each; every time reading goes on behind what was confirmed."""
    known = 0
    while known < total:
        with closing(Line(port)) as line:
            who: dict[str, Any] = {"client_id": "c", "group_name": "g", "topic_name": "t", "partition_id": 0}
            booked = line.call(REGISTER_PARTITION, RegisterRequestC2B(op_type=31, read_status=0, **who))
            assert booked.curr_offset == known * 28
            got = line.call(GET_MESSAGE, GetMessageRequestC2B(**who))
            assert got.curr_offset == known * 28
            known += len(got.messages)
            assert line.call(COMMIT_OFFSET, CommitOffsetRequestC2B(**who)).curr_offset == known * 28
        node.kill()
        node.start()
    return True


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
